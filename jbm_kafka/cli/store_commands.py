"""`jbm-kafka store show | forward | drop`: what a sender has stored beside itself (docs/store-and-forward.md)."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import cast

import click

from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Seconds, Whole, check_can_ask, emit, json_list_option, json_option
from jbm_kafka.cli.connect import contact, factory_of
from jbm_kafka.cli.lazy import CommandGroup
from jbm_kafka.cli.render import json_line, printable, table, when
from jbm_kafka.codec.identity import unit_name
from jbm_kafka.codec.stored_sends import StoredEntry
from jbm_kafka.jms.connection import provider_of
from jbm_kafka.ports.clock import SystemClock
from jbm_kafka.store_and_forward.send_store import SendStore, look_into, namespace_of
from jbm_kafka.store_and_forward.store_limits import StoreLimits
from jbm_kafka.store_and_forward.storing_provider import StoringProvider

folder_argument = click.argument("folder", type=click.Path(file_okay=False, path_type=Path))


@click.group(name="store", cls=CommandGroup)
def store() -> None:
    """What a sender has stored in its folder, while Kafka was away or refused it."""


@store.command()
@folder_argument
@click.option("--count", metavar="N", type=Whole(0, 1_000_000), default=20, show_default=True,
              help="So many that wait, at most; dead letters are all shown.")  # fmt: skip
@json_list_option
def show(folder: Path, count: int, as_json: bool) -> None:
    """Show what waits, and dead letters with their reasons; also while a sender has the folder."""
    found = look_into(folder, count)
    rows = [*(_row("dead", each) for each in found.set_aside), *(_row("waits", each) for each in found.waiting)]
    if as_json:
        click.echo(json_line(rows))
        return
    counts = found.counts
    since = f", the oldest since {when(counts.oldest_at_ms)}" if counts.waiting else ""
    held = f"; process {found.holder} has it" if found.holder else ""
    lost = f", {counts.lost} lost when the machine stopped" if counts.lost else ""
    click.echo(
        f"{counts.waiting} waiting ({counts.waiting_bytes} bytes{since}), {counts.set_aside} dead letters{lost}{held}"
    )
    if rows:
        columns = ("number", "state", "to", "unit", "sends", "stored (UTC)", "attempts", "reason")
        names = ("number", "state", "destination", "unit", "sends", "stored_at_ms", "attempts", "reason")
        shown = [[when(int(str(row[name]))) if name == "stored_at_ms" else _text(row[name]) for name in names]
                 for row in rows]  # fmt: skip
        table(columns, shown)


@store.command()
@folder_argument
@click.option("--retry", is_flag=True, help="Dead letters of the store too, behind all others.")
@click.option("--timeout", metavar="S", type=Seconds(0, 1e6), default=60.0, show_default=True, help="At most so long.")
@cluster_options
@json_option
def forward(folder: Path, retry: bool, timeout: float, cluster: Cluster, as_json: bool) -> None:
    """Forward what is stored, when its sender is gone. Missing queues are made, as a sender makes them.

    Exit code 1: something still waits, or is a dead letter.
    """
    if (wanted := namespace_of(folder)) != cluster.namespace:
        raise click.UsageError(f"{folder} is a store of namespace {wanted!r}: --namespace {wanted or repr('')}")
    contact(cluster)
    with _without_lines(), factory_of(cluster, store_and_forward=folder).create_connection() as connection:
        storing = cast(StoringProvider, provider_of(connection))
        retried = storing.retry_set_aside() if retry else 0
        storing.forward(timeout)
        counts, forwarded, troubles = storing.stored(), storing.forwarded, storing.troubles()
    values: dict[str, object] = {
        "forwarded": forwarded, "retried": retried, "waiting": counts.waiting, "dead_letters": counts.set_aside,
    }  # fmt: skip
    text = f"{forwarded} forwarded, {counts.waiting} waiting, {counts.set_aside} dead letters"
    emit(values, "; ".join([text, *troubles]), as_json=as_json)
    if counts.waiting or counts.set_aside:
        click.get_current_context().exit(1)


@store.command()
@folder_argument
@click.argument("numbers", metavar="[NUMBER]...", nargs=-1, type=Whole(1))
@click.option("--all", "is_all", is_flag=True, help="All dead letters; with --waiting all that waits.")
@click.option("--waiting", is_flag=True, help="Of what waits, in place of dead letters.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def drop(folder: Path, numbers: Sequence[int], is_all: bool, waiting: bool, yes: bool, as_json: bool) -> None:
    """Delete dead letters for good, by their numbers; their sender was told that they were sent."""
    if is_all == bool(numbers):
        raise click.UsageError("give the numbers that `show` tells, or --all")
    namespace = namespace_of(folder)
    found = SendStore.open(folder, namespace=namespace, limits=StoreLimits(), fsync=True, clock=SystemClock())
    with closing(found):
        if not yes:
            check_can_ask(as_json=as_json)
            counts = found.counts()
            many = (counts.waiting if waiting else counts.set_aside) if is_all else len(set(numbers))
            what = "that wait" if waiting else "that are dead letters"
            click.confirm(f"Delete {many} entries {what} for good?", abort=True, err=True)
        count = found.drop(None if is_all else numbers, set_aside=not waiting)
    emit({"dropped": count}, f"{count} dropped", as_json=as_json)


@contextmanager
def _without_lines() -> Iterator[None]:
    """Keep the store's lines out of the log within the block: what they tell is told at its end, once."""
    lines = logging.getLogger("jbm_kafka.store_and_forward")
    level = lines.level
    lines.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        lines.setLevel(level)


def _row(state: str, numbered: tuple[int, StoredEntry]) -> dict[str, object]:
    number, entry = numbered
    units = {send.key for send in entry.sends}
    key = units.pop() if len(units) == 1 else None
    return {
        "number": number,
        "state": state,
        "destination": ", ".join(dict.fromkeys(send.destination for send in entry.sends)),
        "unit": None if key is None else unit_name(key),
        "sends": len(entry.sends),
        "stored_at_ms": entry.stored_at_ms,
        "attempts": entry.attempts,
        "reason": entry.reason or None,
    }


def _text(value: object) -> str:
    return "" if value is None else printable(str(value))
