"""Durations: whole milliseconds that can be added to a clock."""

import pytest

from jbm_kafka.core.durations import LONGEST_MS, checked_duration_ms


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
