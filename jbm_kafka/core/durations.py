"""Durations as users give them: whole milliseconds, within what a clock can add to."""

from __future__ import annotations

from jbm_kafka.core.wrong_values import is_int, wrong_type, wrong_value

LONGEST_MS = 100 * 366 * 24 * 3_600_000
"""A hundred years: more is a mistake, and what is added to an instant must stay a number that Kafka and Avro hold."""


def duration_fault(value: object) -> str | None:
    """Why the value is not a duration; None when it is one."""
    if isinstance(value, bool) or not isinstance(value, int):
        return "it is an int of milliseconds, as in 1500 for a second and a half"
    if value < 0:
        return "it cannot be negative; milliseconds, 0 or more"
    return f"it is at most {LONGEST_MS} (a hundred years)" if value > LONGEST_MS else None


def checked_duration_ms(name: str, value: object) -> int:
    """The value, if it is a duration.

    Raises:
        InvalidSettingError: it is not; the text names it and says what it should be.
    """
    fault = duration_fault(value)
    if fault is not None:
        raise (wrong_value if is_int(value) else wrong_type)(name, value, fault)
    assert isinstance(value, int)
    return value
