"""`jbm-kafka pause | resume`: nothing more is sent to a destination or received from it, until it may go on."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

import click

from jbm_kafka.admin import Halt, Pause
from jbm_kafka.admin.pausing import BOTH, PARTS, What, operator_name
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Text, emit, json_option
from jbm_kafka.cli.connect import Named, admin_of, as_named, name_of
from jbm_kafka.cli.ending import Interrupted, unwinding
from jbm_kafka.cli.render import json_line, printable, when
from jbm_kafka.core.jms_errors import InvalidSettingError, JMSError


def _as_part(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    if value is None:
        return "both"
    if value not in (*PARTS, *PARTS.values()):
        raise click.BadParameter(f"{value!r}: it is sending or receiving", context, parameter)
    return PARTS.get(value, value)


def _as_name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else operator_name(value)
    except InvalidSettingError as error:
        raise click.BadParameter(str(error).removeprefix("by is "), context, parameter) from None


WHAT = click.option("--only", "what", metavar="sending|receiving", callback=_as_part, help="One of both. [both]")


@click.command(short_help="Stop sending to and receiving from a queue or topic.")
@click.argument("destination", callback=as_named, metavar="NAME")
@WHAT
@click.option("--by", metavar="WHO", type=Text(), callback=_as_name, help="The name that people read. [user@host]")
@cluster_options
@json_option
def pause(destination: Named, what: What, by: str | None, cluster: Cluster, as_json: bool) -> None:
    """Stop sending to and receiving from a queue or topic, in all processes, until `jbm-kafka resume`.

    A topic stops with all of its subscriptions. Sends fail with an error that says so. Receivers get nothing more; what
    they have in hand they go on with.
    """
    name = name_of(destination)
    with admin_of(cluster) as admin, _paused_on_interrupt(name), unwinding():
        made = admin.pause(destination, what, by=by)
    emit(pause_values(name, made), f"{name}: {pause_text(made)}", as_json=as_json)


@contextmanager
def _paused_on_interrupt(name: str) -> Iterator[None]:
    """An interrupt says that it may be paused already."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"{name} may be paused already; jbm-kafka resume {name} ends that") from None


@click.command(short_help="Let a paused queue or topic go on.")
@click.argument("destination", callback=as_named, metavar="NAME")
@WHAT
@cluster_options
@json_option
def resume(destination: Named, what: What, cluster: Cluster, as_json: bool) -> None:
    """Let a paused queue or topic go on. Processes hear it within a second or two.

    Where nothing of that was paused the exit code is 1.
    """
    with admin_of(cluster) as admin:
        before = admin.paused(destination)
        left = admin.resume(destination, what)
    name = name_of(destination)
    parts = BOTH if what == "both" else (what,)
    if all(getattr(before, part) is None for part in parts):
        if as_json:
            click.echo(json_line(pause_values(name, left)))
        raise JMSError(f"{name}: {_not_paused(what, left)}")
    ended = Pause(**{part: getattr(before, part) for part in parts})
    text = f"{pause_text(left, none='not paused any more')}; before, {pause_text(ended)}"
    emit(pause_values(name, left), f"{name}: {text}", as_json=as_json)


def _not_paused(what: str, left: Pause) -> str:
    """That there was nothing to let go on, and what else is paused."""
    words = {part: word for word, part in PARTS.items()}
    text = "it was not paused" if what == "both" else f"{words[what]} was not paused"
    return text if left == Pause() else f"{text}; {pause_text(left)}"


def pause_text(pause: Pause, *, none: str = "not paused") -> str:
    """Return what is paused, on one line; `none`: that nothing is."""
    parts = [
        f"{word} paused by {printable(halt.by)} since {when(halt.since_ms)} UTC"
        for word, halt in (("sending", pause.production), ("receiving", pause.consumption))
        if halt is not None
    ]
    return ", ".join(parts) or none


def pause_values(name: str, pause: Pause) -> dict[str, object]:
    """For a program."""
    return {"name": name, "production": _values(pause.production), "consumption": _values(pause.consumption)}


def _values(halt: Halt | None) -> dict[str, object] | None:
    return None if halt is None else asdict(halt)
