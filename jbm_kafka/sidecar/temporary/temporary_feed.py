"""What a temporary destination's group worker reads from: its records, as the process's reader of all finds them.

To the group worker it is the only member of a group. What waits is kept in memory up to a bound; beyond that, and for
what came before there was a consumer, it is read from the log, which keeps it for an hour.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence

from jbm_kafka.codec.one_header import last_value
from jbm_kafka.core.temporary_name import TEMPORARY_HEADER
from jbm_kafka.ports import GroupListener, Kafka, KafkaRecord, LogReader
from jbm_kafka.sidecar.temporary.temporary_log import TemporaryLog

KEPT_BYTES_MAX = 4 * 2**20
CHUNK = 5_000
"""Offsets read from the log at a time."""
READ_TIMEOUT_S = 10.0
RECORD_BYTES = 500
"""Rough size of a record beside its body."""


class Unread:
    """Notes where the messages of a destination begin that nobody reads yet. A `Taker`."""

    def __init__(self, first: int = 0) -> None:
        """`first`: nothing before this offset counts, though the process's reader may not have come so far."""
        self.first = first
        self.begin: int | None = None
        """None: nothing is unread."""

    def take(self, record: KafkaRecord, offset: int) -> None:
        if self.begin is None and offset >= self.first:
            self.begin = offset


class Kept:
    """The records that wait in memory, up to so many bytes."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._records: deque[KafkaRecord] = deque()

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: KafkaRecord) -> bool:
        """False when there is no room for it."""
        size = _size(record)
        if self._bytes + size > self._bytes_max:
            return False
        self._records.append(record)
        self._bytes += size
        return True

    def take(self, count_max: int) -> Sequence[KafkaRecord]:
        """The first ones."""
        records = [self._records.popleft() for _ in range(min(count_max, len(self._records)))]
        self._bytes -= sum(_size(record) for record in records)
        return records

    def clear(self) -> None:
        """Forget all."""
        self._records.clear()
        self._bytes = 0


def _size(record: KafkaRecord) -> int:
    return len(record.value() or b"") + RECORD_BYTES


class TemporaryFeed:
    """Implements `GroupConsumer` and `Taker`. The group worker's thread calls, and that of the log gives."""

    def __init__(
        self,
        log: TemporaryLog,
        name: str,
        listener: GroupListener,
        *,
        kafka: Kafka,
        begin: int,
        kept_bytes_max: int = KEPT_BYTES_MAX,
    ) -> None:
        self._log = log
        self._name = name
        self._listener = listener
        self._kafka = kafka
        self._filled = threading.Condition(log.lock)
        self._kept = Kept(kept_bytes_max)
        self._behind_from: int | None = begin if begin < log.position else None
        """From here on records are read from the log; None: everything that is unread is in `_kept`."""
        self.next_position = begin
        """One past the last that was returned, or where it began."""
        self._reader: LogReader | None = None
        self._has_joined = self._is_paused = self._is_closed = False
        log.add(name, self)

    # -- the log's thread, under its lock --------------------------------------------------------------------------

    def take(self, record: KafkaRecord, offset: int) -> None:
        if self._behind_from is not None or offset < self.next_position:
            return
        if not self._kept.add(record):
            self._behind_from = offset
        self._filled.notify_all()

    # -- the group worker's thread ---------------------------------------------------------------------------------

    def consume(self, count_max: int, timeout_s: float) -> Sequence[KafkaRecord]:
        if not self._has_joined:
            self._has_joined = True
            self._listener.on_assigned([self._log.partition])
        with self._filled:
            if not self._has_unread():
                self._filled.wait(timeout_s)
            if self._is_paused:
                return []
            if self._kept:
                records = self._kept.take(count_max)
                self._returned((records[-1].offset() or 0) + 1)
                return records
            behind = self._behind_from
        return [] if behind is None else self._read(behind)

    def wake(self) -> None:
        with self._filled:
            self._filled.notify_all()

    def _has_unread(self) -> bool:
        return not self._is_paused and bool(self._kept or self._behind_from is not None)

    def _read(self, begin: int) -> Sequence[KafkaRecord]:
        """What the log has of it from there on. The log's thread goes on meanwhile, and leaves this one to it."""
        if self._reader is None:
            self._reader = self._kafka.log_reader()
        end = min(begin + CHUNK, self._log.position)
        found: Sequence[KafkaRecord] = ()
        if begin < end:
            found = self._reader.read(self._log.topic, {self._log.partition: (begin, end)}, timeout_s=READ_TIMEOUT_S)
        with self._filled:
            self._returned(end)
            self._behind_from = None if end >= self._log.position else end
        return [record for record in found if last_value(record.headers(), TEMPORARY_HEADER) == self._name.encode()]

    def _returned(self, end: int) -> None:
        self.next_position = max(self.next_position, end)

    def pause(self, partitions: Sequence[int]) -> None:
        self._is_paused = True

    def resume(self, partitions: Sequence[int]) -> None:
        self._is_paused = False

    def seek(self, partition: int, position: int) -> None:
        """Return what stands from there on, again where it was returned before."""
        with self._filled:
            if position == self.next_position:
                return
            self._kept.clear()
            self.next_position = position
            self._behind_from = position if position < self._log.position else None

    def assignment(self) -> frozenset[int]:
        return frozenset([self._log.partition]) if self._has_joined and not self._is_closed else frozenset()

    def group_metadata(self) -> object:
        return self

    def ends_reached(self) -> Mapping[int, int]:
        with self._filled:
            if self._kept or self._behind_from is not None:
                return {}
            return {self._log.partition: self._log.position}

    def known_ends(self) -> Mapping[int, int]:
        return {}  # the log has every temporary destination's

    def breaks(self) -> int:
        return 0

    def timed_out(self) -> bool:
        return False

    def joined(self) -> bool:
        return self._has_joined

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._has_joined:
            self._listener.on_revoked([self._log.partition])
        self._log.remove(self._name, self)
        if self._reader is not None:
            self._reader.close()
