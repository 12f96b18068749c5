"""How long a consumer waits for its first partitions, in a process that may be stopped in between."""

from __future__ import annotations

import time
from collections.abc import Callable

STILL_S = 5.0
"""A short sleep that took so much longer: the process stood still, not only the machine was busy."""


class JoinTime:
    """The time for joining. It begins anew when the process stood still: its group may have given it up meanwhile."""

    def __init__(self, limit_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._end_s = clock() + limit_s
        self._began_s = 0.0

    @property
    def is_over(self) -> bool:
        """The process ran for all of it."""
        return self._clock() > self._end_s

    def begin_sleep(self) -> None:
        """The caller sleeps shortly."""
        self._began_s = self._clock()

    def end_sleep(self) -> None:
        """It has slept."""
        now_s = self._clock()
        if now_s - self._began_s > STILL_S:
            self._end_s = now_s + self._limit_s
