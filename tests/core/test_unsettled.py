"""Sets of offsets in blocks: the same answers as Python's own set, at the edges of blocks too."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from jbm_kafka.core.channel.unsettled import BLOCK_SIZE, UnsettledOffsets

near_edges = st.builds(lambda block, place: max(block * BLOCK_SIZE + place, 0), st.integers(0, 3), st.integers(-3, 3))
offset_lists = st.lists(near_edges, max_size=12)


def unsettled_of(*offsets: int) -> UnsettledOffsets:
    unsettled = UnsettledOffsets()
    unsettled.add(offsets)
    return unsettled


@settings(deadline=None)  # a range of several blocks makes long lists to compare
@given(offset_lists, near_edges, near_edges, offset_lists, near_edges, near_edges)
def test_it_answers_as_a_plain_set_would(
    added: list[int], range_begin: int, range_end: int, gone: list[int], begin: int, end: int
) -> None:
    unsettled, plain = UnsettledOffsets(), set(added) | set(range(range_begin, range_end))
    unsettled.add(added)
    unsettled.add_range(range_begin, range_end)
    unsettled.discard(gone)
    plain -= set(gone)
    assert len(unsettled) == len(plain)
    assert list(unsettled) == sorted(plain)
    assert unsettled.first(7) == min(plain, default=7)
    assert unsettled.within(begin, end) == sorted(o for o in plain if begin <= o < end)
    assert all((offset in unsettled) == (offset in plain) for offset in [*added, *gone, begin, end])


@given(near_edges, st.integers(0, 12), st.permutations(range(4)), near_edges)
def test_what_is_settled_in_the_order_of_the_log_is_settled_as_in_any_other(
    first: int, count: int, order: list[int], begin_at: int
) -> None:
    runs: list[list[int]] = [list(range(first, first + count)), [first + place for place in order]]
    for run in runs:
        unsettled = UnsettledOffsets()
        unsettled.add_range(begin_at, begin_at + 8)
        blocks = unsettled.discard(run)
        assert blocks == {offset // BLOCK_SIZE for offset in run}
        assert list(unsettled) == [offset for offset in range(begin_at, begin_at + 8) if offset not in run]


def test_offsets_that_only_look_like_a_run_by_their_ends_are_settled_one_by_one() -> None:
    """Of one that is named twice instead of its neighbour: as many as the run has, and its first and last."""
    unsettled = unsettled_of(5, 6, 7, 8)
    unsettled.discard([5, 7, 7, 8])
    assert list(unsettled) == [6]


@settings(deadline=None)
@given(offset_lists, offset_lists, offset_lists, near_edges, near_edges)
def test_what_is_settled_of_a_block_is_what_is_not_owed_there(
    added: list[int], also: list[int], parked: list[int], begin: int, end: int
) -> None:
    unsettled = unsettled_of(*added)
    still = set(added) - set(also)
    for number in range(4):
        base = number * BLOCK_SIZE
        expected = {o - base for o in range(max(begin, base), min(end, base + BLOCK_SIZE)) if o not in still}
        assert set(unsettled.settled_in(number, begin, end, also)) == expected
    assert unsettled.first_without(9, also, unsettled_of(*parked)) == min(still - set(parked), default=9)
    assert list(unsettled.without(unsettled_of(*parked))) == sorted(set(added) - set(parked))


@given(offset_lists, offset_lists)
def test_two_are_equal_when_they_owe_the_same_however_they_came_to_it(left: list[int], right: list[int]) -> None:
    both = unsettled_of(*left, *right)
    both.discard(right)
    assert (both == unsettled_of(*left)) == (not set(left) & set(right))


def test_a_bitmap_of_a_block_that_owes_nothing_changes_nothing() -> None:
    unsettled = unsettled_of(5)
    unsettled.discard_bitmap(3, BitMap([1, 2]))
    assert list(unsettled) == [5]


def test_a_bitmap_settles_offsets_relative_to_its_block() -> None:
    unsettled = unsettled_of(1, BLOCK_SIZE + 1, BLOCK_SIZE + 2)
    unsettled.discard_bitmap(1, BitMap([1]))
    assert list(unsettled) == [1, BLOCK_SIZE + 2]


def test_it_cannot_be_hashed_because_it_changes() -> None:
    with pytest.raises(TypeError, match="mutable"):
        hash(UnsettledOffsets())


def test_nothing_else_equals_it() -> None:
    assert UnsettledOffsets() != set()
