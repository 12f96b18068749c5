"""Reads ranges of partitions without a group, in large batches, partitions side by side."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from jbm_kafka.kafka.header_names import mend_headers
from jbm_kafka.kafka.leaked_references import Unheeded
from jbm_kafka.kafka.settings import LOG
from jbm_kafka.kafka.translated_errors import DAMAGED, UNKNOWN_TOPIC, one_line, trouble
from jbm_kafka.ports import KafkaRecord, Unreachable
from jbm_kafka.ports.kafka import unreadable

_BATCH = 100
"""Kafka's client makes so many messages at once, and reads their headers, without letting another thread have the
interpreter: one millisecond, which a server's loop may have to wait beside each reader at each read and write."""
_POLL_S = 0.2


class ConfluentLogReader:
    """Implements `ports.LogReader`."""

    def __init__(self, settings: dict[str, Any], *, bootstrap: str) -> None:
        self._settings = settings
        self._bootstrap = bootstrap
        self._consumers: dict[bool, Consumer] = {}
        self._heard_of: set[tuple[bool, str]] = set()

    def read(
        self, topic: str, ranges: Mapping[int, tuple[int, int]], *, timeout_s: float, committed_only: bool = True
    ) -> Sequence[KafkaRecord]:
        open_ranges = {partition: bounds for partition, bounds in ranges.items() if bounds[0] < bounds[1]}
        if not open_ranges:
            return ()
        consumer = self._consumer(committed_only)
        if (committed_only, topic) not in self._heard_of:
            # A client that is assigned a topic it has not heard of waits about a second before it looks for it.
            with Unheeded():
                consumer.list_topics(topic, timeout=timeout_s)
            self._heard_of.add((committed_only, topic))
        consumer.assign([TopicPartition(topic, partition, begin) for partition, (begin, _) in open_ranges.items()])
        # Neither a new assignment nor an end of the old one lifts a pause of an earlier read.
        consumer.resume([TopicPartition(topic, partition) for partition in open_ranges])
        try:
            return cast("Sequence[KafkaRecord]", self._read(consumer, topic, open_ranges, timeout_s))
        finally:
            consumer.unassign()

    def _consumer(self, committed_only: bool) -> Consumer:
        if committed_only not in self._consumers:
            level = "read_committed" if committed_only else "read_uncommitted"
            self._consumers[committed_only] = Consumer({**self._settings, "isolation.level": level})
        return self._consumers[committed_only]

    def _read(
        self, consumer: Consumer, topic: str, ranges: Mapping[int, tuple[int, int]], timeout_s: float
    ) -> list[Message]:
        deadline = time.monotonic() + timeout_s
        positions = {partition: begin for partition, (begin, _) in ranges.items()}
        unfinished = set(ranges)
        records: list[Message] = []
        while unfinished:
            if time.monotonic() > deadline:
                raise Unreachable(self._stalled(topic, ranges, positions, unfinished, timeout_s))
            first = consumer.poll(min(_POLL_S, timeout_s))
            batch = [] if first is None else [first, *consumer.consume(_BATCH, 0)]
            wanted: list[Message] = []
            for record in batch:
                partition, offset = record.partition(), record.offset()
                assert partition is not None
                if record.error() is not None and not self._is_end(record, topic):
                    continue
                begin, end = ranges[partition]
                assert offset is not None
                if record.error() is not None:
                    positions[partition] = max(positions[partition], offset)
                else:
                    positions[partition] = max(positions[partition], offset + 1)
                    if begin <= offset < end:
                        wanted.append(record)
            mend_headers(wanted)
            records += wanted
            unfinished -= self._leave_finished(consumer, topic, ranges, positions, unfinished)
        return records

    def _is_end(self, record: Message, topic: str) -> bool:
        """True for an end-of-file event, whose offset is the read position, past markers and aborted records."""
        error = record.error()
        assert error is not None
        if error.code() == KafkaError._PARTITION_EOF:
            return True
        if error.code() in DAMAGED:
            raise unreadable(topic, record.partition(), record.offset(), one_line(error))
        if error.fatal() or error.code() in UNKNOWN_TOPIC or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            place = f"{topic}[{record.partition()}]"
            raise trouble(error, f"read {place}", self._bootstrap, right=f"Read on topic {topic}")
        if error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # see READ_REFUSED
            LOG.info("read %s[%s]: %s; it keeps trying", topic, record.partition(), one_line(error))
        return False

    def _leave_finished(
        self,
        consumer: Consumer,
        topic: str,
        ranges: Mapping[int, tuple[int, int]],
        positions: Mapping[int, int],
        unfinished: set[int],
    ) -> set[int]:
        """The partitions that reached their end; they fetch nothing more."""
        finished = {partition for partition in unfinished if positions[partition] >= ranges[partition][1]}
        if finished and finished != unfinished:
            consumer.pause([TopicPartition(topic, partition) for partition in finished])
        return finished

    def _stalled(
        self,
        topic: str,
        ranges: Mapping[int, tuple[int, int]],
        positions: Mapping[int, int],
        unfinished: set[int],
        timeout_s: float,
    ) -> str:
        partition = min(unfinished)
        return (
            f"read {topic}[{partition}]: position {positions[partition]} did not reach {ranges[partition][1]} within "
            f"{timeout_s:g} s: Kafka at {self._bootstrap} does not answer, an open transaction holds it back, "
            f"or the log ends before that"
        )

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()
