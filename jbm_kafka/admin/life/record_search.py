"""Records of a message in a log: at a place, or by its id from a time on. Every search has a bound."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from jbm_kafka.codec.dead_letter import COPY_OF
from jbm_kafka.codec.identity import message_id_of
from jbm_kafka.codec.one_header import header_property
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.ports import KafkaAdmin, KafkaRecord, LogReader, TopicDescription

CHUNK = 500
"""Offsets that one read takes of each partition."""
READ_TIMEOUT_S = 10.0
SEARCH_S = 8.0
"""So long one search takes at most."""


class RecordSearch:
    """Finds records in the logs of queues and topics of one namespace. One thread."""

    def __init__(self, admin: KafkaAdmin, reader: LogReader, namespace: str) -> None:
        self._admin = admin
        self._reader = reader
        self._namespace = namespace
        self._described: dict[str, TopicDescription | None] = {}
        self.notes: list[str] = []
        """Which searches came to no end."""

    def described(self, destination: Queue | Topic) -> TopicDescription | None:
        """Its topic as it is now; None: it has none."""
        topic = destination.kafka_topic(self._namespace)
        if topic not in self._described:
            self._described[topic] = self._admin.describe([topic]).get(topic)
        return self._described[topic]

    def at(self, destination: Queue | Topic, partition: int, offset: int) -> KafkaRecord | None:
        """The record at a place; None: the log has none there."""
        topic = self.described(destination)
        if topic is None or not 0 <= partition < topic.partitions:
            return None
        begin = self._admin.begin_positions(topic.name, [partition])[partition]
        end = self._admin.end_positions(topic.name, [partition], stable=True)[partition]
        if not begin <= offset < end:
            return None
        found = self._reader.read(topic.name, {partition: (offset, offset + 1)}, timeout_s=READ_TIMEOUT_S)
        return found[0] if found else None

    def first(
        self,
        destination: Queue | Topic,
        is_it: Callable[[KafkaRecord], bool],
        *,
        since_ms: int = 0,
        until_ms: int | None = None,
    ) -> KafkaRecord | None:
        """The first record that is it, of those that were written in this time, partitions side by side."""
        topic = self.described(destination)
        if topic is None:
            return None
        places = list(range(topic.partitions))
        ends = self._admin.end_positions(topic.name, places, stable=True)
        begins = (
            self._admin.positions_since(topic.name, places, since_ms)
            if since_ms > 0
            else self._admin.begin_positions(topic.name, places)
        )
        at = {place: begins[place] for place in places if begins[place] < ends[place]}
        deadline = monotonic() + SEARCH_S
        while at:
            if monotonic() > deadline:
                left = sum(ends[place] - position for place, position in at.items())
                self.notes.append(f"{destination} was not searched to its end: {left} records are left")
                return None
            ranges = {place: (position, min(position + CHUNK, ends[place])) for place, position in at.items()}
            late: set[int] = set()
            for record in self._reader.read(topic.name, ranges, timeout_s=READ_TIMEOUT_S):
                if is_it(record):
                    return record
                if until_ms is not None and record.timestamp()[1] > until_ms:
                    late.add(record.partition() or 0)
            at = {place: upto for place, (_, upto) in ranges.items() if upto < ends[place] and place not in late}
        return None


def id_of(record: KafkaRecord) -> str:
    """The id that receivers see."""
    return message_id_of(record.headers(), record.topic() or "", record.partition() or 0, record.offset() or 0)


def is_of(record: KafkaRecord, message_id: str) -> bool:
    """It is the message of this id, or an edited copy of it."""
    copied = header_property(record.headers(), COPY_OF)
    return id_of(record) == message_id or (copied is not None and copied.value == message_id)
