"""How long closing waits for Kafka: one budget for all its steps, used up by Kafka's silence alone.

While Kafka answers each step has its own time. Once it does not, all of them together have a few seconds: more than a
broker needs to come back with its last connections still open, less than anybody's supervisor waits before it kills.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

SILENCE_S = 4.0
"""Docker kills 10 s after its signal, and the handler that it interrupted wants some of them."""
SLICE_S = 0.25
ASK_S = 0.5


class Patience:
    """That of one closing; for the thread that closes. Time is counted by what was waited, so it needs no clock."""

    def __init__(self, is_there: Callable[[float], bool]) -> None:
        """`is_there` says within so many seconds whether Kafka answers."""
        self._is_there = is_there
        self._silent_s = 0.0

    @property
    def is_over(self) -> bool:
        """Kafka was silent for too long; nothing more is waited for."""
        return self._silent_s >= SILENCE_S

    def wait(self, wait_for: Callable[[float], bool], timeout_s: float) -> bool:
        """True when `wait_for`, which is given some seconds again and again, said so before time or patience ended."""
        while not self.is_over and timeout_s > 0:
            seconds = min(SLICE_S, timeout_s)
            if wait_for(seconds):
                return True
            timeout_s -= seconds
            if self._is_there(ASK_S):
                self._silent_s = 0.0
            else:
                self._silent_s += seconds + ASK_S
        return wait_for(0.0)

    def run(self, call: Callable[[], object], timeout_s: float) -> bool:
        """True when the call, on a thread of its own, has ended in time; else it is left alone."""
        thread = threading.Thread(target=call, name="jbm-closing-call", daemon=True)
        thread.start()

        def is_over(seconds: float) -> bool:
            thread.join(seconds)
            return not thread.is_alive()

        return self.wait(is_over, timeout_s)
