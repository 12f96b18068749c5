"""The order in which a browser shows messages: that of receiving (UNIT-13).

Partitions are merged by when their messages were sent, each in the order of its log. Of the next messages of that, so
many as are read ahead, a higher priority goes first, as with a receiver; and a unit's messages stay in order.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from jbm_kafka.core.channel.reference import GateKey, Reference
from jbm_kafka.ports import KafkaRecord, LogReader
from jbm_kafka.ports.provider import Seen

READ_TIMEOUT_S = 30.0
READ_AHEAD = 1_000
"""Messages among which a higher priority goes first."""
READ_AHEAD_BYTES = 16 * 2**20
"""The bytes of bodies that are read ahead; where bodies are larger fewer messages are."""
RECORDS_MAX = 10_000
"""Kept of what one read gave, of all partitions together."""
RECORDS_SOUGHT_MAX = 50_000
"""The same where few of them are wanted: each read begins anew, and throws away what was fetched beyond it."""
FIRST_OFFSETS, GROWTH, PARTITION_OFFSETS_MIN = 16, 8, 50
"""A first read, of each partition, shows how large bodies are; later ones take more, and at least so many."""


NOTHING: Final[Mapping[int, Sequence[KafkaRecord]]] = MappingProxyType({})


def body_bytes(record: KafkaRecord) -> int:
    """Return roughly the bytes of one message."""
    return len(record.value() or b"")


class MergedLog:
    """The records of several partitions, by when they were sent, each partition in the order of its log. One thread."""

    def __init__(
        self,
        reader: LogReader,
        topic: str,
        spans: Mapping[int, tuple[int, int]],
        before: Mapping[int, Sequence[KafkaRecord]] = NOTHING,
        *,
        records_max: int = RECORDS_MAX,
        first_offsets: int = FIRST_OFFSETS,
    ) -> None:
        """`spans`: by partition the first offset, and the one past the last; `before`: what comes before these."""
        self._records_max = records_max
        self._reader = reader
        self._topic = topic
        self._positions = {partition: begin for partition, (begin, _) in spans.items()}
        self._ends = {partition: end for partition, (_, end) in spans.items()}
        self._kept: dict[int, deque[KafkaRecord]] = {partition: deque(before.get(partition, ())) for partition in spans}
        self._offsets = first_offsets
        """The number that the next read takes of each partition."""

    def __iter__(self) -> Iterator[KafkaRecord]:
        heads: list[tuple[int, int]] = []
        for partition in self._kept:
            self._push(heads, partition)
        while heads:
            _, partition = heapq.heappop(heads)
            yield self._kept[partition].popleft()
            self._push(heads, partition)

    def _push(self, heads: list[tuple[int, int]], partition: int) -> None:
        kept = self._kept[partition]
        while not kept and self._positions[partition] < self._ends[partition]:
            self._read()
        if kept:
            heapq.heappush(heads, (kept[0].timestamp()[1], partition))

    def _read(self) -> None:
        """Read on in every partition of which little is left: one read costs as much for all as for one."""
        ranges: dict[int, tuple[int, int]] = {}
        for partition, kept in self._kept.items():
            position = self._positions[partition]
            if len(kept) <= self._offsets // 2 and position < self._ends[partition]:
                ranges[partition] = position, min(position + self._offsets, self._ends[partition])
        records = self._reader.read(self._topic, ranges, timeout_s=READ_TIMEOUT_S)
        for record in records:
            self._kept[record.partition() or 0].append(record)
        for partition, (_, end) in ranges.items():
            self._positions[partition] = end
        self._offsets = self._next_offsets(records)

    def _next_offsets(self, records: Sequence[KafkaRecord]) -> int:
        mean_bytes = sum(map(body_bytes, records)) / len(records) if records else 0
        share = max(len(self._kept), 1)
        most = max(self._records_max // share, PARTITION_OFFSETS_MIN)
        if mean_bytes:
            most = min(most, max(int(READ_AHEAD_BYTES / mean_bytes / share), 1))
        return min(self._offsets * GROWTH, most)


class Arrival(NamedTuple):
    """A message as it comes from the log."""

    partition: int
    reference: Reference
    seen: Seen


class _Row(NamedTuple):
    priority: int
    """Below zero, the higher the lower: rows compare by it, and then by their place."""
    place: int
    arrival: Arrival
    size: int


def in_order_of_receiving(arrivals: Iterator[Arrival]) -> Iterator[Seen]:
    """The same, with a higher priority first among those read ahead, and each unit's messages in order."""
    heads: list[_Row] = []
    behind: dict[tuple[int, GateKey], deque[_Row]] = {}
    """The messages behind the first of their unit; a unit that is here has a head."""
    count = size = 0
    for place, arrival in enumerate(arrivals):
        row = _Row(-arrival.reference.priority, place, arrival, body_bytes(arrival.seen.record))
        unit = arrival.partition, arrival.reference.gate_key
        if unit in behind:
            behind[unit].append(row)
        else:
            behind[unit] = deque()
            heapq.heappush(heads, row)
        count, size = count + 1, size + row.size
        while count >= READ_AHEAD or size >= READ_AHEAD_BYTES:
            row = _next(heads, behind)
            count, size = count - 1, size - row.size
            yield row.arrival.seen
            if not heads:
                break
    while heads:
        yield _next(heads, behind).arrival.seen


def _next(heads: list[_Row], behind: dict[tuple[int, GateKey], deque[_Row]]) -> _Row:
    row = heapq.heappop(heads)
    unit = row.arrival.partition, row.arrival.reference.gate_key
    if behind[unit]:
        heapq.heappush(heads, behind[unit].popleft())
    else:
        del behind[unit]
    return row
