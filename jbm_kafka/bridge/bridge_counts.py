"""The counts of bridges."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class LaneCounts:
    """The counts of one lane, whose thread alone changes them."""

    arrived: int = 0
    refused: int = 0
    came_again: int = 0
    failures: int = 0


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
