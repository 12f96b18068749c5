"""`jbm-kafka browse`: looks at messages and leaves them where they are."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

import click

from jbm_kafka.admin import QueueLook
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import json_option, selector_option, subscription_options
from jbm_kafka.cli.connect import Named, admin_of, as_named, looked_into
from jbm_kafka.cli.render import as_values, body_of, brief, json_line, printable, table, when
from jbm_kafka.core.redelivery import FOREVER_MS
from jbm_kafka.core.states import MessageState
from jbm_kafka.jms.message import Message

T = TypeVar("T")
ROWS_MAX = 1000
"""A table is laid out as a whole; who wants more takes --json, which has no end."""


@click.command(epilog="Example: jbm-kafka browse orders --all")
@click.argument("destination", callback=as_named, metavar="DEST")
@click.option("--all", "is_all", is_flag=True, help="Also what waits: behind others of its unit, or for a time.")
@subscription_options
@selector_option
@cluster_options
@json_option
def browse(
    destination: Named,
    is_all: bool,
    subscription: str | None,
    client_id: str,
    selector: str | None,
    cluster: Cluster,
    as_json: bool,
) -> None:
    """Show a queue's messages without receiving them: those that could be received now, so the first of each unit.

    With --subscription those of a topic's subscription.

    How many others there are, and why they wait, is said at the end on standard error.
    """
    with admin_of(cluster) as admin:
        messages = admin.browse(
            destination,
            subscription=subscription,
            client_id=client_id,
            selector=selector,
            include="all" if is_all else "deliverable",
        )
        if as_json:
            _print_json(messages)
            _print_not_shown(messages)
            return
        rows, more = first_rows(messages)
    if not rows:
        where = looked_into(destination, subscription)
        of = "" if selector is None else " of what the selector chooses"
        click.echo(f"{where}: nothing to receive now{of}" if messages.not_shown else f"{where}: no messages{of}")
        _print_not_shown(messages)
        return
    cells = [
        (_part(m), _offset(m), _text(m.unit_of_order), m.delivery_count or None, when(m.timestamp),
         _not_before(m), brief(body_of(m)))
        for m in rows
    ]  # fmt: skip
    table(("partition", "offset", "unit", "tries", "sent (UTC)", "not before", "body"), cells)
    if more:
        print_more(more)
    else:
        _print_not_shown(messages)


def _not_before(message: Message) -> str:
    """When it may be received; one on hold is for an operator to see to."""
    if message.state is MessageState.DELIVERED:
        return "in hand"
    return "on hold" if message.delivery_time >= FOREVER_MS else when(message.delivery_time)


def _print_not_shown(messages: QueueLook) -> None:
    """How many more the queue has; on standard error, for it is none of them."""
    total = sum(messages.not_shown.values())
    if total:
        why = ", ".join(f"{count} {wait.value}" for wait, count in messages.not_shown.items())
        verb = "message is" if total == 1 else "messages are"
        click.echo(f"{total} {verb} not shown: {why}; --all shows all", err=True)


def _print_json(messages: Iterable[Message]) -> None:
    for message in messages:
        click.echo(json_line(as_values(message)))


def first_rows(messages: Iterator[T]) -> tuple[list[T], bool]:
    """The first of them, and whether there are more."""
    rows: list[T] = []
    for message in messages:
        if len(rows) == ROWS_MAX:
            return rows, True
        rows.append(message)
    return rows, False


def print_more(more: bool) -> None:
    """Say that a table does not have all, if so."""
    if more:
        click.echo(f"... and more than these {ROWS_MAX}; --json shows all")


def _text(value: object) -> str | None:
    return None if value is None else printable(str(value))


def _part(message: Message) -> int | None:
    return None if message.kafka is None else message.kafka.partition


def _offset(message: Message) -> int | None:
    return None if message.kafka is None else message.kafka.offset
