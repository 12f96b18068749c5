"""Counts that go on: plain numbers, each written by one thread without a lock and read by any."""

from __future__ import annotations

from bisect import bisect_left

from jbm_kafka.core.statistics import BOUNDS_S, Histogram


class DurationCounter:
    """Durations, counted by their length."""

    __slots__ = ("_counts", "_sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def note(self, seconds: float) -> None:
        """One more."""
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self._sum_s += seconds

    def histogram(self) -> Histogram:
        """As of now."""
        return Histogram(tuple(self._counts), self._sum_s)


class SourceCounters:
    """One group worker's counts of its queue or subscription. Its owner thread writes."""

    __slots__ = (
        *("acknowledged", "expired", "given_up", "handed_over", "has_ended"),
        *("rebalances", "reconnects", "returned", "send_to_acknowledge"),
    )

    def __init__(self) -> None:
        self.handed_over = 0
        self.acknowledged = 0
        self.returned = 0
        self.given_up = 0
        self.expired = 0
        self.reconnects = 0
        self.rebalances = 0
        self.send_to_acknowledge = DurationCounter()
        self.has_ended = False
        """Nobody writes any more."""
