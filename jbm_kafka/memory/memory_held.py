"""Held messages in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from jbm_kafka.ports import KafkaRecord


class MemoryHeldStore:
    """`ports.HeldStore` without a disk; passes the same contract tests as `RocksHeldStore`."""

    def __init__(self) -> None:
        self._channels: defaultdict[str, defaultdict[bytes, dict[int, KafkaRecord]]] = defaultdict(
            lambda: defaultdict(dict)
        )

    def put(self, channel: str, rows: Sequence[tuple[bytes, int, KafkaRecord]]) -> None:
        for gate, offset, record in rows:
            self._channels[channel][gate][offset] = record

    def take(self, channel: str, gate: bytes, count_max: int) -> Sequence[KafkaRecord]:
        assert count_max > 0, count_max
        held = self._channels[channel][gate]
        return [held.pop(offset) for offset in sorted(held)[:count_max]]

    def clear(self, channel: str) -> None:
        self._channels.pop(channel, None)

    def close(self) -> None:
        self._channels.clear()
