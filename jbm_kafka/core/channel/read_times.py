"""When a channel had read how far: how long its owner knows of a message, whatever its sender's clock said (SEND-6)."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

NEVER_READ: Final = 1 << 61
"""The time of what was not read: beyond every delay."""
MARKS_MAX: Final = 64
APART_MS: Final = 1_000


class ReadTimes:
    """A few marks, so that each answer is no earlier than the truth: the later the younger, for old ones coarser."""

    __slots__ = ("_began_ms", "_positions", "_times_ms")

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._times_ms: list[int] = []
        self._began_ms = 0
        """When the latest mark was begun, which moves on with what is read within `APART_MS`."""

    def note(self, position: int, time_ms: int) -> None:
        """All below this position is read by now."""
        positions, times_ms = self._positions, self._times_ms
        if positions and time_ms - self._began_ms < APART_MS:
            positions[-1], times_ms[-1] = position, time_ms
            return
        self._began_ms = time_ms
        positions.append(position)
        times_ms.append(time_ms)
        if len(positions) > MARKS_MAX:
            del positions[: MARKS_MAX // 2 : 2], times_ms[: MARKS_MAX // 2 : 2]

    def of(self, offset: int) -> int:
        """Return the time by which the offset had been read."""
        index = bisect_right(self._positions, offset)
        return self._times_ms[index] if index < len(self._times_ms) else NEVER_READ
