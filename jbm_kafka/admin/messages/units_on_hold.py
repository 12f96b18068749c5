"""Units that wait for an operator, and letting them go (UNIT-16)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jbm_kafka.admin.cluster.admin_arguments import check_named
from jbm_kafka.admin.owners.owner_client import Owners
from jbm_kafka.codec.identity import message_id_of, unit_name
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.summary import summary
from jbm_kafka.ports.provider import Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldMessage:
    """A message that used up its attempts where `on_dead_letter` is "hold": its unit waits for an operator."""

    partition: int
    """The number of the Kafka topic's partition."""
    offset: int
    """Its place in the partition."""
    unit: str | None
    """Its unit of order, which waits with it; None: it has none."""
    message_id: str
    """As `message.message_id`."""
    attempts: int
    """How often it was delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseReport:
    """The outcome of a release, or the one that it would have."""

    queue: Destination
    """The queue, or the topic of the subscription."""
    is_dry_run: bool
    """Nothing was done: the rest tells what would be."""
    again: bool
    """They are tried anew; else they leave for the dead-letter address."""
    messages: Sequence[HeldMessage]
    """Released; their units go on."""
    gone: Sequence[HeldMessage]
    """Somebody else had released them when their owner was asked."""

    def __repr__(self) -> str:
        return summary(
            self, self.queue, is_dry_run=self.is_dry_run, again=self.again, messages=self.messages, gone=self.gone
        )


def check_which(unit: str | None, message_id: str | None, *, everything: bool) -> None:
    """Raises InvalidSettingError unless it is said which units are meant: `everything`, or unit, message id or both."""
    check_named("unit", unit)
    check_named("message_id", message_id)
    is_narrowed = unit is not None or message_id is not None
    if everything == is_narrowed:
        remedy = (
            "everything=True means all units, and unit or message_id only some: give one or the other"
            if everything
            else "say which units are meant: by unit or message_id, or else everything=True"
        )
        raise InvalidSettingError(remedy, setting="everything", value=everything)


def on_hold(seen: Iterable[Seen], *, unit: str | None, message_id: str | None) -> list[HeldMessage]:
    """Return those that wait for an operator: of this unit, with this id, or all."""
    found: list[HeldMessage] = []
    for each in seen:
        record = each.record
        topic, partition, offset = record.topic() or "", record.partition() or 0, record.offset() or 0
        held = HeldMessage(
            partition=partition,
            offset=offset,
            unit=unit_name(record.key()),
            message_id=message_id_of(record.headers(), topic, partition, offset),
            attempts=each.attempts,
        )
        is_wanted = unit in (None, held.unit) and message_id in (None, held.message_id)
        if each.due_at_ms >= FOREVER_MS and is_wanted:
            found.append(held)
    return found


def release(
    queue: Destination, found: Sequence[HeldMessage], owners: Owners, *, again: bool, dry_run: bool, timeout_s: float
) -> ReleaseReport:
    """Have their owners release these.

    Raises as `Owners.ask` does.
    """
    released = found
    if found and not dry_run:
        places: dict[int, list[int]] = {}
        for each in found:
            places.setdefault(each.partition, []).append(each.offset)
        arguments = {partition: {"offsets": offsets, "again": again} for partition, offsets in places.items()}
        answers = owners.ask("release", arguments, timeout_s=timeout_s)
        released = [each for each in found if each.offset in answers[each.partition]["offsets"]]
    return ReleaseReport(
        queue=queue,
        is_dry_run=dry_run,
        again=again,
        messages=released,
        gone=[each for each in found if each not in released],
    )
