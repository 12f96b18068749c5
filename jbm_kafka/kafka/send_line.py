"""The records that a connection has under way to one partition, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from mypy_extensions import mypyc_attr

from jbm_kafka.ports import Outgoing, SendReport

_OVERHEAD_BYTES: Final = 100
"""The size of a record without its key and its value, about."""
PURGED: Final = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
Refused = Callable[[KafkaError, Outgoing, SendReport | None], None]


@mypyc_attr(acyclic=True)  # its line lets go of it: one thing less for the garbage collector to visit
class SentRecord:
    """One send until its report, as the callback of it.

    A closure would be five objects for the garbage collector to visit, which cost a third of the throughput.
    """

    __slots__ = ("is_over", "line", "record", "report", "since_s", "size")

    def __init__(self, line: SendLine, record: Outgoing, report: SendReport | None, since_s: float, size: int) -> None:
        self.line = line
        self.record = record
        self.report = report
        self.since_s = since_s
        self.size = size
        self.is_over = False
        """It was reported, or abandoned."""

    def __call__(self, error: KafkaError | None, _: Message | None) -> None:
        line = self.line
        if self.is_over:
            line.abandoned -= 1
            return
        record, report = self.record, self.report
        try:
            if error is not None:
                line.refused(error, record, report)
            elif report is not None:
                report(None)
        finally:
            self.is_over = True
            line.drop_ended()
            if error is not None and error.code() in PURGED:
                line.fail_rest(line)


class SendLine:
    """One connection's sends to one partition.

    Senders add to its end, under the producer's lock. The producer's thread alone takes from its beginning and counts
    what has ended, so a report needs no lock.
    """

    __slots__ = (
        "abandoned", "ended", "ended_bytes", "fail_rest", "marks", "place", "refused", "sent", "sent_bytes", "told",
        "under_way",
    )  # fmt: skip

    def __init__(
        self,
        place: tuple[str, int],
        refused: Refused,
        told: Callable[[], None],
        fail_rest: Callable[[SendLine], None],
    ) -> None:
        """`told` is called when what a flush waits for has been reported, `fail_rest` when one was purged."""
        self.place = place
        self.refused = refused
        self.told = told
        self.fail_rest = fail_rest
        self.marks: deque[int] = deque()
        """Counts of sends that flushes wait for."""
        self.under_way: deque[SentRecord] = deque()
        self.sent = self.ended = 0
        self.sent_bytes = self.ended_bytes = 0
        self.abandoned = 0
        """How many the producer still has that were told to have failed."""

    def room_taken(self) -> int:
        """Bytes that are under way, about."""
        return self.sent_bytes - self.ended_bytes

    def queue(self, producer: Producer, record: Outgoing, report: SendReport | None, since_s: float) -> None:
        """Add a send; the caller holds the lock. What `produce` raises is raised, and nothing is added."""
        value, key = record.value, record.key
        size = _OVERHEAD_BYTES
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        sent = SentRecord(self, record, report, since_s, size)
        headers = record.headers if isinstance(record.headers, list) else list(record.headers)
        under_way = self.under_way
        try:
            # From the counting until it is queued nothing is called, as `append` would be, for at the end of each call
            # a signal handler may raise: a send that is counted and not queued is waited for until closing gives up.
            under_way += (sent,)
            self.sent += 1
            self.sent_bytes += size
            producer.produce(
                record.topic,
                value,
                key,
                record.partition,
                on_delivery=sent,
                timestamp=record.timestamp_ms or 0,
                headers=headers,
            )
        except (BufferError, KafkaException, TypeError, ValueError):  # not queued
            self.sent -= 1
            self.sent_bytes -= size
            under_way.pop()
            raise

    # -- the producer's thread ---------------------------------------------------------------------------------------

    def drop_ended(self) -> None:
        """Let go of those at the beginning that are over."""
        under_way = self.under_way
        while under_way and under_way[0].is_over:
            self.count_ended(under_way.popleft())

    def count_ended(self, sent: SentRecord) -> None:
        """One is under way no more, and its sender was told."""
        self.ended += 1
        self.ended_bytes += sent.size
        if self.marks and self.ended >= self.marks[0]:
            self.marks.popleft()
            self.told()

    def abandon(self) -> list[SentRecord]:
        """All that is under way, each to be told and counted. The caller holds the lock."""
        found = [sent for sent in self.under_way if not sent.is_over]
        for sent in found:
            sent.is_over = True
        self.under_way.clear()
        self.abandoned += len(found)
        return found
