"""Plain sends of the in-memory Kafka."""

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass

from jbm_kafka.memory.memory_process import Process, ProcessCrashed
from jbm_kafka.ports import (
    KafkaClientError,
    LeaderMissing,
    Outgoing,
    RecordTooLarge,
    SendReport,
    UnknownTopic,
    Unreachable,
)

LOG = logging.getLogger("jbm_kafka.memory")


@dataclass(slots=True)
class _Queued:
    record: Outgoing
    report: SendReport | None
    since_ms: int
    is_reported: bool = False


class MemorySender:
    """Implements `ports.RecordSender`.

    Records wait in a queue until `deliver`: a thread calls it all the time if the cluster waits, else `flush` does, or
    whoever drives the simulation. What a crash finds in the queue is lost.
    """

    def __init__(self, process: Process, *, send_timeout_ms: int) -> None:
        self._process = process
        self._cluster = process.cluster
        self._send_timeout_ms = send_timeout_ms
        self._queue: deque[_Queued] = deque()
        self._is_open = True
        self._delivering = threading.RLock()
        """One delivery at a time, so that reports come in order; the cluster's lock is not held while they run."""
        self._thread: threading.Thread | None = None
        if self._cluster.waits:
            self._thread = threading.Thread(target=self._serve, name="jbm-memory-sender", daemon=True)
            self._thread.start()

    def send(self, record: Outgoing, report: SendReport | None) -> None:
        with self._cluster.changed:
            self._process.check()
            if not self._is_open:
                raise KafkaClientError(f"send to {record.topic}: the sender is closed")
            self._queue.append(_Queued(record, report, self._cluster.clock.monotonic_ms()))
            self._cluster.changed.notify_all()

    def try_send(self, record: Outgoing, report: SendReport | None) -> bool:
        self.send(record, report)
        return True

    def deliver(self) -> None:
        """Write what can be written and report it; give up a partition's once its oldest is overdue."""
        with self._delivering:
            with self._cluster.changed:
                if self._process.has_crashed:
                    self._queue.clear()
                results = self._written() + self._given_up()
            for queued, error in results:
                try:
                    if queued.report is not None:
                        queued.report(error)
                except Exception:
                    LOG.exception("a send report raised; the sender goes on")
                queued.is_reported = True
            if results:
                with self._cluster.changed:
                    self._cluster.changed.notify_all()

    def _written(self) -> list[tuple[_Queued, KafkaClientError | None]]:
        results: list[tuple[_Queued, KafkaClientError | None]] = []
        waiting: deque[_Queued] = deque()
        for queued in self._queue:
            record = queued.record
            if self._is_held_up(record):
                waiting.append(queued)
            else:
                results.append((queued, self._refusal(record)))
        self._queue = waiting
        return results

    def _is_held_up(self, record: Outgoing) -> bool:
        faults, place = self._cluster.faults, (record.topic, record.partition)
        return place in faults.leaderless or (faults.stalled is not None and faults.stalled(*place))

    def _refusal(self, record: Outgoing) -> KafkaClientError | None:
        reason = self._cluster.append(record, None)
        if isinstance(reason, int):
            return None
        text = f"send to {record.topic}[{record.partition}]: {reason}"
        if "too large" in reason:
            failure = RecordTooLarge(text)
            failure.record = record
            return failure
        return UnknownTopic(text) if "Unknown topic" in reason else KafkaClientError(text)

    def _given_up(self) -> list[tuple[_Queued, KafkaClientError | None]]:
        now_ms = self._cluster.clock.monotonic_ms()
        overdue = {
            (queued.record.topic, queued.record.partition)
            for queued in self._queue
            if not self._is_open or now_ms - queued.since_ms > self._send_timeout_ms
        }
        if not overdue:
            return []
        queue, self._queue, given_up = self._queue, deque(), deque[_Queued]()
        for queued in queue:
            is_given_up = (queued.record.topic, queued.record.partition) in overdue
            (given_up if is_given_up else self._queue).append(queued)
        return [(queued, self._not_confirmed(queued.record)) for queued in given_up]

    def _not_confirmed(self, record: Outgoing) -> KafkaClientError:
        text = f"send to {record.topic}[{record.partition}]: not confirmed"
        is_leaderless = (record.topic, record.partition) in self._cluster.faults.leaderless
        return LeaderMissing(text, record) if is_leaderless else Unreachable(text)

    def flush(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        with self._cluster.changed:
            self._process.check()
            queued = tuple(self._queue)
        if self._thread is None:
            self.deliver()
        with self._delivering:
            pass  # a delivery under way has reported all it took
        with self._cluster.changed:
            while not all(q.is_reported for q in queued):
                if not self._cluster.wait(deadline - time.monotonic()):
                    return False
        return True

    def close(self, timeout_s: float) -> None:
        self.flush(timeout_s)
        with self._cluster.changed:
            self._is_open = False
            self._cluster.changed.notify_all()
        if self._thread is None:
            self.deliver()
        elif threading.current_thread() is not self._thread:
            self._thread.join()

    def _serve(self) -> None:
        while True:
            with self._cluster.changed:
                while self._is_open and not self._process.has_crashed and not self._has_work():
                    # What is held up may go on when time passes; for an empty queue somebody says when that is over.
                    self._cluster.changed.wait(0.05 if self._queue else 1.0)
                is_last = not self._is_open or self._process.has_crashed
            try:
                self.deliver()
            except ProcessCrashed:
                return
            if is_last:
                return

    def _has_work(self) -> bool:
        now_ms = self._cluster.clock.monotonic_ms()
        return any(
            not self._is_held_up(queued.record) or now_ms - queued.since_ms > self._send_timeout_ms
            for queued in self._queue
        )
