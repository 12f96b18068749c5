"""Held messages, unit by unit: the first message of each, and how many wait behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from jbm_kafka.admin.explain.explanation import ExplainedMessage, Reason
from jbm_kafka.codec.identity import message_id_of, unit_name
from jbm_kafka.codec.record_values import record_timestamp_ms
from jbm_kafka.codec.scan import scan
from jbm_kafka.core.channel.blocking_rule import Rule
from jbm_kafka.core.channel.redelivery import FOREVER_MS, is_expired
from jbm_kafka.core.channel.start_position import Reset
from jbm_kafka.core.channel.unit_places import UnitPlaces
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.ports.provider import Seen

Place = tuple[int, bytes | int]
"""A partition, and a unit there or the offset of a message without one."""


@dataclass(frozen=True, slots=True)
class HeldMessageRow:
    """One message, without its body."""

    partition: int
    offset: int
    key: bytes | None
    message_id: str
    sent_at_ms: int
    attempts: int
    rule: Rule
    """The rule that keeps it by topic and changelog; READY: nothing does."""
    due_at_ms: int
    last_error: str | None = None

    @property
    def unit(self) -> str | None:
        """Its unit's name."""
        return unit_name(self.key)

    @property
    def place(self) -> Place:
        """Where its unit is, or itself where it has none."""
        return self.partition, self.offset if self.key is None else self.key

    def because(self, reasons: Iterable[Reason], *, behind: int) -> ExplainedMessage:
        """The message, with what keeps it, and how many of its unit are behind it."""
        return ExplainedMessage(
            partition=self.partition,
            offset=self.offset,
            message_id=self.message_id,
            unit=self.unit,
            sent_at_ms=self.sent_at_ms,
            attempts=self.attempts,
            last_error=self.last_error,
            behind=behind,
            reasons=tuple(reasons),
        )


@dataclass(slots=True)
class HeldUnits:
    """The units that a look at a queue found."""

    firsts: dict[Place, HeldMessageRow] = field(default_factory=dict)
    """The first of each unit by place, or the message without one."""
    requested: list[HeldMessageRow] = field(default_factory=list)
    """The messages that were asked about."""
    behind: Counter[Place] = field(default_factory=Counter)
    """The number of later messages of the unit that were seen, by place."""
    by_partition: Counter[int] = field(default_factory=Counter)
    """How many messages each partition holds."""
    misplaced: int = 0
    is_whole: bool = True
    prepared: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """The id of the prepared branch that has the message, by partition and offset."""
    resets: Mapping[int, Reset] = field(default_factory=dict)
    """Resets of the group's offsets by which nobody has received yet, by partition."""
    parked_lost: int | None = 0
    """How many parked messages the changelog has no more; None: nobody knows."""


def look_at(
    messages: Iterable[Seen],
    *,
    now_ms: int,
    places: UnitPlaces,
    is_requested: Callable[[HeldMessageRow], bool],
    count_max: int,
) -> HeldUnits:
    """The units of these messages, which come in the order of their units; `places`: where units are.

    No more than `count_max` are looked at, unless that is 0.
    """
    found = HeldUnits()
    for count, seen in enumerate(messages):
        if count_max and count >= count_max:
            found.is_whole = False
            break
        row = row_of(seen.record, seen, now_ms)
        found.by_partition[row.partition] += 1
        found.misplaced += row.key is not None and places.home(row.key) != row.partition
        found.behind[row.place] += found.firsts.setdefault(row.place, row) is not row
        if is_requested(row):
            found.requested.append(row)
    return found


def row_of(record: KafkaRecord, seen: Seen | None, now_ms: int) -> HeldMessageRow:
    """The message of a record; `seen` says what the changelog has of it."""
    topic, partition, offset = record.topic() or "", record.partition() or 0, record.offset() or 0
    due_at_ms = 0 if seen is None else seen.due_at_ms
    return HeldMessageRow(
        partition=partition,
        offset=offset,
        key=record.key() or None,
        message_id=message_id_of(record.headers(), topic, partition, offset),
        sent_at_ms=record_timestamp_ms(record),
        attempts=0 if seen is None else seen.attempts,
        rule=_recorded_rule(record, due_at_ms, now_ms),
        due_at_ms=due_at_ms,
        last_error=None if seen is None else seen.last_error,
    )


def _recorded_rule(record: KafkaRecord, due_at_ms: int, now_ms: int) -> Rule:
    if due_at_ms >= FOREVER_MS:
        return Rule.ON_HOLD
    scanned = scan(record.headers())
    if is_expired(scanned.expiration_ms, now_ms):
        return Rule.EXPIRED
    if due_at_ms > now_ms:
        return Rule.NOT_YET_DUE if scanned.delivery_time_ms >= due_at_ms else Rule.DELAYED
    return Rule.READY
