"""One connection's plain sends by producers that it shares with others, counted by partition (decision 70)."""

from __future__ import annotations

import threading
import time

from confluent_kafka import KafkaError, KafkaException

from jbm_kafka.kafka.send_line import SendLine
from jbm_kafka.kafka.sender_producers import SenderProducers
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
from jbm_kafka.ports.wake_up import Sleepers, is_held_here

_LINES_FILL_ROOM = 4
"""A line takes this part of the room, so that one partition that takes nothing leaves room for others."""


class ConfluentSender:
    """Implements `ports.RecordSender`."""

    def __init__(
        self, pool: SenderProducers, *, linger_ms: int, room_bytes: int, bootstrap: str, send_timeout_ms: int
    ) -> None:
        """`room_bytes`: of the largest record, and of what may be under way to some partitions together."""
        self._pool = pool
        self._linger_ms = linger_ms
        self._room_bytes = room_bytes
        self._line_bytes = room_bytes // _LINES_FILL_ROOM
        self._bootstrap = bootstrap
        self._timeout_s = send_timeout_ms / 1000
        self._progress = Sleepers(threading.RLock())
        self._lines: dict[tuple[str, int], tuple[SendLine, SharedProducer]] = {}
        self._is_open = True
        pool.join(linger_ms)

    def send(self, record: Outgoing, report: SendReport | None) -> None:
        deadline: float | None = None
        is_retry = False
        while True:
            line, shared = self._lines.get((record.topic, record.partition)) or self._begin_line(record)
            try:
                self._queue(line, shared, record, report)
            except BufferError:
                self._check_fits(record)
                deadline = deadline or time.monotonic() + self._timeout_s
                self._wait_for_room(shared, record, deadline)
            except KafkaException as raised:
                error = cause(raised)
                if not is_retry and is_metadata_stale(error, shared.producer, record.topic, record.partition):
                    is_retry = True
                    continue
                shared.note(error)
                raise _failure(error, record, self._bootstrap) from None
            else:
                return

    def try_send(self, record: Outgoing, report: SendReport | None) -> bool:
        line, shared = self._lines.get((record.topic, record.partition)) or self._begin_line(record)
        try:
            self._queue(line, shared, record, report)
        except BufferError:
            self._check_fits(record)
            return False
        except KafkaException as raised:
            shared.note(cause(raised))
            raise _failure(cause(raised), record, self._bootstrap) from None
        return True

    def _queue(self, line: SendLine, shared: SharedProducer, record: Outgoing, report: SendReport | None) -> None:
        place = line.place
        try:
            place.acquire()
            try:
                if not self._is_open:
                    raise KafkaClientError(f"send to {record.topic}: the sender is closed")
                if line.room_taken() > self._line_bytes or self._is_too_large(record):
                    raise BufferError
                line.queue(shared.producer, record, report, time.monotonic())
            finally:
                place.release()
        except (BufferError, KafkaException, KafkaClientError):
            raise
        except BaseException:
            if is_held_here(place.lock):  # a signal handler raised between the taking and the block
                place.release()
            raise

    def _begin_line(self, record: Outgoing) -> tuple[SendLine, SharedProducer]:
        with self._progress.lock:
            if not self._is_open:
                raise KafkaClientError(f"send to {record.topic}: the sender is closed")
            found = self._lines.get((record.topic, record.partition))
            if found is None:
                found = self._pool.line(self._linger_ms, record.topic, record.partition, self._refused, self._told)
                self._lines[record.topic, record.partition] = found
            return found

    def _is_too_large(self, record: Outgoing) -> bool:
        return len(record.value or b"") > self._room_bytes

    def _check_fits(self, record: Outgoing) -> None:
        """Raises RecordTooLarge for a record that finds no room in an empty queue either."""
        if self._is_too_large(record):
            place = f"send to {record.topic}[{record.partition}]"
            size, room = len(record.value or b""), self._room_bytes
            raise QueueTooSmall(f"{place}: {size} bytes do not fit into the send queue of {room}", size, room)

    def _wait_for_room(self, shared: SharedProducer, record: Outgoing, deadline: float) -> None:
        # A report that sends runs on the thread that alone could make room.
        is_reporter = shared.is_own_thread()
        if not is_reporter:
            self._progress.sleep_unless(lambda: False, 0.05)
        # Looked at after the wait: a process that stood still in it must not queue what was routed long ago.
        if is_reporter or time.monotonic() > deadline:
            text = f"send to {record.topic}[{record.partition}]: the send queue is full"
            raise Unreachable(f"{text} and Kafka at {self._bootstrap} takes nothing")

    def flush(self, timeout_s: float) -> bool:
        marks: list[tuple[SendLine, int]] = []
        with self._progress.lock:
            lines = list(self._lines.values())
        for line, _ in lines:
            with line.place.lock:
                mark = line.sent
                if line.ended < mark:
                    line.marks.append(mark)
                    marks.append((line, mark))
        return self._progress.wait_for(lambda: all(line.ended >= mark for line, mark in marks), timeout_s)

    def close(self, timeout_s: float) -> None:
        self.flush(timeout_s)
        with self._progress.lock:
            if not self._is_open:
                return
            self._is_open = False
            lines: dict[SharedProducer, list[SendLine]] = {}
            for line, shared in self._lines.values():
                lines.setdefault(shared, []).append(line)
        left = [shared.leave(its) for shared, its in lines.items()]
        ended = self._pool.leave(self._linger_ms)
        if any(shared.is_own_thread() for shared in (*lines, *ended)):
            return  # a report closes: its thread must not wait for the others, which may wait for it
        for each in left:
            each.wait()
        for shared in ended:
            shared.close()

    def _told(self) -> None:
        """What a flush waits for was reported."""
        with self._progress.lock:
            self._progress.notify_all()

    def _refused(self, error: KafkaError, record: Outgoing, report: SendReport | None) -> None:
        """Tell a failed send; on its producer's thread."""
        self._lines[record.topic, record.partition][1].note(error)
        place = f"send to {record.topic}[{record.partition}]"
        if error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):
            failure: KafkaClientError = Unreachable(f"{place}: not confirmed by Kafka at {self._bootstrap}")
        elif error.code() == KafkaError._DESTROY:
            # So librdkafka fails what it held for a partition when it hears that the partition has no leader.
            failure = UnknownTopic(f"{place}: the topic or partition was deleted")
        else:
            failure = _failure(error, record, self._bootstrap)
        tell(report, failure)


def _failure(error: KafkaError, record: Outgoing, bootstrap: str) -> KafkaClientError:
    failure = trouble(error, f"send to {record.topic}[{record.partition}]", bootstrap)
    if isinstance(failure, RecordTooLarge):
        failure.record = record
    return failure
