"""How often something may be started, and which start is the next that keeps to that.

A rate is kept by spacing: a slot starts once, and again after its interval, however late it was. So in any period, from
any moment on, there are at most as many starts as the rate says, and where somebody is late there are fewer: what was
not used is not made up for. A high rate has several slots, for no thread wakes up every 50 microseconds.

A rate of several processes is divided by partitions, each of which one process has at a time. A slot of a partition
that has just come starts after its interval at the earliest, for its last process may have used it a moment ago.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice

from jbm_kafka.core.wrong_values import wrong_type, wrong_value

_RATE = re.compile(r"\s*(\d{1,7})\s*/\s*(s|min|h)\s*")
_PERIODS_MS = {"s": 1_000, "min": 60_000, "h": 3_600_000}
COUNT_MAX = 1_000_000
WAKE_MS = 50
"""A slot of a high rate is used about so often: so being a millisecond late costs little."""
_RULE = f"it is a count up to {COUNT_MAX:,} and a time, as in '100/s', '100/min' or '100/h'"

Slot = tuple[int, int]
"""A partition, or 0 where nothing is divided, and a number."""


@dataclass(frozen=True, slots=True)
class Rate:
    """So many starts at most in any period, from whatever moment on."""

    count: int
    period_ms: int

    def __str__(self) -> str:
        unit = next(unit for unit, period_ms in _PERIODS_MS.items() if period_ms == self.period_ms)
        return f"{self.count}/{unit}"

    def share(self, partitions: int) -> Share:
        """The part of one of so many partitions.

        Each has a whole number of starts, rounded down. Where there are more partitions than starts in a period, it is
        one start in as many periods as it takes.
        """
        periods = -(-partitions // self.count)
        each = periods * self.count // partitions
        period_ms = periods * self.period_ms
        slots = max(1, each // max(1, period_ms // WAKE_MS))
        return Share(slots, -(-period_ms // (each // slots)))


@dataclass(frozen=True, slots=True)
class Share:
    """So many slots, each of which starts once in an interval."""

    slots: int
    interval_ms: int


def checked_rate(name: str, value: object) -> Rate | None:
    """The rate that a text means; None: there is none.

    Raises:
        InvalidSettingError: it means none.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise wrong_type(name, value, _RULE)
    found = _RATE.fullmatch(value)
    if found is None or not 1 <= int(found[1]) <= COUNT_MAX:
        raise wrong_value(name, value, _RULE)
    return Rate(int(found[1]), _PERIODS_MS[found[2]])


class Starts:
    """The starts of one process. Times are milliseconds of a clock that does not go back; not thread-safe."""

    def __init__(self, rate: Rate, *, is_divided: bool = False) -> None:
        """`is_divided`: by partitions, of which there are none before `hold`."""
        self._rate = rate
        self._share = rate.share(1)
        slots = 0 if is_divided else self._share.slots
        self._last_ms: dict[Slot, int | None] = {(0, number): None for number in range(slots)}
        """When each slot started last, the longest ago first; None: never."""
        self._partitions: frozenset[int] = frozenset()

    def hold(self, partitions: Collection[int], of: int, now_ms: int) -> None:
        """The process has these of so many partitions now; those that it had not before were others'."""
        held = frozenset(partitions)
        share = self._rate.share(max(of, 1, *(number + 1 for number in held)))
        if held == self._partitions and share == self._share:
            return
        numbers = range(share.slots)
        kept = {slot: last for slot, last in self._last_ms.items() if slot[0] in held and slot[1] in numbers}
        come = {(each, number): now_ms for each in sorted(held) for number in numbers}
        self._last_ms = kept | {slot: last for slot, last in come.items() if slot not in kept}
        self._partitions, self._share = held, share

    def free_in_ms(self, now_ms: int, *, but: int = 0) -> int | None:
        """How long until one may start, beside so many others that are about to; None: no partition is here."""
        if but >= len(self._last_ms):
            return self._share.interval_ms if self._last_ms else None
        last_ms = next(islice(self._last_ms.values(), but, None))
        return 0 if last_ms is None else max(0, last_ms + self._share.interval_ms - now_ms)

    def start(self, now_ms: int) -> bool:
        """One starts now; False: it may not."""
        if self.free_in_ms(now_ms) != 0:
            return False
        slot = next(iter(self._last_ms))
        del self._last_ms[slot]
        self._last_ms[slot] = now_ms
        return True
