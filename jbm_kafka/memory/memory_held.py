"""Held messages in memory."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Sequence

from jbm_kafka.ports import KafkaRecord


class _Rows:
    """The rows of one gate."""

    __slots__ = ("by_offset", "offsets")

    def __init__(self) -> None:
        self.by_offset: dict[int, KafkaRecord] = {}
        self.offsets: list[int] = []
        """Ascending."""


class MemoryHeldStore:
    """`ports.HeldStore` without a disk; passes the same contract tests as `RocksHeldStore`."""

    def __init__(self) -> None:
        self._channels: defaultdict[str, defaultdict[bytes, _Rows]] = defaultdict(lambda: defaultdict(_Rows))

    def put(self, channel: str, rows: Sequence[tuple[bytes, int, KafkaRecord]]) -> None:
        for gate, offset, record in rows:
            held = self._channels[channel][gate]
            if offset not in held.by_offset:
                insort(held.offsets, offset)
            held.by_offset[offset] = record

    def take(self, channel: str, gate: bytes, count_max: int) -> Sequence[KafkaRecord]:
        assert count_max > 0, count_max
        held = self._channels[channel][gate]
        taken = [held.by_offset.pop(offset) for offset in held.offsets[:count_max]]
        del held.offsets[:count_max]
        return taken

    def read(self, channel: str, gate: bytes, begin: int, count_max: int) -> Sequence[KafkaRecord]:
        assert count_max > 0, count_max
        held = self._channels[channel][gate]
        first = bisect_left(held.offsets, begin)
        return [held.by_offset[offset] for offset in held.offsets[first : first + count_max]]

    def remove(self, channel: str, gate: bytes, offsets: Sequence[int]) -> None:
        held = self._channels[channel][gate]
        for offset in offsets:
            if held.by_offset.pop(offset, None) is not None:
                del held.offsets[bisect_left(held.offsets, offset)]

    def clear(self, channel: str) -> None:
        self._channels.pop(channel, None)

    def close(self) -> None:
        self._channels.clear()
