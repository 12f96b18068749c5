"""How far the mark of possibly handed-over offsets is raised: a second of traffic, and not less than its least step."""

from __future__ import annotations

import pytest

from jbm_kafka.engine.reserve import HALF_MS, Reserve


def steps_at(per_second: int, raises: int, *, least: int) -> list[int]:
    """The steps of a channel that hands over so many messages a second, raised each time half is used up."""
    reserve, now_ms = Reserve(least), 5_000
    reserve.begin(now_ms)
    steps = [reserve.step]
    for _ in range(raises):
        now_ms += max(1, 1000 * (reserve.step - reserve.enough) // per_second)
        steps.append(reserve.next_step(now_ms))
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
    reserve = Reserve(100)
    reserve.begin(0)
    assert reserve.next_step(10) == 200
    assert reserve.is_short
    assert reserve.next_step(10 + HALF_MS) == 200
    assert not reserve.is_short
    assert reserve.next_step(10_000) == 100
    assert reserve.next_step(20_000) == 100


def test_the_time_before_the_first_hand_over_does_not_count() -> None:
    reserve = Reserve(100)
    reserve.begin(1_000_000)
    reserve.begin(2_000_000)
    assert reserve.next_step(1_000_010) == 200
    assert Reserve(100).next_step(7) == 100, "nothing was handed over: nothing is known"
