"""A worker's timers: one thread, which sleeps until the next."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from jbm_kafka.ports.clock import Clock

log = logging.getLogger(__name__)
JOIN_S = 1.0


class Timer:
    """One thing to do, compared by identity."""

    __slots__ = ("call", "due_ms")

    def __init__(self, due_ms: int, call: Callable[[], object]) -> None:
        self.due_ms = due_ms
        self.call = call


class Timers:
    """Any thread. The thread that waits begins with the first of them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: dict[Timer, None] = {}
        self._next_ms: int | None = None
        """When the thread looks again, if nobody wakes it; None: it looks when it is woken."""
        self._thread: threading.Thread | None = None
        self._has_ended = False

    def after(self, delay_ms: int, call: Callable[[], object]) -> Timer:
        """Have it called in so many milliseconds, on the thread of the timers, which it must not hold up."""
        timer = Timer(self._clock.monotonic_ms() + delay_ms, call)
        with self._changed:
            self._waiting[timer] = None
            if self._thread is None and not self._has_ended:
                self._thread = threading.Thread(target=self._serve, name="jbm-timers", daemon=True)
                self._thread.start()
            if self._next_ms is None or timer.due_ms < self._next_ms:
                self._changed.notify()
        return timer

    def cancel(self, timer: Timer) -> None:
        """It is not called any more, if it was not already."""
        with self._changed:
            self._waiting.pop(timer, None)

    def look(self) -> None:
        """Call what is due now."""
        now_ms = self._clock.monotonic_ms()
        with self._changed:
            due = [timer for timer in self._waiting if timer.due_ms <= now_ms]
            for timer in due:
                del self._waiting[timer]
        for timer in due:
            try:
                timer.call()
            except Exception:
                log.exception("worker: an error of ours; the other timers go on")

    def end(self) -> None:
        """Nothing is called any more."""
        with self._changed:
            self._has_ended = True
            self._waiting.clear()
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(JOIN_S)

    def _serve(self) -> None:
        while not self._has_ended:
            with self._changed:
                self._next_ms = min((timer.due_ms for timer in self._waiting), default=None)
                left_ms = None if self._next_ms is None else self._next_ms - self._clock.monotonic_ms()
                if not self._has_ended and (left_ms is None or left_ms > 0):
                    self._changed.wait(None if left_ms is None else left_ms / 1_000)
            self.look()
