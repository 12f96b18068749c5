"""How far ahead of hand-over it is recorded that messages may have been handed over.

A mark that is reached stops hand-over until a checkpoint has raised it. Far ahead that is seldom; but after a crash
everything below the mark comes marked as redelivered, seen or not. So: a second of traffic, and not less than a step
that makes marks rare for slow receivers.
"""

from __future__ import annotations

from typing import Final

HALF_MS: Final = 500
"""How long half of a step should last: it is raised when half is used up."""
GROWTH_MAX: Final = 16
"""How many times the least step it may become."""


class OfferedStep:
    """The step of one channel's mark, by how fast the last one was used up. Times are milliseconds of one clock."""

    __slots__ = ("_begun_at_ms", "_least", "is_short", "step")

    def __init__(self, least: int) -> None:
        assert least >= 1, least
        self._least = least
        self._begun_at_ms: int | None = None
        self.step = least
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
            self.step = min(self.step * 2, self._least * GROWTH_MAX)
        elif took_ms > 2 * HALF_MS:
            self.step = max(self.step // 2, self._least)
        return self.step
