"""The clock that a sidecar's rules go by: wall time, but it never goes back.

Delays end by it. Somebody who sets the machine's clock back must neither end one early nor prolong it by as much.
"""

from __future__ import annotations

import threading

from jbm_kafka.ports import Clock


class SlewedClock:
    """Implements `ports.Clock` over another one. Any thread.

    When the wall clock was set back, this one goes on at half its speed until they meet again; forward it follows at
    once, as after a suspended machine. One that stands still, as a test's may, is followed too.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._now_ms = clock.now_ms()
        self._seen_ms = clock.monotonic_ms()
        self.set_back_ms = 0
        """How far the wall clock was behind this one when that was asked last. Others stamp messages by that."""

    def now_ms(self) -> int:
        with self._lock:
            monotonic_ms, wall_ms = self._clock.monotonic_ms(), self._clock.now_ms()
            half_ms = (monotonic_ms - self._seen_ms) // 2
            if wall_ms >= self._now_ms:
                self._now_ms, self._seen_ms = wall_ms, monotonic_ms
            else:
                self._now_ms = max(wall_ms, self._now_ms + half_ms)
                self._seen_ms += 2 * half_ms
            self.set_back_ms = self._now_ms - wall_ms
            return self._now_ms

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()
