"""How far the mark of possibly handed-over offsets is raised: a second of traffic, and not less than its least step."""

from __future__ import annotations

import pytest

from jbm_kafka.core.channel.offered_target import GROWTH, HALF_MS, STEADY, OfferedLimits, OfferedPace, OfferedStep

LIMITS = OfferedLimits(least=16, most=262_144)


def steps_at(per_second: int, raises: int, step: OfferedStep) -> list[int]:
    """The steps of a channel that hands over so many messages a second, raised each time half is used up."""
    now_ms = 5_000
    step.begin(now_ms)
    steps = [step.step]
    for _ in range(raises):
        now_ms += max(1, 1000 * (step.step - step.enough) // per_second)
        steps.append(step.next_step(now_ms))
    return steps


def step_of(limits: OfferedLimits = LIMITS, pace: OfferedPace | None = None) -> OfferedStep:
    return OfferedStep(limits, pace or OfferedPace())


def steps_with_slow_checkpoints(per_second: int, raises: int, checkpoint_ms: int) -> list[int]:
    """Of a channel that is always at its mark before it is raised, and hands over nothing while it waits."""
    step, now_ms, steps = step_of(), 5_000, list[int]()
    for _ in range(raises):
        steps.append(step.next_step(now_ms, is_reached=True))
        step.stop(now_ms)
        now_ms += checkpoint_ms
        step.begin(now_ms)
        now_ms += 1000 * step.step // per_second
    return steps


@pytest.mark.parametrize("per_second", [1, 10, 30])
def test_a_slow_channel_has_a_few_messages_in_doubt_after_a_crash(per_second: int) -> None:
    assert set(steps_at(per_second, 10, step_of())) == {16}


@pytest.mark.parametrize("per_second", [100, 700, 5_000, 30_000, 70_000, 150_000, 240_000])
def test_a_channel_gets_about_a_second_of_its_traffic(per_second: int) -> None:
    reached = steps_at(per_second, 20, step_of())[-1]
    assert per_second / 2 <= reached <= 2 * per_second


def test_a_fast_channel_gets_there_in_a_few_checkpoints_and_stops_at_the_most() -> None:
    steps = steps_at(10_000_000, 10, step_of())
    assert steps[:7] == [16, 128, 1_024, 8_192, STEADY, 2 * STEADY, 4 * STEADY]
    assert steps[-1] == LIMITS.most


def test_it_shrinks_when_traffic_becomes_slow() -> None:
    step = step_of(OfferedLimits(least=100))
    step.begin(0)
    assert step.next_step(10) == 100 * GROWTH
    assert step.is_short
    assert step.next_step(10 + HALF_MS) == 100 * GROWTH
    assert not step.is_short
    assert step.next_step(10_000) == 50 * GROWTH
    assert steps_at(1, 10, step)[-1] == 100


def test_the_time_before_the_first_hand_over_does_not_count() -> None:
    step = step_of(OfferedLimits(least=100))
    step.begin(1_000_000)
    step.begin(2_000_000)
    assert step.next_step(1_000_010) == 100 * GROWTH
    assert step_of(OfferedLimits(least=100)).next_step(7) == 100, "nothing was handed over: nothing is known"


@pytest.mark.parametrize("checkpoint_ms", [20, 260, 1_000, 5_000])
def test_checkpoints_that_take_long_keep_no_channel_slow(checkpoint_ms: int) -> None:
    """Their time is not the receivers': a channel handed over 16 messages for each, for ever."""
    steps = steps_with_slow_checkpoints(100_000, 8, checkpoint_ms)
    assert steps == [16, 128, 1_024, 8_192, STEADY, *[2 * STEADY] * 3]
    assert set(steps_with_slow_checkpoints(1, 9, checkpoint_ms)) == {16}


def test_a_step_that_did_not_outlast_a_checkpoint_was_too_short() -> None:
    step = step_of()
    step.begin(0)
    assert step.next_step(HALF_MS) == 16
    step.stop(2 * HALF_MS)
    step.begin(2 * HALF_MS + 5_000)
    assert step.next_step(2 * HALF_MS + 5_000 + 1) == 16 * GROWTH
    assert step.is_short


def test_a_gap_without_a_message_is_crossed_in_a_few_checkpoints() -> None:
    """REDELIVER-7: of an aborted transaction of a million records."""
    step, crossed = step_of(), 0
    for raised in range(12):
        crossed += step.next_step(40 * raised, is_reached=True)
        step.stop(40 * raised)
    assert crossed > 1_000_000


def test_what_one_channel_found_out_the_others_need_not() -> None:
    """A backlog of eight partitions, one after another, waited for eight times as many checkpoints as one."""
    pace = OfferedPace()
    fast = steps_at(50_000, 6, step_of(pace=pace))
    next_one = step_of(pace=pace)
    next_one.begin(6_000)
    assert next_one.next_step(6_000) == fast[-1] > STEADY


def test_a_slow_channel_beside_a_fast_one_stays_at_a_few_messages() -> None:
    pace = OfferedPace()
    fast, slow = step_of(pace=pace), step_of(pace=pace)
    for now_ms in range(0, 20_000, 100):
        fast.next_step(now_ms)
        fast.begin(now_ms)
        if now_ms % 1_000 == 0:
            assert slow.next_step(now_ms) == 16
            slow.begin(now_ms)
    assert fast.step == LIMITS.most


def test_what_a_channel_found_out_a_while_ago_is_of_no_use_any_more() -> None:
    pace = OfferedPace()
    pace.tell(STEADY, 1_000)
    pace.tell(16, 1_500)
    assert pace.latest(2_000) == STEADY
    assert pace.latest(2_001) == 0
    pace.tell(16, 2_001)
    assert pace.latest(2_001) == 16
