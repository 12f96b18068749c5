"""A journal in memory. It outlives the sidecar that used it, as a folder does, until its owner lets it go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from jbm_kafka.ports import Clock
from jbm_kafka.store.journal_age import is_fresh


@dataclass(slots=True)
class _Channel:
    position: int = 0
    stamped_at_ms: int = 0
    entries: dict[bytes, bytes] = field(default_factory=dict)


class MemoryJournal:
    """`ports.Journal` without a disk; passes the same contract tests as `RocksJournal`."""

    trouble = ""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._channels: dict[str, _Channel] = {}

    def load(self, channel: str) -> tuple[int, Mapping[bytes, bytes]]:
        state = self._channels.get(channel)
        if state is None:
            return 0, {}
        if not is_fresh(state.stamped_at_ms, self._clock.now_ms()):
            self.discard(channel)
            return 0, {}
        return state.position, dict(state.entries)

    def write(self, batches: Mapping[str, tuple[int, Mapping[bytes, bytes | None]]]) -> None:
        for channel, (position, changes) in batches.items():
            assert position >= 0, (channel, position)
            state = self._channels.setdefault(channel, _Channel())
            state.position = position
            state.stamped_at_ms = self._clock.now_ms()
            for key, value in changes.items():
                if value is None:
                    state.entries.pop(key, None)
                else:
                    state.entries[key] = value

    def entries(self, channel: str) -> Mapping[bytes, bytes]:
        state = self._channels.get(channel)
        return {} if state is None else dict(state.entries)

    def discard(self, channel: str) -> None:
        self._channels.pop(channel, None)

    def close(self) -> None:
        """Nothing to do; what was written stays for the next sidecar."""
