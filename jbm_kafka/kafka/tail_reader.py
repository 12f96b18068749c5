"""Reads on from given positions as records come, without a group."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from jbm_kafka.kafka.header_names import mend_headers
from jbm_kafka.kafka.settings import LOG
from jbm_kafka.kafka.translated_errors import (
    DAMAGED,
    OUT_OF_RANGE,
    READ_REFUSED,
    UNKNOWN_TOPIC,
    cause,
    one_line,
    trouble,
)
from jbm_kafka.ports import KafkaClientError, KafkaRecord, PositionOutOfRange
from jbm_kafka.ports.kafka import unreadable

_TOPIC_ANSWER_S = 10.0
_TOPIC_APPEARS_S = 3.0
"""A topic that no broker shows for so long does not exist; a new one may be shown by one and not yet by another."""
_PAUSE_S = 0.05


class ConfluentTailReader:
    """Implements `ports.TailReader`."""

    def __init__(self, settings: dict[str, Any], *, bootstrap: str) -> None:
        self._consumer = Consumer(settings)
        self._bootstrap = bootstrap
        self._topic = ""
        self._positions: dict[int, int] = {}
        self._stopped: set[int] = set()
        """Partitions that nothing more is read of, because something of them cannot be."""
        self._errors: list[KafkaClientError] = []
        self._kept: list[Message] = []
        """Records read by a call that had to raise; the next call returns them."""

    def assign(self, topic: str, positions: Mapping[int, int]) -> None:
        unknown: KafkaClientError | None = None
        if topic != self._topic:
            # A client that is assigned a topic it has not heard of waits about a second before it looks for it.
            unknown = self._unknown(topic)
        self._topic = topic
        self._positions = dict(positions)
        self._stopped.clear()
        self._errors = [] if unknown is None else [unknown]
        self._kept.clear()
        self._consumer.unassign()  # what was fetched of the old positions goes with them
        places = [TopicPartition(topic, partition, position) for partition, position in positions.items()]
        self._consumer.assign(places)
        # Neither a new assignment nor an end of the old one lifts a pause.
        self._consumer.resume([TopicPartition(topic, partition) for partition in positions])

    def _unknown(self, topic: str) -> KafkaClientError | None:
        """That no broker shows the topic: librdkafka waits for it without a word."""
        deadline = time.monotonic() + _TOPIC_APPEARS_S
        while True:
            try:
                found = self._consumer.list_topics(topic, timeout=_TOPIC_ANSWER_S).topics.get(topic)
            except KafkaException:
                return None  # `poll` raises it, if it lasts
            error = None if found is None else found.error
            if error is None or error.code() not in UNKNOWN_TOPIC:
                return None
            if time.monotonic() > deadline:
                return trouble(error, f"read topic {topic}", self._bootstrap)
            time.sleep(_PAUSE_S)

    def poll(self, count_max: int, timeout_s: float) -> Sequence[KafkaRecord]:
        records = self._kept or self._fetch(count_max, timeout_s)
        self._kept = []
        if self._errors:
            self._kept = records
            raise self._errors.pop(0)
        for record in records:
            partition, offset = record.partition(), record.offset()
            assert partition is not None, "a fetched record has a place"
            assert offset is not None, "a fetched record has a place"
            # What `_fetch` heard of the end may lie further on, behind marks.
            self._positions[partition] = max(self._positions[partition], offset + 1)
        return cast("Sequence[KafkaRecord]", records)

    def _fetch(self, count_max: int, timeout_s: float) -> list[Message]:
        try:
            # consume(n, t) waits in steps of 200 ms even when something is there; poll returns with the first.
            first = self._consumer.poll(timeout_s)
            batch = [] if first is None else [first]
            if first is not None and count_max > 1:
                batch += self._consumer.consume(count_max - 1, 0)
        except KafkaException as raised:
            raise self._trouble(cause(raised)) from None
        records: list[Message] = []
        ends: dict[int, int] = {}
        for record in batch:
            partition = record.partition()
            error = record.error()
            if error is not None and (error.code() in UNKNOWN_TOPIC or error.code() in READ_REFUSED):
                self._errors.append(self._trouble(error))
            elif record.topic() != self._topic or partition not in self._positions or partition in self._stopped:
                continue
            elif error is None:
                records.append(record)
            elif error.code() == KafkaError._PARTITION_EOF:
                ends[partition] = record.offset() or 0
            else:
                self._note(record)
        mend_headers(records)
        if not self._errors:
            for partition, end in ends.items():
                self._positions[partition] = max(self._positions[partition], end)
        return records

    def _trouble(self, error: KafkaError) -> KafkaClientError:
        return trouble(error, f"read topic {self._topic}", self._bootstrap, right=f"Read on topic {self._topic}")

    def _note(self, record: Message) -> None:
        error, partition = record.error(), record.partition()
        assert error is not None, "an error event says what it is about"
        assert partition is not None
        about = f"read {self._topic}[{partition}]"
        if error.code() in DAMAGED:
            self._stop(partition, unreadable(self._topic, partition, record.offset(), one_line(error)))
        elif error.code() in OUT_OF_RANGE:
            text = f"{about}: position {record.offset()} is outside the log: {one_line(error)}"
            self._stop(partition, PositionOutOfRange(text, partition=partition))
        elif error.fatal():
            self._errors.append(trouble(error, about, self._bootstrap))
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # see READ_REFUSED
            LOG.info("%s: %s; it keeps trying", about, one_line(error))

    def _stop(self, partition: int, error: KafkaClientError) -> None:
        self._stopped.add(partition)
        self._consumer.pause([TopicPartition(self._topic, partition)])
        self._errors.append(error)

    def positions(self) -> Mapping[int, int]:
        return dict(self._positions)

    def close(self) -> None:
        self._consumer.close()
