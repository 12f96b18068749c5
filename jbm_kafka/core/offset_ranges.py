"""Runs of consecutive numbers: offsets in an account, partitions in a line for people."""

from __future__ import annotations

from collections.abc import Collection

from jbm_kafka.core.entries import OffsetRange


def ranges_of(numbers: Collection[int]) -> tuple[OffsetRange, ...]:
    """Runs of consecutive numbers, ascending."""
    ordered = sorted(numbers)
    if ordered and ordered[-1] - ordered[0] == len(ordered) - 1:
        return (OffsetRange(ordered[0], ordered[-1]),)
    ranges: list[OffsetRange] = []
    first = last = None
    for number in ordered:
        if last is None or number != last + 1:
            if first is not None and last is not None:
                ranges.append(OffsetRange(first, last))
            first = number
        last = number
    if first is not None and last is not None:
        ranges.append(OffsetRange(first, last))
    return tuple(ranges)
