"""`jbm-kafka pause | resume`: nothing more is sent to a destination or received from it, until it may go on."""

from dataclasses import asdict

import click

from jbm_kafka.admin import Halt, Pause
from jbm_kafka.admin.pausing import by_whom
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import emit, json_option
from jbm_kafka.cli.connect import Named, admin_of, as_named, name_of
from jbm_kafka.cli.render import printable, when
from jbm_kafka.core.jms_errors import InvalidSettingError

PARTS = {"sending": "production", "receiving": "consumption"}
"""What people call them, and what `Admin` does; the command takes both."""


def _as_part(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    if value is None:
        return "both"
    if value not in (*PARTS, *PARTS.values()):
        raise click.BadParameter(f"{value!r}: it is sending or receiving", context, parameter)
    return PARTS.get(value, value)


def _as_who(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else by_whom(value)
    except InvalidSettingError as error:
        raise click.BadParameter(str(error).removeprefix("by is "), context, parameter) from None


WHAT = click.option("--only", "what", metavar="sending|receiving", callback=_as_part, help="One of both. [both]")


@click.command(short_help="Stop sending to and receiving from a queue or topic.")
@click.argument("destination", callback=as_named, metavar="NAME")
@WHAT
@click.option("--by", metavar="WHO", callback=_as_who, help="Who does, for people. [user@host]")
@cluster_options
@json_option
def pause(destination: Named, what: str, by: str | None, cluster: Cluster, as_json: bool) -> None:
    """Stop sending to and receiving from a queue or topic, in all processes, until `jbm-kafka resume`.

    Sends fail with an error that says so. Receivers get nothing more; what they have in hand they go on with.
    """
    with admin_of(cluster) as admin:
        made = admin.pause(destination, what, by=by)
    name = name_of(destination)
    emit(pause_values(name, made), f"{name}: {pause_text(made)}", as_json=as_json)


@click.command(short_help="Let a paused queue or topic go on.")
@click.argument("destination", callback=as_named, metavar="NAME")
@WHAT
@cluster_options
@json_option
def resume(destination: Named, what: str, cluster: Cluster, as_json: bool) -> None:
    """Let a paused queue or topic go on. Processes hear it within a second or two."""
    with admin_of(cluster) as admin:
        left = admin.resume(destination, what)
    name = name_of(destination)
    emit(pause_values(name, left), f"{name}: {pause_text(left)}", as_json=as_json)


def pause_text(pause: Pause) -> str:
    """What is paused, on one line."""
    told = [
        f"{word} paused by {printable(halt.by)} since {when(halt.since_ms)} UTC"
        for word, halt in (("sending", pause.production), ("receiving", pause.consumption))
        if halt is not None
    ]
    return ", ".join(told) or "not paused"


def pause_values(name: str, pause: Pause) -> dict[str, object]:
    """For a program."""
    return {"name": name, "production": _values(pause.production), "consumption": _values(pause.consumption)}


def _values(halt: Halt | None) -> dict[str, object] | None:
    return None if halt is None else asdict(halt)
