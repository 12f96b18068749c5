"""The benchmark's arithmetic."""

import pytest

from jbm_kafka.bench.numbers import Judgement, Summary, paired_ratio, percentile, ratio, summary


def test_a_summary_has_the_middle_and_the_extremes() -> None:
    assert summary([3, 1, 2]) == Summary(median=2, low=1, high=3, count=3)
    assert summary([4, 1, 2, 3]).median == 2.5


def test_the_spread_is_a_part_of_the_median() -> None:
    assert summary([90, 100, 120]).spread == pytest.approx(0.3)
    assert summary([0]).spread == 0


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 50), (99, 99), (99.9, 100), (100, 100), (1, 1), (0.5, 1), (50.5, 51)]
)
def test_a_percentile_is_a_value_that_was_measured(percent: float, expected: float) -> None:
    assert percentile(range(100, 0, -1), percent) == expected


def test_every_percentile_of_one_value_is_that_value() -> None:
    assert [percentile([7.5], percent) for percent in (0.1, 50, 100)] == [7.5, 7.5, 7.5]


def test_a_ratio_is_of_the_medians() -> None:
    assert ratio(summary([10, 20, 90]), summary([30, 40, 50])) == 0.5


def test_a_paired_ratio_is_the_middle_one_of_the_repeats() -> None:
    slow_machine, fast_machine = ([18.0, 18.0], [20.0, 20.0]), ([9.0, 9.0], [10.0, 10.0])
    disturbed = ([9.0, 9.0], [10.0, 90.0])
    assert paired_ratio([slow_machine, disturbed, fast_machine]) == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("value", "passes_at_least", "passes_below"), [(0.49, False, True), (0.5, True, False), (0.51, True, False)]
)
def test_a_target_is_met_at_least_or_below(value: float, passes_at_least: bool, passes_below: bool) -> None:
    assert Judgement("r", value, "at least", 0.5).passed is passes_at_least
    assert Judgement("r", value, "below", 0.5).passed is passes_below
