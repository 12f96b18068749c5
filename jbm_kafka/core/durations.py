"""Durations and instants as users give them: whole milliseconds, within what a clock can add to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from jbm_kafka.core.wrong_values import is_int, wrong_type, wrong_value

Duration = int | timedelta
"""Milliseconds, or the same as Python says it."""
LONGEST_MS = 100 * 366 * 24 * 3_600_000
"""A hundred years: more is a mistake, and what is added to an instant must stay a number that Kafka and Avro hold."""
_MS = timedelta(milliseconds=1)
_EPOCH = datetime.fromtimestamp(0, UTC)


def duration_fault(value: object) -> str | None:
    """Why the value is not a duration; None when it is one."""
    ms = in_ms(value)
    if isinstance(ms, bool) or not isinstance(ms, int):
        return "it is an int of milliseconds, as in 1500 for a second and a half, or a timedelta"
    if ms < 0:
        return "it cannot be negative; milliseconds, 0 or more"
    return f"it is at most {LONGEST_MS} (a hundred years)" if ms > LONGEST_MS else None


def checked_duration_ms(name: str, value: object) -> int:
    """The value in milliseconds, if it is a duration.

    Raises:
        InvalidSettingError: it is not; the text names it and says what it should be.
    """
    if type(value) is int and 0 <= value <= LONGEST_MS:  # of two of them every send asks
        return value
    fault = duration_fault(value)
    if fault is not None:
        raise (wrong_value if is_int(in_ms(value)) else wrong_type)(name, value, fault)
    ms = in_ms(value)
    assert isinstance(ms, int)
    return ms


def in_ms(value: object) -> object:
    """A timedelta as milliseconds, and anything else as it is.

    A part of a millisecond counts as a whole one: to some settings 0 means "never", which nobody meant by a short time.
    """
    return -(-value // _MS) if isinstance(value, timedelta) else value


def checked_instant_ms(name: str, value: object) -> int:
    """The instant in milliseconds since 1970, if it is a datetime that says of which time zone it is.

    Raises:
        InvalidSettingError: it is naive, before 1970 or too late; of another type InvalidTypeError.
    """
    if not isinstance(value, datetime):
        raise wrong_type(name, value, "it is a datetime with a time zone, as datetime.now(UTC) + timedelta(hours=1)")
    if value.utcoffset() is None:
        rule = "it has no time zone, so each machine takes it for another instant; give it tzinfo=UTC, or a ZoneInfo"
        raise wrong_value(name, value, rule)
    ms = (value - _EPOCH) // _MS
    if not 0 <= ms <= 2 * LONGEST_MS:
        raise wrong_value(name, value, "it is an instant from 1970 on, and before 2170")
    return ms
