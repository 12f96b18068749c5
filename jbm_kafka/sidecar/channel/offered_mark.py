"""The mark of one channel up to which messages may have been handed over, as far as it is to be recorded.

How far ahead it goes is decided in core/channel/offered_target.py; what is recorded is the state's `offered_position`.
The owner thread's.
"""

from __future__ import annotations

from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.freeze import Freeze
from jbm_kafka.core.channel.offered_target import OfferedLimits, OfferedPace, OfferedStep


class OfferedMark:
    """Raised before it is reached, recorded by the next freeze, and set back by the last one."""

    __slots__ = ("_is_reached", "_state", "_step", "is_releasing", "target")

    def __init__(self, state: ChannelState, limits: OfferedLimits, pace: OfferedPace) -> None:
        self._state = state
        self._step = OfferedStep(limits, pace)
        self.target = state.offered_position
        """The position that the next freeze records."""
        self._is_reached = False
        """The next message lies beyond the mark that is recorded."""
        self.is_releasing = False
        """The next durable freeze is the last: it records exactly what was handed over."""

    @property
    def must_record(self) -> bool:
        """It was raised or set back since it was recorded."""
        return self.target > self._state.offered_position or self.is_releasing

    @property
    def waits(self) -> bool:
        """Hand-over stands still until the raised mark is recorded."""
        return self._is_reached and self.target > self._state.offered_position

    def is_awaited(self, under_way: Freeze | None) -> bool:
        """Hand-over waits for a checkpoint, or is about to; `under_way`: of one whose end is not known."""
        if under_way is not None and under_way.durable.offered_position == self.target:
            return False  # it records the mark; another right behind it would record little else
        is_near = self._is_reached or self._step.is_short
        return self.is_releasing or (self.target > self._state.offered_position and is_near)

    def note_hand_over(self, now_ms: int) -> None:
        """Messages are handed over, or were while it stood still: since then, or again."""
        self._step.begin(now_ms)

    def raise_ahead(self, now_ms: int, *, is_reached: bool = False) -> None:
        """Record ahead that more may be handed over, unless enough is left (`OfferedStep.enough`).

        The next checkpoint is soon enough then, unless the last mark did not last. `is_reached`: what comes next lies
        beyond the mark, however far the last hand-over is from it: there may be a wide gap between them, such as a
        transaction that was aborted. That waits.
        """
        state = self._state
        self._is_reached = is_reached
        if self.target == state.offered_position:
            if is_reached:
                step = self._step.next_step(now_ms, is_reached=True)
                self.target = max(state.delivered_position, state.watermark, self.target) + step
            elif state.delivered_position + self._step.enough > self.target:
                self.target = max(state.delivered_position, state.watermark) + self._step.next_step(now_ms)
        if self.waits:
            self._step.stop(now_ms)

    def begin(self) -> None:
        """After opening: as the last owner left it, so the first hand-over beyond waits for a checkpoint."""
        self.target = self._state.offered_position

    def set_back(self) -> None:
        """Everything that was handed over is settled, or came back and is remembered with its attempts.

        So the mark goes back to where an earlier owner left it in doubt.
        """
        in_doubt_below = max(self._state.watermark, self._state.redelivered_below)
        if self.target > in_doubt_below:
            self.target = in_doubt_below
            self.is_releasing = True

    def recorded(self, position: int) -> None:
        """A durable freeze says this."""
        self.is_releasing = self.is_releasing and position != self.target
