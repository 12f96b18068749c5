"""A source for a group worker of which nothing is recorded: records of a log, as the process's reader finds them.

To the group worker it is the only member of a group, whose `consume` never waits. What comes is kept in memory up to a
bound; beyond that, and for what is read once more, it is read from the log (decision 81).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from jbm_kafka.ports import GroupListener, KafkaClientError, KafkaRecord, LogReader, PartitionUnreadable, UnknownTopic

CHUNK_MIN, CHUNK_MAX = 100, 5_000
"""Offsets read from the log at a time."""
READ_TIMEOUT_S = 10.0
RECORD_BYTES = 500
"""Rough size of a record beside its body."""


class FedLog(Protocol):
    """The process's reader of a topic, or of a partition of it, as a feed knows it."""

    topic: str
    topic_id: str
    """Empty: it does not matter, for the topic stays."""
    lock: threading.RLock
    positions: dict[int, int]
    """The position of each partition: everything below was given to the feeds. Under the lock."""
    is_missing: bool
    """No broker knows the topic."""

    def look(self) -> None:
        """Read what has come to the topic, partitions or another log of the name."""

    def remove(self, feed: LogFeed) -> None:
        """Give it nothing more."""

    def read_behind(self, feed: LogFeed) -> None:
        """Have its `read_behind` called beside, with a reader of the log."""


def _size(record: KafkaRecord) -> int:
    return len(record.value() or b"") + RECORD_BYTES


