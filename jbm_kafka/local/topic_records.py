"""A message of a topic channel: which receivers owe it, the order of offers, and what is written of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field

from jbm_kafka.contract import MessageReference, MessageState
from jbm_kafka.core.jms_errors import CorruptRecordError

_TOPIC = "topic|"


@dataclass(slots=True, eq=False)
class HeldByTopic:
    """One message of a topic channel."""

    place: int
    """Its number among all that came, by which it is offered."""
    reference: MessageReference
    state: MessageState
    transaction: str | None = None
    """In which it was sent, while that is open."""
    owing: set[str] = field(default_factory=set)
    """The NACK set: the receivers that have it and have not acknowledged it."""
    early: set[str] = field(default_factory=set)
    """The receivers that acknowledged it before the delivery was recorded."""
    is_offered: bool = False
    """All receivers that were there have been offered it: it leaves with its last acknowledgement."""
    is_doubtful: bool = False
    """An earlier channel of this name may have offered it."""
    has_body_record: bool = False

    @property
    def message_id(self) -> str:
        return self.reference.message_id


def in_offering_order(messages: Iterable[HeldByTopic]) -> Iterator[HeldByTopic]:
    """Those that nobody was offered, by priority and arrival, those of a unit by arrival (UNIT-6).

    What was sent in an open transaction holds the later ones of its unit (UNIT-4).
    """
    units: dict[str | int, list[HeldByTopic]] = {}
    blocked: set[str] = set()
    for held in sorted(messages, key=lambda held: held.place):
        unit = held.reference.unit_of_order
        if held.transaction is not None:
            blocked.add(unit or "")
        elif not held.is_offered and (unit or "") not in blocked - {""}:
            units.setdefault(unit or held.place, []).append(held)
    while units:
        best = min(units, key=lambda unit: (-units[unit][0].reference.priority, units[unit][0].place))
        yield units[best].pop(0)
        if not units[best]:
            del units[best]


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """What is written of one message."""

    place: int
    message_id: str
    owing: list[str] | None
    """The receivers that owe it; None: nobody was offered it yet."""

    def encode(self) -> bytes:
        """The record's value."""
        return json.dumps(asdict(self)).encode()


def topic_key(place: int) -> str:
    """The key of the record of the message in this place; keys sort as places do."""
    return f"{_TOPIC}{place:019d}"


def decode_topic_records(records: Mapping[str, bytes]) -> Iterator[TopicRecord]:
    """The messages of a channel, in arrival order.

    Raises:
        CorruptRecordError: no channel wrote one of the records.
    """
    for key in sorted(key for key in records if key.startswith(_TOPIC)):
        try:
            record = TopicRecord(**json.loads(records[key]))
        except (ValueError, TypeError) as fault:
            raise CorruptRecordError(f"record {key!r} is no message of a topic channel: {fault}") from fault
        if topic_key(record.place) != key:
            raise CorruptRecordError(f"record {key!r} holds the message at {record.place}")
        yield record


def records_and_bodies(
    stay: Iterable[tuple[HeldByTopic, Iterable[str]]], gone: Iterable[HeldByTopic]
) -> tuple[dict[str, bytes | None], dict[str, int]]:
    """What to write when these stay, owed by those, and these go: the records, and how holders of bodies change."""
    records: dict[str, bytes | None] = {}
    bodies: dict[str, int] = {}
    for held, owing in stay:
        if held.reference.is_reliable:
            record = TopicRecord(held.place, held.message_id, sorted(owing) if held.is_offered else None)
            records[topic_key(held.place)] = record.encode()
            if not held.has_body_record:
                bodies[held.message_id] = 1
    for held in gone:
        if held.has_body_record:
            records[topic_key(held.place)] = None
            bodies[held.message_id] = -1
    return records, bodies
