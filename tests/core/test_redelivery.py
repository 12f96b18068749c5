"""REDELIVER-2: how long a message waits before it comes again; REDELIVER-3: when it does not come again."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.core.channel.redelivery import is_exhausted, redelivery_delay_ms
from jbm_kafka.core.settings.address_settings import ResolvedSettings

MIDDLE = 0.5
chances = st.floats(0, 1, exclude_max=True)


def waits(settings: ResolvedSettings, count: int) -> list[int]:
    return [redelivery_delay_ms(settings, attempts, MIDDLE) for attempts in range(1, count + 1)]


def test_without_a_delay_there_is_no_wait() -> None:
    """REDELIVER-2: the default is 0."""
    assert waits(ResolvedSettings(), 3) == [0, 0, 0]
    assert waits(ResolvedSettings(redelivery_delay_multiplier=3.0, max_redelivery_delay_ms=5), 3) == [0, 0, 0]


def test_the_wait_grows_by_the_multiplier_up_to_the_cap() -> None:
    """REDELIVER-2, with the figures that Artemis was observed to use."""
    settings = ResolvedSettings(redelivery_delay_ms=500, redelivery_delay_multiplier=2.0, max_redelivery_delay_ms=3000)
    assert waits(settings, 5) == [500, 1000, 2000, 3000, 3000]


def test_the_cap_is_ten_delays_when_none_is_set() -> None:
    """REDELIVER-2."""
    settings = ResolvedSettings(redelivery_delay_ms=100, redelivery_delay_multiplier=4.0)
    assert waits(settings, 4) == [100, 400, 1000, 1000]


def test_a_cap_below_the_delay_holds_from_the_first_wait() -> None:
    assert waits(ResolvedSettings(redelivery_delay_ms=100, max_redelivery_delay_ms=30), 2) == [30, 30]


@pytest.mark.parametrize(("chance", "expected_ms"), [(0.0, 900), (0.25, 950), (0.5, 1000), (0.75, 1050)])
def test_chance_spreads_the_wait_evenly_around_its_middle(chance: float, expected_ms: int) -> None:
    """REDELIVER-2: the collision avoidance factor."""
    settings = ResolvedSettings(redelivery_delay_ms=1000, redelivery_collision_avoidance_factor=0.1)
    assert redelivery_delay_ms(settings, 1, chance) == expected_ms


@given(
    delay_ms=st.integers(0, 10**12),
    multiplier=st.one_of(st.integers(1, 10**6), st.floats(1, 1e300)),
    factor=st.floats(0, 1),
    cap_ms=st.none() | st.integers(1, 10**15),
    attempts=st.integers(1, 10**9),
    chance=chances,
)
def test_no_figures_overflow_and_no_wait_is_beyond_its_cap(
    delay_ms: int, multiplier: float, factor: float, cap_ms: int | None, attempts: int, chance: float
) -> None:
    settings = ResolvedSettings(
        redelivery_delay_ms=delay_ms,
        redelivery_delay_multiplier=multiplier,
        redelivery_collision_avoidance_factor=factor,
        max_redelivery_delay_ms=cap_ms,
    )
    wait_ms = redelivery_delay_ms(settings, attempts, chance)
    assert isinstance(wait_ms, int)
    assert 0 <= wait_ms <= (10 * delay_ms if cap_ms is None else cap_ms)


def test_a_wait_is_rounded_not_cut() -> None:
    """REDELIVER-2: 0.7 of 690 ms are 483, though in floating point they are a little less."""
    settings = ResolvedSettings(redelivery_delay_ms=690, redelivery_collision_avoidance_factor=0.3)
    assert redelivery_delay_ms(settings, 1, 0.0) == 483


@given(
    delay_ms=st.integers(1, 100_000),
    multiplier=st.floats(1, 20),
    factor=st.floats(0, 1),
    attempts=st.integers(1, 12),
    chance=chances,
)
def test_the_wait_is_what_the_formula_says_in_exact_arithmetic(
    delay_ms: int, multiplier: float, factor: float, attempts: int, chance: float
) -> None:
    """REDELIVER-2: delay x m^(n-1), spread, capped; the model computes with decimals."""
    settings = ResolvedSettings(
        redelivery_delay_ms=delay_ms,
        redelivery_delay_multiplier=multiplier,
        redelivery_collision_avoidance_factor=factor,
    )
    exact = delay_ms * Decimal(multiplier) ** (attempts - 1)
    exact *= 1 + Decimal(factor) * (2 * Decimal(chance) - 1)
    exact = min(exact, Decimal(10 * delay_ms))
    assert abs(redelivery_delay_ms(settings, attempts, chance) - exact) <= 1


@pytest.mark.parametrize(("limit", "attempts", "exhausted"), [(3, 2, False), (3, 3, True), (3, 4, True), (1, 1, True)])
def test_a_message_is_given_up_after_its_last_attempt(limit: int, attempts: int, exhausted: bool) -> None:
    """REDELIVER-3."""
    assert is_exhausted(attempts, limit) is exhausted


def test_without_a_limit_no_number_of_attempts_is_enough() -> None:
    """REDELIVER-3: -1 is without end; ten is the default."""
    assert not is_exhausted(10**9, -1)
    assert not is_exhausted(9, ResolvedSettings().max_delivery_attempts)
    assert is_exhausted(10, ResolvedSettings().max_delivery_attempts)
