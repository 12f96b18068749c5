"""When the messages of a channel were sent, as far as their ages are asked for: some marks, and none for a message."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

MARKS_MAX: Final = 128
PARTS: Final = 64
"""Marks are so small a part of the oldest age apart."""
APART_MS: Final = 1_000


class LogTimes:
    """The times of some offsets.

    Between two marks everything was sent at most two seconds after the lower one, or a 32nd of what the age of the
    oldest held message was. A mark that is nearer to its neighbour than half of that is not kept.
    """

    __slots__ = ("_offsets", "_times_ms")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._times_ms: list[int] = []

    def note(self, offset: int, time_ms: int, *, held_from: int) -> None:
        """The message there was sent then. Ascending offsets; nothing below `held_from` is asked for any more."""
        offsets, times_ms = self._offsets, self._times_ms
        while len(offsets) > 1 and offsets[1] <= held_from:
            del offsets[0], times_ms[0]
        if offsets and (offset <= offsets[-1] or time_ms - times_ms[-1] < self._apart_ms(time_ms)):
            return
        offsets.append(offset)
        times_ms.append(time_ms)
        if len(offsets) > MARKS_MAX:
            self._thin_out(self._apart_ms(time_ms))

    def of(self, offset: int) -> int | None:
        """When it was sent; None: before the first that was noted."""
        index = bisect_right(self._offsets, offset)
        return self._times_ms[index - 1] if index else None

    def _apart_ms(self, time_ms: int) -> int:
        return max(APART_MS, (time_ms - self._times_ms[0]) // PARTS)

    def _thin_out(self, apart_ms: int) -> None:
        kept = [0]
        for index, time_ms in enumerate(self._times_ms):
            if time_ms - self._times_ms[kept[-1]] >= apart_ms:
                kept.append(index)
        self._offsets = [self._offsets[index] for index in kept]
        self._times_ms = [self._times_ms[index] for index in kept]
