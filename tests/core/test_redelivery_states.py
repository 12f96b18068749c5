"""What is remembered of messages that came back: the same as values and as rows."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.core.channel.entries import Held
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.channel.redelivery_states import RETURNED, RedeliveryState, RedeliveryStates
from jbm_kafka.core.channel.settlement import HELD_FOR_OPERATOR, Modified
from tests.core.channel_parts import Channel, message, recovered

offsets = st.one_of(st.integers(0, 40), st.sampled_from([4_095, 4_096, 70_000, 1 << 40]))
times = st.one_of(st.integers(0, 1 << 42), st.sampled_from([FOREVER_MS, (1 << 63) - 1, 1 << 64]))
states = st.builds(
    RedeliveryState,
    attempts=st.sampled_from([0, 1, 2, 65_535, 65_536]),
    due_at_ms=times,
    delay_ms=times,
    unit=st.sampled_from([None, b"u"]),
    reason=st.sampled_from([RETURNED, HELD_FOR_OPERATOR, "lost"]),
)


@given(st.lists(st.tuples(offsets, st.sampled_from(["remember", "write", "forget"]), states), max_size=60))
def test_it_is_a_mapping_whatever_of_it_was_written(steps: list[tuple[int, str, RedeliveryState]]) -> None:
    """Of LOG-9, REDELIVER-2: only the unit goes."""
    redeliveries, paper = RedeliveryStates(), dict[int, RedeliveryState]()
    for offset, what, state in steps:
        if what == "remember":
            redeliveries.remember(offset, state)
            paper[offset] = state
        elif what == "write":
            redeliveries.note_written([offset])
        else:
            assert redeliveries.forget(offset) == (paper.pop(offset, None) is not None)
        assert len(redeliveries) == len(paper) == redeliveries.values_count + redeliveries.rows_count
        assert sorted(redeliveries) == sorted(paper)
        for each in (offset, offset + 1):
            found = redeliveries.get(each)
            assert (each in redeliveries) == (found is not None) == (each in paper)
        for known, found in redeliveries.items():
            expected = paper[known]
            assert (found.attempts, found.due_at_ms, found.delay_ms, found.reason) == (
                expected.attempts,
                expected.due_at_ms,
                expected.delay_ms,
                expected.reason,
            )
            assert found.unit in (expected.unit, None)
    for offset in list(redeliveries):
        redeliveries.forget(offset)
    assert redeliveries.blocks_count == redeliveries.rows_count == 0


def test_what_never_came_back_is_asked_for_in_vain() -> None:
    with pytest.raises(KeyError):
        RedeliveryStates()[7]


def test_a_changelog_of_strange_reasons_is_remembered_as_it_is() -> None:
    redeliveries = RedeliveryStates()
    for offset in range(300):
        redeliveries.remember(offset, RedeliveryState(1, 0, 0, None, f"reason {offset}"))
        redeliveries.note_written([offset])
    assert (redeliveries.rows_count, redeliveries.values_count) == (256, 44)
    assert [state.reason for _, state in sorted(redeliveries.items())] == [f"reason {offset}" for offset in range(300)]


@pytest.mark.parametrize(
    "state",
    [
        RedeliveryState(65_536, 0, 0, None, RETURNED),
        RedeliveryState(1, 1 << 64, 0, None, RETURNED),
        RedeliveryState(1, 0, 1 << 64, None, RETURNED),
    ],
    ids=["attempts", "due", "delay"],
)
def test_numbers_too_large_for_a_row_stay_a_value(state: RedeliveryState) -> None:
    redeliveries = RedeliveryStates()
    redeliveries.remember(7, state)
    redeliveries.note_written([7])
    assert (redeliveries.rows_count, redeliveries.values_count) == (0, 1)
    assert redeliveries[7] == state


def test_a_million_that_came_back_cost_some_twenty_bytes_each() -> None:
    """Of LOG-9."""
    redeliveries = RedeliveryStates()
    tracemalloc.start()
    for offset in range(100_000):
        redeliveries.remember(
            offset, RedeliveryState(1, 1_700_000_000_000 + offset, 60_000 + offset, b"%d" % offset, RETURNED)
        )
        redeliveries.note_written([offset])
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / 100_000 < 25


def test_only_what_a_checkpoint_has_written_is_a_row() -> None:
    """REDELIVER-2, LOG-7: not while it is under way, and not what came back again meanwhile."""
    channel = Channel(*(message(offset, b"%d" % offset) for offset in range(3)))
    channel.got("a")
    channel.give_back("a", 0, 1, 2)
    taken = channel.freeze()
    redeliveries = channel.state.redeliveries
    assert redeliveries.rows_count == 0
    channel.got("a", 1)
    channel.give_back("a", 0)
    channel.state.apply(taken.durable)
    assert (redeliveries.rows_count, redeliveries.values_count) == (2, 1)
    assert (redeliveries[0].attempts, redeliveries[0].unit) == (2, b"0")
    assert (redeliveries[1].attempts, redeliveries[1].unit) == (1, None)
    failed = channel.freeze()
    channel.state.apply(failed.failed)
    assert redeliveries.values_count == 1
    (held,) = [entry for entry in channel.checkpoint() if isinstance(entry, Held)]
    assert (held.offset, held.unit) == (0, b"0")
    assert redeliveries.values_count == 0


def test_a_new_owner_has_rows_of_all_that_is_written() -> None:
    """Of LOG-9, REDELIVER-2."""
    first = Channel(*(message(offset, b"%d" % offset) for offset in range(3)))
    first.got("a")
    first.give_back("a", *(Modified(n, counted=True, delay_ms=50 * n) for n in range(3)))
    channel = recovered(*first.checkpoint(offered_position=3), now_ms=first.now_ms)
    assert channel.state.redeliveries.rows_count == 3
    assert [state.due_at_ms for _, state in channel.state.redeliveries.items()] == [
        0,
        first.now_ms + 50,
        first.now_ms + 100,
    ]
    (again,) = [entry for entry in first.checkpoint() if not isinstance(entry, Held)]
    assert again