class LogFeed:
    """Implements `GroupConsumer`. The group worker's thread calls it, and that of the topic's reader gives."""

    def __init__(
        self, log: FedLog, room_bytes: Callable[[], int], has: Callable[[KafkaRecord], bool] | None = None
    ) -> None:
        """It is given what comes from now on, under the log's lock; `room_bytes`: how much it may keep, as of now.

        `has`: which of the log's records it is given; None: all.
        """
        self._log = log
        self._has = has
        self._room_bytes = room_bytes
        self._next = dict(log.positions)
        """One past the last record that was returned, or where a partition begins. Partitions added later have none."""
        self._kept: dict[int, deque[KafkaRecord]] = {}
        self._kept_bytes = 0
        self._behind: dict[int, int] = {}
        """The offset from which records of a partition are read from the log."""
        self._is_reading = False
        """Somebody reads what it is behind with."""
        self._seeks = 0
        self._is_ended = False
        self._errors: deque[KafkaClientError] = deque()
        self._listener: GroupListener | None = None
        self._assigned: frozenset[int] = frozenset()
        self._started: set[int] = set()
        """Partitions that the group worker said where to read from."""
        self._paused: set[int] = set()
        self.notify: Callable[[], None] = lambda: None
        """Called when there may be something to consume, by any thread, without the lock."""
        self.wake: Callable[[], None] = lambda: None
        """Called by the group worker's mailbox, to wake the thread that it shares."""

    def begin(self, positions: Mapping[int, int]) -> None:
        """Nothing before these positions counts, though the process's reader may not have come so far."""
        with self._log.lock:
            for partition, position in positions.items():
                self._next[partition] = position
                if position < self._log.positions.get(partition, 0) and not self._kept.get(partition):
                    self._behind.setdefault(partition, position)  # what came before it was there
                if self._behind.get(partition, position) < position:  # so much came meanwhile
                    self._behind[partition] = position
                kept = self._kept.get(partition)
                while kept and (kept[0].offset() or 0) < position:
                    self._kept_bytes -= _size(kept.popleft())

    def join(self, listener: GroupListener) -> None:
        """Tell this one of the partitions from now on: of all, for it has none."""
        with self._log.lock:
            self._listener = listener
            self._assigned = frozenset()
            self._started.clear()
            self._paused.clear()

    def begins(self, partition: int) -> int:
        """The lowest offset of a partition that it has not returned; of one that was added later all."""
        return self._next.get(partition, 0)

    # -- the reader's thread, under its lock -------------------------------------------------------------------------

    def take(self, records: Sequence[KafkaRecord]) -> None:
        """Take the records that come next in the log."""
        room = self._room_bytes()
        for record in records:
            partition, offset = record.partition() or 0, record.offset() or 0
            if partition in self._behind or offset < self._next.get(partition, 0):
                continue
            if self._kept_bytes + (size := _size(record)) > room:
                self._behind[partition] = offset
                continue
            self._kept.setdefault(partition, deque()).append(record)
            self._kept_bytes += size

    def made_anew(self) -> None:
        """The topic is another one, to be read from its beginning. The group worker hears so, too, and joins again."""
        self._seeks += 1
        self._kept.clear()
        self._kept_bytes = 0
        self._behind.clear()
        self._next.clear()

    def fail(self, error: KafkaClientError) -> None:
        """Have `consume` raise it."""
        self._errors.append(error)

    # -- whoever reads what is behind --------------------------------------------------------------------------------

    def read_behind(self, reader: LogReader) -> None:
        """Read the next of what it is behind with.

        Raises:
            KafkaClientError: it could not be read; it is to be called again.
        """
        with self._log.lock:
            if self._is_ended:
                return
            seeks, ranges = self._seeks, self._ranges()
        try:
            found = reader.read(self._log.topic, ranges, timeout_s=READ_TIMEOUT_S) if ranges else ()
        except PartitionUnreadable as error:
            with self._log.lock:
                self._is_reading = False
                if seeks == self._seeks:
                    self._errors.append(error)
                    self._started.discard(error.partition)
            self.notify()
            return
        with self._log.lock:
            self._is_reading = False
            if seeks == self._seeks:
                self._take_behind(ranges, found)
        self.notify()

    def _ranges(self) -> dict[int, tuple[int, int]]:
        wanted = self._readable_behind()
        waiting = sum(len(kept) for kept in self._kept.values())
        mean = self._kept_bytes // waiting if waiting else RECORD_BYTES
        count = max(CHUNK_MIN, min(CHUNK_MAX, self._room_bytes() // mean) // max(len(wanted), 1))
        positions = self._log.positions
        return {p: (self._behind[p], min(self._behind[p] + count, max(positions[p], self._behind[p]))) for p in wanted}

    def _take_behind(self, ranges: Mapping[int, tuple[int, int]], found: Sequence[KafkaRecord]) -> None:
        for partition, (_, end) in ranges.items():
            if end >= self._log.positions.get(partition, 0):
                del self._behind[partition]
            else:
                self._behind[partition] = end
        for record in found if self._has is None else filter(self._has, found):
            self._kept.setdefault(record.partition() or 0, deque()).append(record)
            self._kept_bytes += _size(record)

    # -- the group worker's thread -----------------------------------------------------------------------------------

    def consume(self, count_max: int, timeout_s: float) -> Sequence[KafkaRecord]:
        """Return what is there; it waits for nothing, `notify` tells."""
        with self._log.lock:
            if self._errors:
                raise self._errors.popleft()
            if self._log.is_missing:
                raise UnknownTopic(f"read topic {self._log.topic}: no broker knows it")
            new = sorted(self._log.positions.keys() - self._assigned)
            self._assigned |= frozenset(new)
        if new and self._listener is not None:
            self._listener.on_assigned(new)
        with self._log.lock:
            records = self._take_kept(count_max)
            must_read = not records and not self._is_reading and bool(self._readable_behind())
            self._is_reading = self._is_reading or must_read
        if must_read:
            self._log.read_behind(self)
        return records

    def _readable(self) -> list[int]:
        return [partition for partition in self._started if partition not in self._paused]

    def _readable_behind(self) -> list[int]:
        """Return the partitions of which nothing is kept: what is kept comes first."""
        return [p for p in self._readable() if p in self._behind and not self._kept.get(p)]

    def _take_kept(self, count_max: int) -> list[KafkaRecord]:
        records: list[KafkaRecord] = []
        for partition in self._readable():
            kept = self._kept.get(partition)
            while kept and len(records) < count_max:
                record = kept.popleft()
                self._kept_bytes -= _size(record)
                self._next[partition] = (record.offset() or 0) + 1
                records.append(record)
        return records

    def pause(self, partitions: Sequence[int]) -> None:
        self._paused.update(partitions)

    def resume(self, partitions: Sequence[int]) -> None:
        self._paused.difference_update(partitions)
        self.notify()

    def seek(self, partition: int, position: int) -> None:
        """Return what stands from there on, again where it was returned before."""
        with self._log.lock:
            self._started.add(partition)
            if position == self._next.setdefault(partition, 0):
                return
            self._seeks += 1
            self._kept_bytes -= sum(_size(record) for record in self._kept.pop(partition, ()))
            self._next[partition] = position
            self._behind.pop(partition, None)
            if position < self._log.positions.get(partition, 0):
                self._behind[partition] = position

    def assignment(self) -> frozenset[int]:
        return self._assigned

    def group_metadata(self) -> object:
        return self

    def ends_reached(self) -> Mapping[int, int]:
        with self._log.lock:
            return {
                partition: position
                for partition, position in self._log.positions.items()
                if partition in self._started and partition not in self._behind and not self._kept.get(partition)
            }

    def known_ends(self) -> Mapping[int, int]:
        return {}

    def breaks(self) -> int:
        return 0

    def timed_out(self) -> bool:
        return False

    def joined(self) -> bool:
        return bool(self._assigned)

    def close(self) -> None:
        """The group worker's client ends; what comes is kept for the next one, until `end`."""
        self._listener = None
        self._started.clear()

    def end(self) -> None:
        """Nothing more of it is wanted."""
        self._is_ended = True
        self._log.remove(self)
