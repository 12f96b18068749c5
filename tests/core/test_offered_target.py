"""How far the mark of possibly handed-over offsets is raised: a second of traffic, and not less than its least step."""

from __future__ import annotations

import pytest

from jbm_kafka.core.offered_target import GROWTH, HALF_MS, STEADY, OfferedLimits, OfferedStep

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


@pytest.mark.parametrize("per_second", [1, 10, 30])
def test_a_slow_channel_has_a_few_messages_in_doubt_after_a_crash(per_second: int) -> None:
    assert set(steps_at(per_second, 10, OfferedStep(LIMITS))) == {16}


@pytest.mark.parametrize("per_second", [100, 700, 5_000, 30_000, 70_000, 150_000, 240_000])
def test_a_channel_gets_about_a_second_of_its_traffic(per_second: int) -> None:
    reached = steps_at(per_second, 20, OfferedStep(LIMITS))[-1]
    assert per_second / 2 <= reached <= 2 * per_second


def test_a_fast_channel_gets_there_in_a_few_checkpoints_and_stops_at_the_most() -> None:
    steps = steps_at(10_000_000, 10, OfferedStep(LIMITS))
    assert steps[:7] == [16, 128, 1_024, 8_192, STEADY, 2 * STEADY, 4 * STEADY]
    assert steps[-1] == LIMITS.most


def test_it_shrinks_when_traffic_becomes_slow() -> None:
    step = OfferedStep(OfferedLimits(least=100))
    step.begin(0)
    assert step.next_step(10) == 100 * GROWTH
    assert step.is_short
    assert step.next_step(10 + HALF_MS) == 100 * GROWTH
    assert not step.is_short
    assert step.next_step(10_000) == 50 * GROWTH
    assert steps_at(1, 10, step)[-1] == 100


def test_the_time_before_the_first_hand_over_does_not_count() -> None:
    step = OfferedStep(OfferedLimits(least=100))
    step.begin(1_000_000)
    step.begin(2_000_000)
    assert step.next_step(1_000_010) == 100 * GROWTH
    assert OfferedStep(OfferedLimits(least=100)).next_step(7) == 100, "nothing was handed over: nothing is known"
