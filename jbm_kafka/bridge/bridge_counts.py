"""The counts of bridges."""

from __future__ import annotations

from dataclasses import dataclass

from jbm_kafka.core.rate import Starts
from jbm_kafka.jms.messages.message import Message


@dataclass(slots=True)
class LaneCounts:
    """The counts of one lane, whose thread alone changes them."""

    arrived: int = 0
    refused: int = 0
    came_again: int = 0
    failures: int = 0
    starts: Starts | None = None
    """When it took messages, as far as its rate goes by that. None: it has none."""
    last: tuple[Message, int] | None = None
    """The message that it took last, and when; None: it waited, and there was none."""

    def took(self, message: Message, now_ms: int) -> None:
        """Have this message as the last one."""
        self.last = message, now_ms

    @property
    def behind_s(self) -> float:
        """How long the last one had waited then. Any thread: a message says when it was due from its record alone."""
        last = self.last
        if last is None:
            return 0.0
        message, taken_at_ms = last
        due_at_ms = max(message.timestamp, message.delivery_time)  # 0: its sender did not say
        return max(0, taken_at_ms - due_at_ms) / 1_000 if due_at_ms else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeStatistics:
    """The counts of a bridge since it was started."""

    arrived: int = 0
    """Messages that are at the target and settled at the source."""
    refused: int = 0
    """Messages that could never be sent, and went to the source's dead-letter address."""
    came_again: int = 0
    """Messages that the source gave once more after a failure, and that were at the target already."""
    failures: int = 0
    """How often it could not go on, and began anew."""
    behind_s: float = 0.0
    """How long the message that it took last had waited then, since it was sent or due; 0: there was none."""
