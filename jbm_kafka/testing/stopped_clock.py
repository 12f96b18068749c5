"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from jbm_kafka.core.wrong_values import checked_int

ADVANCE_MAX_MS = 1_000 * 366 * 86_400_000
"""A thousand years: what comes much later than that no timestamp of Kafka can tell."""


class StoppedClock:
    """The clock of a `MemoryWorld`, made by it: it stands still until `advance(ms)` lets that time pass.

    Delays, redelivery delays, delivery times and expiry go by it, and so does `message.timestamp`. Timeouts of calls,
    as in `receive(timeout=5)`, are real seconds, and `time.time()` knows nothing of it. Any thread may call it.
    """

    def __init__(self, now_ms: int, *, wait_idle: Callable[[], None]) -> None:
        """It stands at `now_ms`. `wait_idle` returns when everything that was begun before it is called has ended."""
        self._now_ms = now_ms
        self._wait_idle = wait_idle
        self._moving = threading.Lock()

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """This goes on: what is done every few milliseconds, such as checkpoints, is done while the clock stands."""
        return time.monotonic_ns() // 1_000_000

    def advance(self, duration_ms: int) -> None:
        """Let so many milliseconds pass.

        What the test did before, such as a nack with a delay, is counted from before; what is due afterwards is found
        by the next receive, and what must leave a queue then has left it when this returns.

        Raises:
            InvalidSettingError: it is not an int from 0 to a thousand years.
        """
        checked_int("duration_ms", duration_ms, 0, ADVANCE_MAX_MS, "milliseconds")
        with self._moving:
            self._wait_idle()
            self._now_ms += duration_ms
            self._wait_idle()

    def __repr__(self) -> str:
        return f"<StoppedClock at {self._now_ms} ms>"
