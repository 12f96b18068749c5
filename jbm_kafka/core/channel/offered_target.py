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
    """The least and the largest step of a channel's mark, in offsets."""

    least: int = 16
    most: int = 262_144


USUAL: Final = OfferedLimits()


class OfferedPace:
    """The pace that channels of one group that are opened together tell each other.

    A backlog comes partition by partition. If each found out for itself how fast its receivers are, they would wait for
    as many checkpoints again with every one.
    """

    __slots__ = ("_step", "_told_at_ms")

    def __init__(self) -> None:
        self._step = 0
        self._told_at_ms = 0

    def tell(self, step: int, now_ms: int) -> None:
        """A channel's step is so large now."""
        if step >= self.latest(now_ms):
            self._step, self._told_at_ms = step, now_ms

    def latest(self, now_ms: int) -> int:
        """The largest step that was noted in the last second, or 0."""
        return self._step if now_ms - self._told_at_ms <= 2 * HALF_MS else 0


class OfferedStep:
    """The step of one channel's mark, by how fast the last one was used up. Times are milliseconds of one clock."""

    __slots__ = ("_begun_at_ms", "_has_stopped", "_is_late", "_limits", "_pace", "_used_ms", "is_short", "step")

    def __init__(self, limits: OfferedLimits, pace: OfferedPace) -> None:
        assert 1 <= limits.least <= limits.most, limits
        self._limits = limits
        self._pace = pace
        self._begun_at_ms: int | None = None
        """None: hand-over stands still, or has not begun."""
        self._used_ms: int | None = None
        """How long this step was in use before it stood still; None: none was asked for, nothing handed over."""
        self._is_late = False
        """The mark was raised when it was reached already, so that hand-over waits for this step from its beginning."""
        self._has_stopped = False
        """It was reached before it was recorded that it was raised."""
        self.step = limits.least
        """Offsets."""
        self.is_short = False
        """The last step was used up so fast that what is left of it may not outlast a checkpoint's interval."""

    @property
    def enough(self) -> int:
        """With so many offsets left the mark need not be raised yet."""
        return self.step - self.step // 2

    def begin(self, now_ms: int) -> None:
        """Messages are handed over, or again; while they are: nothing."""
        if self._begun_at_ms is None:
            self._used_ms = self._used_ms or 0
            self._begun_at_ms = now_ms - self._used_ms

    def stop(self, now_ms: int) -> None:
        """The mark is reached: how long the checkpoint takes that raises it says nothing of how fast messages go."""
        self._has_stopped = not self._is_late
        if self._begun_at_ms is not None:
            self._used_ms, self._begun_at_ms = now_ms - self._begun_at_ms, None

    def next_step(self, now_ms: int, *, is_reached: bool = False) -> int:
        """The mark is raised now: by how much. `is_reached`: what comes next lies beyond it."""
        took_ms = self._used_ms if self._begun_at_ms is None else now_ms - self._begun_at_ms
        if took_ms is not None:
            self._judge(took_ms, now_ms)
        self._used_ms = 0
        if self._begun_at_ms is not None:
            self._begun_at_ms = now_ms
        self._has_stopped, self._is_late = False, is_reached
        return self.step

    def _judge(self, took_ms: int, now_ms: int) -> None:
        """The step was in use for so long: not at all where a gap is wider than the step."""
        self.is_short = took_ms < HALF_MS // 2 or (self._has_stopped and took_ms <= 2 * HALF_MS)
        if self.is_short:
            self.step = min(max(self._grown, self._pace.latest(now_ms)), self._limits.most)
        elif took_ms > 2 * HALF_MS:
            self.step = max(self.step // 2, self._limits.least)
        self._pace.tell(self.step, now_ms)

    @property
    def _grown(self) -> int:
        return self.step * 2 if self.step >= STEADY else min(self.step * GROWTH, STEADY)
