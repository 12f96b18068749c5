"""`jbm-kafka console`: queues in the browser."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from jbm_kafka.cli.cluster_options import Configured, configuration_options
from jbm_kafka.cli.cluster_settings import SettingsFault
from jbm_kafka.cli.connect import contact
from jbm_kafka.cli.ending import until_asked_to_end
from jbm_kafka.core.jms_errors import InvalidSettingError

WHERE = "http://127.0.0.1:8161"


@click.command()
@click.argument("where", metavar="[ADDRESS or FILE]", required=False)
@click.option("--listen", metavar="HOST:PORT",
              help="Where browsers find it. [FILE's console.listen; else 127.0.0.1:8161]")  # fmt: skip
@click.option("--read-only", is_flag=True, help="Nobody changes anything by it.")
@click.option("--new-token", metavar="NAME", help="Print a token for a program, and its lines for FILE, and end.")
@configuration_options
def console(
    where: str | None, listen: str | None, read_only: bool, new_token: str | None, configured: Configured
) -> None:
    """Show queues in the browser: what they hold, why it does not move, dead letters; and act on them.

    ADDRESS is Kafka's, as with --bootstrap. FILE is the configuration, as with --config, whose users have the rights
    `look` and `operate`; without users only browsers of this machine come in. Until SIGTERM or Ctrl-C.
    docs/console.md.
    """
    if new_token is not None:
        _print_token(new_token)
        return
    try:
        from jbm_kafka.cli.console_file import console_of
        from jbm_kafka.console import app
        from jbm_kafka.console.serving import ConsoleServer
    except ImportError as error:
        raise click.ClickException(str(error)) from None
    try:
        found = _at(where, configured)
        cluster = found.cluster(makes_world=True)
        said = console_of(found.loaded, cluster, listen, read_only=read_only, overrides=found.arguments)
    except SettingsFault as fault:
        raise click.ClickException(str(fault)) from None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    contact(said.cluster)
    try:
        with until_asked_to_end() as wait, ConsoleServer(app(said.looked_at, said.settings), said.address) as server:
            click.echo(f"serves the console at {server.url}", err=True)
            wait()
    except InvalidSettingError as error:
        raise click.ClickException(str(error)) from None


def _at(where: str | None, configured: Configured) -> Configured:
    """The configuration with an address or a file in place of what the options name."""
    if where is None:
        return configured
    if where.endswith(".toml") or Path(where).is_file():
        return configured.at(where)
    return Configured(configured.path, {**configured.arguments, "bootstrap": where})


def _print_token(name: str) -> None:
    from jbm_kafka.cli.console_tokens import new_token_lines

    secret, lines = new_token_lines(name)
    click.echo(f"the token, which is shown this once: {secret}", err=True)
    click.echo(lines)
