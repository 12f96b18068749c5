"""`jbm-kafka broker start|stop|status`: a real Apache Kafka on this machine."""

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import click

from jbm_kafka.cli.command_options import Whole, emit, json_option
from jbm_kafka.cli.lazy import CommandGroup
from jbm_kafka.devbroker import LocalBroker, LocalBrokerError
from jbm_kafka.devbroker.broker import BrokerStatus
from jbm_kafka.devbroker.ports import is_free

Function = TypeVar("Function", bound=Callable[..., Any])

USUAL_PORT = 9092
"""Taken when it is free, so that what everybody writes in examples works."""


def _check_folder(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Refuse an empty path: it would be the current folder."""
    if value == Path():
        raise click.BadParameter("name a folder, or leave it out for the usual one", context, parameter)
    return value


def data_dir_option(function: Function) -> Function:
    """`--data-dir`; passed as `data_dir`."""
    option = click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        callback=_check_folder,
        help="Its data, settings and log. [$JBM_HOME/broker, else ~/.local/state/jbm-kafka/broker]",
    )
    return option(function)


@click.group(cls=CommandGroup)
def broker() -> None:
    """A local Apache Kafka (one node) for development; what it stores survives stop and start."""


@broker.command()
@click.option("--port", type=Whole(1024, 65535), metavar="N", help="[that of the last run, else 9092, else a free one]")
@data_dir_option
@json_option
def start(port: int | None, data_dir: Path | None, as_json: bool) -> None:
    """Start it, and return when it answers. One that runs already is left alone."""
    local = LocalBroker(data_dir)
    is_usual_free = is_free(USUAL_PORT)
    is_new = local.start(port, preferred_port=USUAL_PORT)
    status = local.status()
    word = "started" if is_new else "running already"
    text = f"Kafka {word} at {status.bootstrap} (process {status.pid}, data in {status.data_dir})"
    emit({"started": is_new, **_values(status)}, text, as_json=as_json)
    if port is None and status.bootstrap is not None and status.bootstrap != f"127.0.0.1:{USUAL_PORT}":
        why = "it keeps the port of its last run" if is_usual_free else f"port {USUAL_PORT} is taken by another program"
        click.echo(f"{why}; for programs: export JBM_BOOTSTRAP={status.bootstrap}", err=True)


@broker.command()
@data_dir_option
@json_option
def stop(data_dir: Path | None, as_json: bool) -> None:
    """Stop it in order; nothing stored is lost."""
    local = LocalBroker(data_dir)
    was_running = local.stop()
    text = "Kafka stopped" if was_running else f"no broker of {local.data_dir} was running"
    emit({"stopped": was_running, **_values(local.status())}, text, as_json=as_json)


@broker.command()
@data_dir_option
@json_option
def status(data_dir: Path | None, as_json: bool) -> None:
    """Say whether it runs and answers; exit code 1 if it does not."""
    local = LocalBroker(data_dir)
    now = local.status()
    if as_json:
        emit(_values(now), "", as_json=True)
        raise click.exceptions.Exit(0 if now.is_answering else 1)
    if not now.is_running:
        option = "" if data_dir is None else f" --data-dir {quote(str(data_dir))}"
        raise LocalBrokerError(
            f"stopped: no broker of {now.data_dir} is running; start one with: jbm-kafka broker start{option}"
        )
    if not now.is_answering:
        raise LocalBrokerError(
            f"the broker process {now.pid} does not answer at {now.bootstrap}; its log is {local.log_file}"
        )
    click.echo(f"Kafka runs at {now.bootstrap} (process {now.pid}, data in {now.data_dir})")


def _values(status: BrokerStatus) -> dict[str, object]:
    return {
        "running": status.is_running,
        "answering": status.is_answering,
        "bootstrap": status.bootstrap,
        "pid": status.pid,
        "data_dir": str(status.data_dir),
    }
