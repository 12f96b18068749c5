"""Durations: whole milliseconds that can be added to a clock."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from jbm_kafka.core.durations import LONGEST_MS, checked_duration_ms, checked_instant_ms


@pytest.mark.parametrize("value", [0, 1, LONGEST_MS])
def test_a_duration_is_taken_as_it_is(value: int) -> None:
    assert checked_duration_ms("delay_ms", value) == value


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (-1, "cannot be negative"),
        (LONGEST_MS + 1, "a hundred years"),
        (1.5, "an int"),
        (True, "an int"),
        ("1s", "an int"),
    ],
)
def test_what_is_none_is_refused_with_its_name_and_value(value: object, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy) as refused:
        checked_duration_ms("delay_ms", value)
    assert f"delay_ms is {value!r}" in str(refused.value)


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (timedelta(), 0),
        (timedelta(seconds=1.5), 1500),
        (timedelta(days=2), 2 * 86_400_000),
        (timedelta(microseconds=1), 1),  # a time to live of 0 would be "never"
        (timedelta(microseconds=1001), 2),
    ],
)
def test_a_timedelta_is_whole_milliseconds_and_no_part_of_one_is_lost(value: timedelta, ms: int) -> None:
    assert checked_duration_ms("delay_ms", value) == ms


def test_a_timedelta_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be negative"):
        checked_duration_ms("delay_ms", timedelta(seconds=-1))


def test_an_instant_counts_from_1970_in_any_time_zone() -> None:
    at = datetime(1970, 1, 1, 2, 0, 1, 999, tzinfo=timezone(timedelta(hours=2)))
    assert checked_instant_ms("deliver_at", at) == 1000


@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        (datetime(2026, 1, 1), "no time zone"),  # noqa: DTZ001 - what is refused
        (datetime(1969, 12, 31, tzinfo=UTC), "1970"),
        (datetime(2200, 1, 1, tzinfo=UTC), "2170"),
        (1_700_000_000_000, "a datetime"),
    ],
)
def test_what_is_no_instant_is_refused(value: object, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy) as refused:
        checked_instant_ms("deliver_at", value)
    assert "deliver_at is " in str(refused.value)
