"""One connection's plain sends by producers that it shares with others, counted by partition (decision 70)."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException

from jbm_kafka.kafka.send_line import PURGED, SendLine
from jbm_kafka.kafka.shared_producer import SharedProducer, tell
from jbm_kafka.kafka.stale_metadata import is_metadata_stale
from jbm_kafka.kafka.translated_errors import cause, trouble
from jbm_kafka.ports import (
    KafkaClientError,
    Outgoing,
    QueueTooSmall,
    RecordTooLarge,
    SendReport,
    UnknownTopic,
    Unreachable,
)
from jbm_kafka.ports.wake_up import is_held_here

_LINES_FILL_ROOM = 4
"""A line takes this part of the room, so that one partition that takes nothing leaves room for others."""


class ConfluentSender:
    """Implements `ports.RecordSender`."""

    def __init__(self, shared: SharedProducer, *, room_bytes: int) -> None:
        """`shared`: joined for this one. `room_bytes`: of the largest record, and of what may be under way to some
        partitions together.
        """
        self._shared = shared
        # For each send: a `with` of compiled code looks both up, and calls them by way of two functions more.
        self._acquire, self._release = shared.lock.acquire, shared.lock.release
        self._room_bytes = room_bytes
        self._line_bytes = room_bytes // _LINES_FILL_ROOM
        self._lines: dict[tuple[str, int], SendLine] = {}
        self._is_open = True

    def send(self, record: Outgoing, report: SendReport | None) -> None:
        deadline = 0.0
        is_retry = False
        while True:
            try:
                if self._is_queued(record, report):
                    return
            except KafkaException as raised:
                error = cause(raised)
                if is_retry or not is_metadata_stale(error, self._shared.producer, record.topic, record.partition):
                    raise self._failed(error, record) from None
                is_retry = True
            else:
                deadline = deadline or time.monotonic() + self._shared.timeout_s
                self._wait_for_room(record, deadline)

    def try_send(self, record: Outgoing, report: SendReport | None) -> bool:
        try:
            return self._is_queued(record, report)
        except KafkaException as raised:
            raise self._failed(cause(raised), record) from None

    def _is_queued(self, record: Outgoing, report: SendReport | None) -> bool:
        """False when there is no room now."""
        try:
            self._acquire()
            try:
                return self._queue(record, report)
            finally:
                self._release()
        except BaseException:
            if is_held_here(self._shared.lock):  # a signal handler raised between the taking and the block
                self._release()
            raise

    def _queue(self, record: Outgoing, report: SendReport | None) -> bool:
        if not self._is_open:
            raise KafkaClientError(f"send to {record.topic}: the sender is closed")
        shared, place = self._shared, (record.topic, record.partition)
        line = self._lines.get(place)
        if line is None:
            line = self._lines[place] = shared.line(place, self._refused)
        if shared.held and (shared.is_draining or place in shared.held):
            return False
        value = record.value
        if value is not None and len(value) > self._room_bytes:
            text, size, room = f"send to {place[0]}[{place[1]}]", len(value), self._room_bytes
            raise QueueTooSmall(f"{text}: {size} bytes do not fit into the send queue of {room}", size, room)
        if line.room_taken() > self._line_bytes:
            return False
        try:
            line.queue(shared.producer, record, report, time.monotonic())
        except BufferError:
            return False
        return True

    def _wait_for_room(self, record: Outgoing, deadline: float) -> None:
        # A report that sends runs on the thread that alone could make room.
        is_reporter = self._shared.is_own_thread()
        if not is_reporter:
            self._shared.progress.sleep_unless(lambda: False, 0.05)
        # Looked at after the wait: a process that stood still in it must not queue what was routed long ago.
        if is_reporter or time.monotonic() > deadline:
            text = f"send to {record.topic}[{record.partition}]: the send queue is full"
            raise Unreachable(f"{text} and Kafka at {self._shared.bootstrap} takes nothing")

    def flush(self, timeout_s: float) -> bool:
        with self._shared.lock:
            marks = [(line, line.sent) for line in self._lines.values() if line.ended < line.sent]
            for line, mark in marks:
                line.marks.append(mark)
        return not marks or self._shared.progress.wait_for(
            lambda: all(line.ended >= mark for line, mark in marks), timeout_s
        )

    def close(self, timeout_s: float) -> None:
        self.flush(timeout_s)
        with self._shared.lock:
            was_open, self._is_open = self._is_open, False
        if was_open:
            self._shared.leave(list(self._lines.values()))

    def _refused(self, error: KafkaError, record: Outgoing, report: SendReport | None) -> None:
        """Tell a failed send; on its producer's thread."""
        self._shared.note(error)
        place = f"send to {record.topic}[{record.partition}]"
        if error.code() in PURGED:
            failure: KafkaClientError = Unreachable(f"{place}: not confirmed by Kafka at {self._shared.bootstrap}")
        elif error.code() == KafkaError._DESTROY:
            # So librdkafka fails what it held for a partition when it hears that the partition has no leader.
            failure = UnknownTopic(f"{place}: the topic or partition was deleted")
        else:
            failure = self._failure(error, record)
        tell(report, failure)

    def _failed(self, error: KafkaError, record: Outgoing) -> KafkaClientError:
        self._shared.note(error)
        return self._failure(error, record)

    def _failure(self, error: KafkaError, record: Outgoing) -> KafkaClientError:
        place, right = f"{record.topic}[{record.partition}]", f"Write on topic {record.topic}"
        failure = trouble(error, f"send to {place}", self._shared.bootstrap, right=right)
        if isinstance(failure, RecordTooLarge):
            failure.record = record
        return failure
