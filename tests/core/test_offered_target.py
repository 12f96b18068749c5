"""How far the mark of possibly handed-over offsets is raised: a second of traffic, and not less than its least step."""

from __future__ import annotations

import pytest

from jbm_kafka.core.offered_target import HALF_MS, OfferedStep


def steps_at(per_second: int, raises: int, *, least: int) -> list[int]:
    """The steps of a channel that hands over so many messages a second, raised each time half is used up."""
    step, now_ms = OfferedStep(least), 5_000
    step.begin(now_ms)
    steps = [step.step]
    for _ in range(raises):
        now_ms += max(1, 1000 * (step.step - step.enough) // per_second)
        steps.append(step.next_step(now_ms))
    return steps


@pytest.mark.parametrize("per_second", [1, 1_000, 30_000])
def test_the_least_step_is_enough_for_up_to_twice_as_many_a_second(per_second: int) -> None:
    assert set(steps_at(per_second, 10, least=16_384)) == {16_384}


@pytest.mark.parametrize("per_second", [70_000, 150_000, 240_000, 10_000_000])
def test_a_fast_channel_gets_a_second_of_its_traffic_within_limits(per_second: int) -> None:
    reached = steps_at(per_second, 10, least=16_384)[-1]
    assert reached <= 16 * 16_384
    assert per_second / 2 <= reached <= 2 * per_second or reached == 16 * 16_384


def test_it_shrinks_when_traffic_becomes_slow() -> None:
    step = OfferedStep(100)
    step.begin(0)
    assert step.next_step(10) == 200
    assert step.is_short
    assert step.next_step(10 + HALF_MS) == 200
    assert not step.is_short
    assert step.next_step(10_000) == 100
    assert step.next_step(20_000) == 100


def test_the_time_before_the_first_hand_over_does_not_count() -> None:
    step = OfferedStep(100)
    step.begin(1_000_000)
    step.begin(2_000_000)
    assert step.next_step(1_000_010) == 200
    assert OfferedStep(100).next_step(7) == 100, "nothing was handed over: nothing is known"
