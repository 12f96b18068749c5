"""Runs of what applications were given (LOG-10): true to the offset, short where they can be, and never without end."""

from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.core.channel.delivery_runs import RUNS_MAX, DeliveryRuns
from jbm_kafka.core.channel.entries import DeliveryRun

FROM_MS = 1_700_000_000_000
rows = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 2), st.integers(0, 40)), max_size=30)


def told(runs: DeliveryRuns) -> list[tuple[int, int, int, str]]:
    """First, count, when after FROM_MS, session."""
    return [(run.first, run.count, run.at_ms - FROM_MS, run.session) for run in runs.as_told()]


@given(portions=st.lists(st.tuples(st.sampled_from("st"), rows), max_size=5))
def test_runs_have_every_hand_over_within_10_ms_and_no_other(
    portions: list[tuple[str, list[tuple[int, int, int]]]],
) -> None:
    """LOG-10: in the order of each session, whatever gaps, attempts and clocks there are."""
    runs = DeliveryRuns()
    for session, given_now in portions:
        runs.note(session, "AUTO", given_now, FROM_MS)
    assert bool(runs) is any(given_now for _, given_now in portions)
    for session in "st":
        expected = [row for of, given_now in portions for row in given_now if of == session]
        found = [
            (run.first + number, run.attempt, run.at_ms - FROM_MS)
            for run in runs.as_told()
            for number in range(run.count)
            if run.session == session
        ]
        assert [row[:2] for row in found] == [row[:2] for row in expected]
        assert all(0 <= row[2] - at_ms < 10 for row, (_, _, at_ms) in zip(expected, found, strict=True))


def test_what_two_sessions_are_given_in_turn_is_one_run_each() -> None:
    runs = DeliveryRuns()
    for number in range(5):
        runs.note("s", "AUTO", [(number, 1, number)], FROM_MS)
        runs.note("t", "PRE", [(100 + number, 1, number)], FROM_MS)
    assert told(runs) == [(0, 5, 0, "s"), (100, 5, 0, "t")]
    assert [run.mode for run in runs.as_told()] == ["AUTO", "PRE"]


def test_a_gap_another_attempt_and_10_ms_each_begin_a_run() -> None:
    """LOG-10: in a gap there may be a message that another session has."""
    runs = DeliveryRuns()
    runs.note("s", "AUTO", [(0, 1, 0), (1, 1, 9), (3, 1, 9), (4, 2, 9), (5, 2, 18), (6, 2, 19)], FROM_MS)
    assert told(runs) == [(0, 2, 0, "s"), (3, 1, 9, "s"), (4, 2, 9, "s"), (6, 1, 19, "s")]


def test_what_no_checkpoint_can_record_takes_no_more_and_more_memory() -> None:
    """Of LOG-9, LOG-10: the oldest stay; what is missing is missing, and nothing that is told is wrong."""
    kept = DeliveryRuns()
    for begin in range(0, 4 * RUNS_MAX, 1_000):
        later = DeliveryRuns()
        later.note("s", "AUTO", [(2 * offset, 1, 0) for offset in range(begin, begin + 1_000)], FROM_MS)
        kept = kept.continued(later)
    alone = DeliveryRuns()
    alone.note("s", "AUTO", [(2 * offset, 1, 0) for offset in range(4 * RUNS_MAX)], FROM_MS)
    expected = [DeliveryRun(2 * number, 1, 1, "s", "AUTO", FROM_MS) for number in range(RUNS_MAX)]
    assert list(kept.as_told()) == list(alone.as_told()) == expected
