"""What a connection has under way to one partition, in order, and what of a partition must wait for old failures.

A line is a chain of sends. Senders add to its end, under the lock of its place; the thread of its producer alone takes
from its beginning. So a report needs no lock, and no signal handler can raise between counting a send and queueing it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from mypy_extensions import mypyc_attr

from jbm_kafka.ports import Outgoing, SendReport

_OVERHEAD_BYTES: Final = 100
"""What a record takes beside its key and its value, about."""
NOTHING: Final = Outgoing("", 0, None, None)
Refused = Callable[[KafkaError, Outgoing, SendReport | None], None]


class SendPlace:
    """A partition, as one producer and all connections that send there by it have it in common."""

    __slots__ = ("abandoned", "acquire", "is_held", "lines", "lock", "partition", "release", "topic")

    def __init__(self, topic: str, partition: int, *, is_held: bool) -> None:
        self.topic = topic
        self.partition = partition
        self.lock = threading.RLock()
        # For each send: a `with` of compiled code looks both up, and calls them by way of two functions more.
        self.acquire, self.release = self.lock.acquire, self.lock.release
        self.lines: list[SendLine] = []
        self.abandoned = 0
        """How many sends the producer still has that were told to have failed. The producer's thread counts."""
        self.is_held = is_held
        """What is sent waits in its line, behind what is abandoned, and is not given to the producer."""

    def has_queued(self) -> bool:
        """The producer has something of it that somebody waits for. On the producer's thread."""
        return any((oldest := line.oldest()) is not None and not oldest.is_parked for line in self.lines)

    def give_parked(self, producer: Producer) -> list[tuple[SentRecord, KafkaException]]:
        """Give to the producer what waits, and hold the place no more unless the producer is full; what it refused."""
        refused: list[tuple[SentRecord, KafkaException]] = []
        with self.lock:
            for line in self.lines:
                for sent in line.parked():
                    try:
                        sent.give(producer)
                    except BufferError:
                        return refused
                    except KafkaException as error:
                        refused.append((sent, error))
            self.is_held = False
        return refused


@mypyc_attr(acyclic=True)  # its line lets go of it: one thing less for the garbage collector to visit
class SentRecord:
    """One send until its report, as the callback of it.

    A closure would be five objects for the garbage collector to visit, which cost a third of the throughput.
    """

    __slots__ = ("following", "is_over", "is_parked", "line", "record", "report", "since_s", "size")

    def __init__(
        self, line: SendLine, record: Outgoing, report: SendReport | None, since_s: float, size: int, is_parked: bool
    ) -> None:
        self.line = line
        self.record = record
        self.report = report
        self.since_s = since_s
        self.size = size
        self.is_parked = is_parked
        """The producer does not have it."""
        self.is_over = False
        """It was reported, or never sent."""
        self.following: SentRecord | None = None

    def give(self, producer: Producer) -> None:
        """Queue it now, which was parked."""
        record = self.record
        producer.produce(
            record.topic,
            record.value,
            record.key,
            record.partition,
            on_delivery=self,
            timestamp=record.timestamp_ms or 0,
            headers=list(record.headers),
        )
        self.is_parked = False

    def __call__(self, error: KafkaError | None, _: Message | None) -> None:
        line = self.line
        if self.is_over:
            line.place.abandoned -= 1
            return
        self.is_over = True
        record, report = self.record, self.report
        line.skip()
        try:
            if error is not None:
                line.refused(error, record, report)
            elif report is not None:
                report(None)
        finally:
            line.count_ended(self.size)


class SendLine:
    """One connection's sends to one partition."""

    __deletable__ = ("first", "last")
    __slots__ = (
        "ended", "ended_bytes", "first", "last", "marks", "place", "refused", "sent", "sent_bytes", "told",
    )  # fmt: skip

    def __init__(self, place: SendPlace, refused: Refused, told: Callable[[], None]) -> None:
        """`told` is called when what a flush waits for has been reported."""
        self.place = place
        self.refused = refused
        self.told = told
        self.first = self.last = SentRecord(self, NOTHING, None, 0.0, 0, False)
        """`first` is over; the oldest that is not follows it."""
        self.first.is_over = True
        self.sent = self.ended = 0
        self.sent_bytes = self.ended_bytes = 0
        self.marks: deque[int] = deque()
        """Counts of sends that flushes wait for."""

    def room_taken(self) -> int:
        """Bytes that are under way, about."""
        return self.sent_bytes - self.ended_bytes

    def queue(self, producer: Producer, record: Outgoing, report: SendReport | None, since_s: float) -> None:
        """Add a send; the caller holds the place's lock. What `produce` raises is raised, and nothing is added."""
        value, key = record.value, record.key
        size = _OVERHEAD_BYTES
        if value is not None:
            size += len(value)
        if key is not None:
            size += len(key)
        is_parked = self.place.is_held
        sent = SentRecord(self, record, report, since_s, size, is_parked)
        headers = record.headers if isinstance(record.headers, list) else list(record.headers)
        try:
            # From the counting until it is queued no other function is called: no signal handler can raise in between.
            self.last.following = sent
            self.last = sent
            self.sent += 1
            self.sent_bytes += size
            if not is_parked:
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
            sent.is_over = True
            self.sent -= 1
            self.sent_bytes -= size
            raise

    # -- the producer's thread ---------------------------------------------------------------------------------------

    def skip(self) -> None:
        """Let go of those at the beginning that are over."""
        first = self.first
        following = first.following
        while following is not None and following.is_over:
            first.record = NOTHING
            first.report = None
            first = following
            following = first.following
        first.record = NOTHING
        first.report = None
        self.first = first

    def count_ended(self, size: int) -> None:
        """One has been reported."""
        self.ended += 1
        self.ended_bytes += size
        if self.marks and self.ended >= self.marks[0]:
            self.marks.popleft()
            self.told()

    def oldest(self) -> SentRecord | None:
        """The oldest that is not over."""
        self.skip()
        return self.first.following

    def end_all(self) -> list[SentRecord]:
        """Those that are not over count as over now, and those that the producer has as abandoned; each is to be told
        and counted. Its place is held behind them.
        """
        with self.place.lock:
            found: list[SentRecord] = []
            sent = self.first.following
            while sent is not None:
                if not sent.is_over:
                    sent.is_over = True
                    found.append(sent)
                    if not sent.is_parked:
                        self.place.abandoned += 1
                        self.place.is_held = True
                following, sent.following = sent.following, None  # a long chain would be let go of by recursion
                sent = following
            self.first = self.last
            return found

    def leave(self) -> None:
        """Its connection has gone, and all was ended."""
        with self.place.lock:
            self.place.lines.remove(self)
            del self.first, self.last  # which know it: the garbage collector does not look at them

    def parked(self) -> list[SentRecord]:
        """Those that wait behind what is abandoned; the caller holds the place's lock."""
        found: list[SentRecord] = []
        sent = self.first.following
        while sent is not None:
            if sent.is_parked and not sent.is_over:
                found.append(sent)
            sent = sent.following
        return found
