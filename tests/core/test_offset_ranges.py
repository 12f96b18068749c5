"""Runs of consecutive numbers."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.core.channel.entries import OffsetRange
from jbm_kafka.core.channel.offset_ranges import ranges_of, reading_spans


def test_runs_are_ascending_and_as_long_as_they_can_be() -> None:
    assert ranges_of([]) == ()
    assert ranges_of([7, 5, 6]) == (OffsetRange(5, 7),)
    assert ranges_of([9, 1, 2, 5]) == (OffsetRange(1, 2), OffsetRange(5, 5), OffsetRange(9, 9))


@given(st.sets(st.integers(0, 60)))
def test_they_have_each_number_once(numbers: set[int]) -> None:
    runs = ranges_of(numbers)
    assert [number for run in runs for number in range(run.first, run.last + 1)] == sorted(numbers)
    assert all(later.first > earlier.last + 1 for earlier, later in pairwise(runs))


def test_one_read_takes_neighbours_together() -> None:
    assert list(reading_spans([9, 3, 4, 40, 41, 95], gap_max=10, length_max=30)) == [(3, 10), (40, 42), (95, 96)]
    assert list(reading_spans(range(7), gap_max=10, length_max=3)) == [(0, 3), (3, 6), (6, 7)]
    assert list(reading_spans([], gap_max=10, length_max=3)) == []
