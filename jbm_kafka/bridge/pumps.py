"""The ways of a bridge's messages, one class each (decision 119): the seam that lanes work by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jbm_kafka.bridge.bridge_counts import LaneCounts
from jbm_kafka.jms.messages.message import Message


class Pump(Protocol):
    """Takes messages from the source to the target, and settles them at the source. One thread."""

    def step(self) -> int | None:
        """Take on some that are there, or come in a moment; how many arrived. None: some are in hand, and of none of
        them it is known yet.

        Raises:
            JMSError: it cannot go on. The lane closes it, waits, and makes another; nothing is lost by that, and
                twice it is only where the way says so.
            StandsBy: another process runs the bridge; it is to be asked again in a moment.
            TakenOver: another process has begun to. The lane closes it, and makes another, which stands by.
        """

    def close(self) -> None:
        """Take no more. What has not arrived comes again, to whoever receives from the source then."""


class PumpSource(Protocol):
    """The source that a pump receives from."""

    counts: LaneCounts

    def receive(self, *, waits: bool) -> Message | None:
        """The next message, or None. `waits`: for a moment, where there is none.

        Raises:
            JMSError: it cannot be had now.
        """

    def refuse(self, message: Message, reason: str) -> None:
        """Give it up: it goes to the source's dead-letter address. Of a source that did not acknowledge it first."""

    def put_back(self, messages: Sequence[Message]) -> None:
        """Have them come again, uncounted: none was at fault. The pump is closed then, or commits the others."""

    def acknowledge(self, message: Message) -> None:
        """It has arrived. Of a source that gives one of a unit at a time."""

    def settle(self, messages: Sequence[Message]) -> bool:
        """They have arrived, all that were received and not refused. False: the source may still give them again."""

    def close(self) -> None:
        """Receive no more; what is in hand comes again."""


class StandsBy(Exception):
    """Another process runs the bridge; the text says which."""

    def __init__(self, text: str, *, is_from_elsewhere: bool = False) -> None:
        """`is_from_elsewhere`: from another source, as far as addresses tell."""
        super().__init__(text)
        self.is_from_elsewhere = is_from_elsewhere


class TakenOver(Exception):
    """Another process has taken the bridge over; this one is to send nothing more."""
