"""A handler's pause: when it begins, when it ends, and what follows."""

from __future__ import annotations

import pytest

from jbm_kafka.core.jms_errors import InvalidSettingError, InvalidTypeError
from jbm_kafka.core.settings.pause_rule import FailureRow, PauseOn, checked_pause


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("5 failures in a row for 30 s", PauseOn(5, 30)),
        ("1 failure for 1.5min", PauseOn(1, 90)),
        (" 12 failures for 2 h ", PauseOn(12, 7_200)),
    ],
)
def test_a_rule_may_be_a_text(text: str, rule: PauseOn) -> None:
    assert checked_pause("pause_on", text) == rule
    assert checked_pause("pause_on", rule) is rule
    assert checked_pause("pause_on", None) is None


@pytest.mark.parametrize(
    "text", ["5 failures", "five failures for 3 s", "0 failures for 3 s", "5 failures for 0 s", ""]
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(InvalidSettingError):
        checked_pause("pause_on", text)


def test_what_is_no_text_is_refused_with_the_remedy() -> None:
    with pytest.raises(InvalidTypeError, match=r"pause_on is 5: it is PauseOn\(failures=5, for_s=30\)"):
        checked_pause("pause_on", 5)


@pytest.mark.parametrize(("failures", "for_s"), [(0, 1), (1, 0), (1, -1), (1, float("nan")), (1, 1e30)])
def test_a_rule_has_sensible_numbers(failures: int, for_s: float) -> None:
    with pytest.raises(InvalidSettingError):
        PauseOn(failures, for_s)


@pytest.mark.parametrize("for_s", ["30", True, None])
def test_a_time_is_a_number(for_s: float) -> None:
    with pytest.raises(InvalidTypeError, match="for_s"):
        PauseOn(1, for_s)


def test_a_pause_is_a_millisecond_at_least() -> None:
    assert FailureRow(PauseOn(1, 0.0001)).for_ms == 1


def row(failures: int = 3) -> FailureRow:
    return FailureRow(PauseOn(failures, 30))


def test_so_many_failures_in_a_row_begin_a_pause() -> None:
    failing = row()
    assert [failing.failed(0), failing.failed(0), failing.failed(5)] == [False, False, True]
    assert failing.paused_until_ms == 30_005


def test_one_that_goes_well_begins_the_row_anew() -> None:
    failing = row()
    failing.failed(0)
    failing.failed(0)
    failing.succeeded()
    assert [failing.failed(0), failing.failed(0), failing.failed(0)] == [False, False, True]


def test_a_pause_ends_by_the_clock_alone() -> None:
    failing = row(1)
    assert not failing.resume(0), "there is none"
    failing.failed(0)
    assert not failing.failed(10), "what had begun before does not prolong it"
    failing.succeeded()
    assert not failing.resume(29_999)
    assert failing.resume(30_000)
    assert failing.paused_until_ms is None


def test_behind_a_pause_the_first_failure_is_enough() -> None:
    failing = row()
    for _ in range(3):
        failing.failed(0)
    assert failing.resume(30_000)
    assert failing.is_trying
    assert failing.failed(30_000)
    assert failing.resume(60_000)
    failing.succeeded()
    assert not failing.is_trying
    assert not failing.failed(60_000)
