"""The arithmetic of a benchmark: medians with their spread, percentiles, ratios, targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Summary:
    """Several measurements of one thing."""

    median: float
    low: float
    high: float
    count: int

    @property
    def spread(self) -> float:
        """How far the extremes are apart, as a part of the median; 0 for a median of 0."""
        return (self.high - self.low) / self.median if self.median else 0.0


def summary(values: Sequence[float]) -> Summary:
    """Median, least and greatest; there is at least one value."""
    assert values, "nothing was measured"
    return Summary(median=float(median(values)), low=float(min(values)), high=float(max(values)), count=len(values))


def percentile(values: Sequence[float], percent: float) -> float:
    """The least measured value that at least `percent` per cent of all do not exceed; nothing is interpolated."""
    assert values, "nothing was measured"
    assert 0 < percent <= 100, percent
    ordered = sorted(values)
    rank = -int(-len(ordered) * percent // 100)  # rounded up
    return float(ordered[max(rank, 1) - 1])


def ratio(part: Summary, whole: Summary) -> float:
    """One median as a part of the other."""
    assert whole.median > 0, whole
    return part.median / whole.median


def paired_ratio(repeats: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """The median, over all repeats, of what the first half of one took as a part of what the second half took.

    Both halves of a repeat see the same machine; over many minutes it is faster and slower by more than is looked for.
    """
    return float(median(sum(first) / sum(second) for first, second in repeats))


@dataclass(frozen=True, slots=True)
class Judgement:
    """A figure and what it should be."""

    name: str
    value: float
    bound: Literal["at least", "below"]
    target: float
    unit: str = ""
    """"" for a plain ratio."""

    @property
    def passed(self) -> bool:
        """Return True if the target was met."""
        return self.value >= self.target if self.bound == "at least" else self.value < self.target


def counted_rows(raw: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what clients said in the repeats that count."""
    return [row for row in raw if row["repeat"] >= 0]
