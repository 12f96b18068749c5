"""`jbm-kafka sidecar`: the sidecar as a server of AMQP 1.0, in a process of its own."""

from __future__ import annotations

import json
import logging
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import click

from jbm_kafka.cli.cluster_options import ClusterUsageError, Configured, configuration_options
from jbm_kafka.cli.ending import until_asked_to_end
from jbm_kafka.cli.lazy import CommandGroup
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.open_files import files_needed, too_few_files
from jbm_kafka.ports.file_limit import file_limit

if TYPE_CHECKING:
    from jbm_kafka.amqp.amqp_server import Server
    from jbm_kafka.cli.sidecar_file import SidecarFile
    from jbm_kafka.ports.provider import ServingProvider

log = logging.getLogger(__name__)

FILES_MAX = 65_536
_BARE = re.compile(r"[A-Za-z0-9_-]+")


@click.group(cls=CommandGroup)
def sidecar() -> None:
    """A server of AMQP 1.0: its clients, such as Qpid JMS, use the queues and topics. docs/amqp.md."""


@sidecar.command()
@click.argument("file", metavar="[FILE]", required=False)
@configuration_options
def run(file: str | None, configured: Configured) -> None:
    """Serve AMQP clients as the configuration says, until SIGTERM or Ctrl-C. FILE is that of --config.

    It then takes no new clients, waits up to drain_s for what they have in hand, and ends with 0. A second signal ends
    it at once.
    """
    from jbm_kafka.cli.cluster_settings import SettingsFault
    from jbm_kafka.cli.connect import contact
    from jbm_kafka.cli.sidecar_file import sidecar_of

    configured = configured.at(file)
    try:
        said = sidecar_of(configured.loaded)
    except (SettingsFault, JMSError, ClusterUsageError) as fault:
        raise click.ClickException(str(fault)) from None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    _allow_many_files()
    clients = said.server.limits.connections
    if few := too_few_files(file_limit(), files_needed(1, clients), f"its {clients} clients and a queue"):
        log.warning("%s; 8 more for each queue. Or let fewer clients in: connections below [amqp.limits]", few)
    contact(said.cluster)  # first: a server that was made and never begins leaves its event loop open
    with until_asked_to_end() as wait, _console(said, configured):  # and this, or clients would come in vain
        made = _server(said)
        with made, _metrics(said, made):
            where = [f"{each.host}:{port}" for each, port in zip(said.server.listeners, made.ports, strict=True)]
            click.echo(f"serves AMQP at {', '.join(where)}", err=True)
            wait()
            log.info("asked to end: clients have %g s for what they have in hand", said.server.drain_s)
            made.stop()


@sidecar.command()
@click.argument("name", metavar="NAME")
def user(name: str) -> None:
    """Print the lines of a user for the sidecar's file. They have what proves his password, and not the password.

    It is asked for, or is the first line of standard input.
    """
    from jbm_kafka.amqp.scram import Verifier

    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("there is no password on standard input; write one line")
    quoted = name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
    click.echo(f'[users.{quoted}]\npassword = "{Verifier.of_password(password)}"')
    click.echo('send = ["#"]        # patterns of names: "orders", "orders.*", "#" for all\nreceive = ["#"]')


def _server(said: SidecarFile) -> Server:
    try:
        from jbm_kafka.amqp.amqp_server import Server
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in ("proton", "cproton", "cffi"):
            raise
        text = "AMQP needs qpid-proton, which is built from source: pip install 'jbm-kafka[amqp]' (jbm-kafka docs amqp)"
        raise click.ClickException(text) from None
    return Server(said.server, lambda: cast("ServingProvider", said.factory._open_provider()))


@contextmanager
def _metrics(said: SidecarFile, made: Server) -> Iterator[None]:
    if said.metrics_port is None:
        yield
        return
    try:
        from jbm_kafka.cli.exporter_command import backlog_of, following
        from jbm_kafka.metrics.server import MetricsServer
    except ImportError:
        text = "metrics_port needs prometheus-client: pip install 'jbm-kafka[metrics]', or leave it out"
        raise click.ClickException(text) from None
    with ExitStack() as opened:
        more = [backlog_of(opened.enter_context(following(said.cluster)))] if said.has_backlog_metrics else []
        opened.enter_context(MetricsServer.of_connection(said.metrics_port, lambda: made, *more))
        yield


@contextmanager
def _console(said: SidecarFile, configured: Configured) -> Iterator[None]:
    if said.console_port is None:
        yield
        return
    from jbm_kafka.cli.cluster_settings import SettingsFault

    try:
        from jbm_kafka.cli.console_file import console_of
        from jbm_kafka.console import app
        from jbm_kafka.console.serving import ConsoleServer
    except ImportError as error:
        raise click.ClickException(f"console_port: {error}, or leave it out") from None
    try:
        of_console = console_of(configured.loaded, said.cluster, overrides=configured.arguments)
    except SettingsFault as fault:
        raise click.ClickException(str(fault)) from None
    at = replace(of_console.address, port=said.console_port)
    with ConsoleServer(app(of_console.looked_at, of_console.settings), at) as server:
        click.echo(f"serves the console at {server.url}", err=True)
        yield


def _allow_many_files() -> None:
    """Each connection takes one, and the usual limit is for programs that have few."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if most == resource.RLIM_INFINITY else min(most, FILES_MAX)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
