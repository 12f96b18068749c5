"""Runs of consecutive numbers: offsets in an account, partitions in a line for people."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from jbm_kafka.core.channel.entries import OffsetRange


def ranges_of(numbers: Collection[int]) -> tuple[OffsetRange, ...]:
    """Return the runs of consecutive numbers, in ascending order."""
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


def reading_spans(offsets: Collection[int], *, gap_max: int, length_max: int) -> Iterator[tuple[int, int]]:
    """Spans [begin, end) that have all of these, so that one read takes neighbours together.

    Args:
        gap_max: offsets between two up to which they are neighbours.
        length_max: offsets of one span at most.
    """
    begin = end = -1
    for offset in sorted(offsets):
        if begin < 0:
            begin = offset
        elif offset - end > min(gap_max, length_max) or offset - begin >= length_max:
            yield begin, end
            begin = offset
        end = offset + 1
    if begin >= 0:
        yield begin, end
