"""The local disk, as the sidecar needs it: a cache of changelogs, and room for messages that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from jbm_kafka.ports.kafka import KafkaRecord


class Journal(Protocol):
    """The local cache of changelogs, one per state folder: key to value per channel, and a changelog position."""

    @property
    def trouble(self) -> str:
        """Why the latest write failed; empty: it did not. Any thread may look."""

    def load(self, channel: str) -> tuple[int, Mapping[bytes, bytes]]:
        """(changelog position up to which it is complete, entries). Position 0 and nothing when unknown."""

    def write(self, batches: Mapping[str, tuple[int, Mapping[bytes, bytes | None]]]) -> None:
        """One atomic batch: for each channel the new changelog position and its changed entries (None deletes)."""

    def entries(self, channel: str) -> Mapping[bytes, bytes]:
        """All that is known of a channel that is written here; nothing when a batch is missing, or it is unreadable."""

    def discard(self, channel: str) -> None: ...
    def close(self) -> None: ...


class HeldStore(Protocol):
    """Records of waiting messages beyond the memory budget. A cache: empty at open. One thread per channel."""

    def put(self, channel: str, rows: Sequence[tuple[bytes, int, KafkaRecord]]) -> None:
        """Keep (gate key, offset, record) rows; ResourceAllocationError: it refuses, and may have kept some."""

    def take(self, channel: str, gate: bytes, count_max: int) -> Sequence[KafkaRecord]:
        """Remove and return the lowest offsets of one gate, in order; ChannelLost: it cannot be read."""

    def read(self, channel: str, gate: bytes, begin: int, count_max: int) -> Sequence[KafkaRecord]:
        """The lowest offsets of one gate from `begin` on, in order; they stay. ChannelLost: it cannot be read."""

    def remove(self, channel: str, gate: bytes, offsets: Sequence[int]) -> None:
        """Drop these rows of one gate; ChannelLost: it refuses."""

    def clear(self, channel: str) -> None: ...
    def close(self) -> None: ...
