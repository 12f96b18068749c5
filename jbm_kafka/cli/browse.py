"""`jbm-kafka browse`, `jbm-kafka dead-letters list`: look at messages and leave them where they are."""

from collections.abc import Iterable, Iterator

import click

from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import admin_of, as_queue, later
from jbm_kafka.cli.options import json_option
from jbm_kafka.cli.render import as_values, brief, json_line, printable, table, when
from jbm_kafka.codec.dead_letter import DEAD_LETTER_REASON, DELIVERY_COUNT, ORIG_DESTINATION, ORIG_MESSAGE_ID
from jbm_kafka.core.destination import Queue
from jbm_kafka.jms.messages import Message

ROWS_MAX = 1000
"""A table is laid out as a whole; who wants more takes --json, which has no end."""


@click.command()
@click.argument("queue", callback=as_queue, metavar="DEST")
@click.option("--all", "is_all", is_flag=True, help="Also what waits: behind others of its unit, or for a time.")
@click.option("--selector", metavar="S", help="Comes with a later version.")
@cluster_options
@json_option
def browse(queue: Queue, is_all: bool, selector: str | None, cluster: Cluster, as_json: bool) -> None:
    """Show a queue's messages without receiving them: those that could be received now, so the first of each unit."""
    later("--selector", selector)
    with admin_of(cluster) as admin:
        messages = admin.browse(queue, include="all" if is_all else "deliverable")
        if as_json:
            _print_json(messages)
            return
        rows, more = _some(messages)
    if not rows:
        click.echo(f"{queue}: nothing to receive now" + ("" if is_all else " (--all shows what waits)"))
        return
    cells = [
        (_part(m), _offset(m), _text(m.unit_of_order), m.delivery_count or None, when(m.timestamp),
         when(m.delivery_time), brief(m.body))
        for m in rows
    ]  # fmt: skip
    table(("partition", "offset", "unit", "tries", "sent (UTC)", "not before", "body"), cells)
    _tell_more(more)


@click.group(name="dead-letters")
def dead_letters() -> None:
    """Messages that were given up."""


@dead_letters.command(name="list")
@click.option("--from", "origin", callback=as_queue, metavar="DEST", help="Only those that came from this queue.")
@click.option(
    "--address", metavar="DEST", callback=as_queue, default="DLQ", show_default=True, help="The dead-letter queue."
)
@click.option("--selector", metavar="S", help="Comes with a later version.")
@cluster_options
@json_option
def list_dead_letters(
    origin: Queue | None, address: Queue, selector: str | None, cluster: Cluster, as_json: bool
) -> None:
    """List dead letters with where they came from and why. They stay where they are."""
    later("--selector", selector)
    with admin_of(cluster) as admin:
        # The shipped one is made when the first receiver comes; until then there are simply no dead letters.
        is_there = address.name != "DLQ" or admin.exists(address)
        found = _from(origin, admin.browse(address, include="all")) if is_there else iter(())
        if as_json:
            _print_json(found)
            return
        rows, more = _some(found)
    if not rows:
        click.echo(f"no dead letters in {address}" + ("" if origin is None else f" from {origin}"))
        return
    cells = [
        (when(_died_at_ms(m)), *(_text(m.properties.get(name)) for name in (ORIG_DESTINATION, DEAD_LETTER_REASON)),
         m.properties.get(DELIVERY_COUNT), _text(m.unit_of_order), _text(m.properties.get(ORIG_MESSAGE_ID)),
         brief(m.body))
        for m in rows
    ]  # fmt: skip
    table(("died (UTC)", "from", "reason", "tries", "unit", "message", "body"), cells)
    _tell_more(more)


def _print_json(messages: Iterable[Message]) -> None:
    for message in messages:
        click.echo(json_line(as_values(message)))


def _some(messages: Iterator[Message]) -> tuple[list[Message], bool]:
    """The first of them, and whether there are more."""
    rows: list[Message] = []
    for message in messages:
        if len(rows) == ROWS_MAX:
            return rows, True
        rows.append(message)
    return rows, False


def _tell_more(more: bool) -> None:
    if more:
        click.echo(f"... and more than these {ROWS_MAX}; --json shows all")


def _from(origin: Queue | None, messages: Iterator[Message]) -> Iterator[Message]:
    return (m for m in messages if origin is None or m.properties.get(ORIG_DESTINATION) == str(origin))


def _died_at_ms(message: Message) -> int:
    """The copy's own record time; JMSTimestamp may still be the original's."""
    record = message._record
    return message.timestamp if record is None else record.timestamp()[1]


def _text(value: object) -> str | None:
    return None if value is None else printable(str(value))


def _part(message: Message) -> int | None:
    return None if message.kafka is None else message.kafka.partition


def _offset(message: Message) -> int | None:
    return None if message.kafka is None else message.kafka.offset
