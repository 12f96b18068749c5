"""`jbm-kafka browse`: looks at messages and leaves them where they are."""

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

import click

from jbm_kafka.admin import QueueLook
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import (
    ID,
    UNIT,
    Whole,
    count_option,
    json_lines_option,
    selector_option,
    subscription_options,
)
from jbm_kafka.cli.connect import Named, admin_of, as_named, looked_into, name_of
from jbm_kafka.cli.render import as_values, brief_of, json_line, printable, table, when
from jbm_kafka.codec.identity import UNIT_OF_ORDER
from jbm_kafka.core.channel.partition_names import named
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.messages.message import Message

T = TypeVar("T")
SHOW_MORE = "--count N shows so many, --json without it all"
ROWS = 100
"""The rows of a table without --count: people read it, and it is laid out as a whole."""
COUNTED_MAX = 50_000
"""So many of those behind it are counted: a second's work."""


@click.command(epilog="Example: jbm-kafka browse orders --all")
@click.argument("destination", callback=as_named, metavar="DEST")
@click.option("--all", "is_all", is_flag=True, help="Also what waits: behind others of its unit, or for a time.")
@click.option("--unit", metavar="U", type=UNIT, help="This unit of order.")
@click.option("--id", "ids", metavar="ID", multiple=True, type=ID,
              help="That of this id, also one that waits; several times.")  # fmt: skip
@click.option("--partition", "partitions", metavar="N", multiple=True, type=Whole(0, 9_999),
              help="What this partition holds, also what waits; several times.")  # fmt: skip
@subscription_options
@selector_option
@count_option
@cluster_options
@json_lines_option
def browse(
    destination: Named,
    is_all: bool,
    unit: str | None,
    ids: Sequence[str],
    partitions: Sequence[int],
    subscription: str | None,
    client_id: str,
    selector: str | None,
    count: int | None,
    cluster: Cluster,
    as_json: bool,
) -> None:
    """Show a queue's messages without receiving them: those that could be received now, so the first of each unit.

    With --subscription those of a topic's subscription.

    How many others there are, and why they wait, is said at the end on standard error.
    """
    with admin_of(cluster) as admin:
        if partitions:
            _check_there(partitions, admin.partitions(destination), destination)
        look = admin.browse(
            destination,
            subscription=subscription,
            client_id=client_id,
            selector=_narrowed(unit, ids, selector),
            include="all" if is_all or ids or partitions else "deliverable",
            tell=lambda text: click.echo(text, err=True),
        )
        messages = _in_partitions(look, partitions)  # one look: what is counted is what comes behind the rows
        if as_json:
            _print_json(messages if count is None else islice(messages, count))
            _print_rest(look, counted(messages))
            return
        rows, more = first_rows(messages, count)
        if not (rows or look.not_shown):
            counts = admin.counts(destination, subscription=subscription, client_id=client_id, count_max=0)
            _print_uncommitted(counts.uncommitted, destination)
    if not rows:
        none = "nothing to receive now" if look.not_shown else "no messages"
        click.echo(f"{looked_into(destination, subscription)}: {none}{_asked(unit, ids, selector, partitions)}")
        _print_not_shown(look)
        return
    failed = any(m.last_error for m in rows)
    cells = [
        (_part(m), _offset(m), _text(m.unit_of_order), m.delivery_count or None, when(m.timestamp),
         _not_before(m), *([m.last_error] if failed else ()), m.message_id, brief_of(m))
        for m in rows
    ]  # fmt: skip
    shown = "partition", "offset", "unit", "attempts", "sent (UTC)", "not before"
    table((*shown, *(["last error"] if failed else ()), "message", "body"), cells)
    _print_rest(look, more)


def _narrowed(unit: str | None, ids: Sequence[str], selector: str | None) -> str | None:
    """The selector, narrowed to this unit and to these ids."""
    said = [] if selector is None else [f"({selector})"]
    said += [] if unit is None else [f"{UNIT_OF_ORDER} = {_literal(unit)}"]
    said += [f"JMSMessageID IN ({', '.join(map(_literal, ids))})"] if ids else []
    return " AND ".join(said) or None


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _check_there(partitions: Iterable[int], count: int, destination: Named) -> None:
    """One that is not there holds nothing, which would be taken for an answer."""
    beyond = [each for each in partitions if each >= count]
    if beyond:
        raise JMSError(f"{name_of(destination)} has no partition {beyond[0]}: its last one is {count - 1}")


def _in_partitions(messages: Iterable[Message], partitions: Container[int]) -> Iterator[Message]:
    """Return those that lie in one of these; all where none is named."""
    return (each for each in messages if not partitions or _part(each) in partitions)


def _asked(unit: str | None, ids: Sequence[str], selector: str | None, partitions: Sequence[int]) -> str:
    """Which messages were asked for, for people; nothing when all were."""
    chosen = [f" of unit {printable(unit)}"] if unit is not None else []
    chosen += [f" with id {printable(', '.join(ids))}"] if ids else []
    chosen += [f" in {named(sorted(set(partitions)))}"] if partitions else []
    chosen += [" of what the selector chooses"] if selector is not None else []
    return "".join(chosen)


def _print_uncommitted(count: int, destination: Named) -> None:
    """That there is something, which nobody can read yet; on standard error, for it is no message yet."""
    if count:
        records = "1 record waits" if count == 1 else f"{count} records wait"
        hint = f"jbm-kafka explain {name_of(destination)} tells whose"
        click.echo(f"{records} for the end of a Kafka transaction, and cannot be read before; {hint}", err=True)


def _print_rest(look: QueueLook, more: int) -> None:
    """Print how much is not shown, as far as it was looked at."""
    print_more(more, SHOW_MORE)
    if more <= COUNTED_MAX:
        _print_not_shown(look)


def _not_before(message: Message) -> str:
    """When it may be received; one on hold is for an operator to see to."""
    if message.state is MessageState.DELIVERED:
        return "in hand"
    return "on hold" if message.delivery_time >= FOREVER_MS else when(message.delivery_time)


def _print_not_shown(look: QueueLook) -> None:
    """Print on standard error how many more messages the queue has, and why they wait."""
    total = sum(look.not_shown.values())
    if total:
        why = ", ".join(f"{count} {wait.value}" for wait, count in look.not_shown.items())
        verb = "message is" if total == 1 else "messages are"
        click.echo(f"{total} {verb} not shown: {why}; --all shows all", err=True)


def _print_json(messages: Iterable[Message]) -> None:
    for message in messages:
        click.echo(json_line(as_values(message)))


def first_rows(messages: Iterator[T], count: int | None = None) -> tuple[list[T], int]:
    """The first rows, and the number of those behind them, as `counted` gives it."""
    rows = list(islice(messages, count or ROWS))
    return rows, counted(messages)


def counted(messages: Iterator[object]) -> int:
    """How many are left; one more than `COUNTED_MAX` for more than that, and then there are some to come."""
    return sum(1 for _ in islice(messages, COUNTED_MAX + 1))


def print_more(more: int, how: str) -> None:
    """Print on standard error how many rows a table left out, if any, and how to see them."""
    if more:
        number = f"more than {COUNTED_MAX}" if more > COUNTED_MAX else str(more)
        click.echo(f"{number} more {'is' if more == 1 else 'are'} not shown; {how}", err=True)


def _text(value: object) -> str | None:
    return None if value is None else printable(str(value))


def _part(message: Message) -> int | None:
    return None if message.kafka is None else message.kafka.partition


def _offset(message: Message) -> int | None:
    return None if message.kafka is None else message.kafka.offset
