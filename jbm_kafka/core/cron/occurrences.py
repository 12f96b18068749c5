"""When a line of cron is due: the instants of a line in a time zone, as Debian's cron has them where clocks change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import takewhile
from typing import Final

from cronsim import CronSim, CronSimError

from jbm_kafka.core.wrong_values import wrong_type, wrong_value

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
WINDOWS_MS: Final = (60_000, _HOUR_MS, _DAY_MS, 32 * _DAY_MS, 366 * _DAY_MS)
"""The newest occurrence is looked for in the last minute first: a line of every second has a million in a fortnight."""


def checked_line(name: str, line: object) -> str:
    """The line with single spaces, if it is one of cron.

    Raises:
        InvalidSettingError: it is none; of another type InvalidTypeError.
    """
    if not isinstance(line, str):
        raise wrong_type(name, line, "it is a line of cron, as '0 3 * * *' for three o'clock each night")
    try:
        CronSim(line, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        rule = f"it is five fields, minute hour day month weekday, or six with the second first: {error}"
        raise wrong_value(name, line, rule) from None
    return " ".join(line.split())


def occurrences(line: str, zone: tzinfo, after_ms: int) -> Iterator[int]:
    """The instants, in ms since 1970, at which the line is due later than `after_ms`, each once and in order.

    A time that the clocks leave out is due when they have gone forward; one that they have twice is due at the first.
    Lines whose minute or hour is any (`*/15 * * * *`) follow the time that has passed, and have both.
    """
    last_ms = after_ms
    instants = CronSim(line, datetime.fromtimestamp(after_ms // 1000, UTC).astimezone(zone))
    while True:
        at_ms = round(next(instants).timestamp()) * 1000
        if at_ms > last_ms:  # two times of an hour that is left out are one instant, and the second of two is the past
            last_ms = at_ms
            yield at_ms


def next_occurrence(line: str, zone: tzinfo, after_ms: int) -> int:
    """The first instant later than `after_ms` at which it is due."""
    return next(occurrences(line, zone, after_ms))


def newest_occurrence(line: str, zone: tzinfo, after_ms: int, until_ms: int) -> int | None:
    """The last instant later than `after_ms` and not later than `until_ms` at which it is due; None: there is none."""

    def newest_since(begin_ms: int) -> int | None:
        due = takewhile(lambda at_ms: at_ms <= until_ms, occurrences(line, zone, begin_ms))
        return max(due, default=None)

    for window_ms in WINDOWS_MS:
        if until_ms - window_ms > after_ms and (newest := newest_since(until_ms - window_ms)) is not None:
            return newest
    return newest_since(after_ms)
