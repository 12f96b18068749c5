"""Durations as users give them: whole milliseconds, within what a clock can add to."""

from __future__ import annotations

LONGEST_MS = 100 * 366 * 24 * 3_600_000
"""A hundred years: more is a mistake, and what is added to an instant must stay a number that Kafka and Avro hold."""


def duration_fault(value: object) -> str | None:
    """Why the value is no duration; None when it is one."""
    if isinstance(value, bool) or not isinstance(value, int):
        return "it is an int of milliseconds, as in 1500 for a second and a half"
    if value < 0:
        return "it cannot be negative; milliseconds, 0 or more"
    return f"it is at most {LONGEST_MS} (a hundred years)" if value > LONGEST_MS else None


def checked_duration_ms(name: str, value: object) -> int:
    """The value, if it is a duration.

    Raises:
        ValueError: it is none; the text names it and says what it should be.
    """
    fault = duration_fault(value)
    if fault is not None:
        raise ValueError(f"{name} is {value!r}: {fault}")
    assert isinstance(value, int)
    return value
