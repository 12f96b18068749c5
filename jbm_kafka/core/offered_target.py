"""How far ahead of hand-over it is recorded that messages may have been handed over.

A mark that is reached stops hand-over until a checkpoint has raised it. Far ahead that is seldom; but after a crash
everything below the mark comes marked as redelivered, seen or not. So: about a second of traffic, which is a few
messages of a slow channel.
"""

from __future__ import annotations

from typing import Final, NamedTuple

HALF_MS: Final = 500
"""How long half of a step should last: it is raised when half is used up."""
GROWTH: Final = 8
"""How many times as large a step becomes that was too short, below STEADY: three checkpoints make a channel fast."""
STEADY: Final = 16_384
"""From here on a step that was too short is doubled only."""


class OfferedLimits(NamedTuple):
    """Between what the step of a channel's mark stays, in offsets."""

    least: int = 16
    most: int = 262_144


USUAL: Final = OfferedLimits()


class OfferedStep:
    """The step of one channel's mark, by how fast the last one was used up. Times are milliseconds of one clock."""

    __slots__ = ("_begun_at_ms", "_limits", "is_short", "step")

    def __init__(self, limits: OfferedLimits) -> None:
        assert 1 <= limits.least <= limits.most, limits
        self._limits = limits
        self._begun_at_ms: int | None = None
        self.step = limits.least
        """Offsets."""
        self.is_short = False
        """The last step was used up so fast that what is left of it may not outlast a checkpoint's interval."""

    @property
    def enough(self) -> int:
        """With so many offsets left the mark need not be raised yet."""
        return self.step - self.step // 2

    def begin(self, now_ms: int) -> None:
        """Messages are handed over; of a step begun already: nothing."""
        if self._begun_at_ms is None:
            self._begun_at_ms = now_ms

    def next_step(self, now_ms: int) -> int:
        """The mark is raised now: by how much."""
        took_ms = HALF_MS if self._begun_at_ms is None else now_ms - self._begun_at_ms
        self._begun_at_ms = now_ms
        self.is_short = took_ms < HALF_MS // 2
        if self.is_short:
            self.step = min(self._grown, self._limits.most)
        elif took_ms > 2 * HALF_MS:
            self.step = max(self.step // 2, self._limits.least)
        return self.step

    @property
    def _grown(self) -> int:
        return self.step * 2 if self.step >= STEADY else min(self.step * GROWTH, STEADY)
