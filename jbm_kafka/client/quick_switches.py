"""Lets the threads of this process take the interpreter from each other sooner while one of them works for long.

A server's loop lets go of the interpreter at each read and write, and gets it back only after the usual 5 ms, from one
of those that work, which may lose it to another of them.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
SWITCH_S = 0.0005
"""So long a thread keeps the interpreter while others wait for it; Python's own is ten times as long."""


class QuickSwitches:
    """Counts who works for long; the interval is the process's, so there is one of these. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._working = 0
        self._usual_s = 0.0

    def during(self, call: Callable[[], T]) -> T:
        """Return what the call does, and have it so until then; afterwards as it was, unless another one goes on."""
        with self._lock:
            self._working += 1
            if self._working == 1:
                self._usual_s = sys.getswitchinterval()
                sys.setswitchinterval(min(SWITCH_S, self._usual_s))
        try:
            return call()
        finally:
            with self._lock:
                self._working -= 1
                if not self._working:
                    sys.setswitchinterval(self._usual_s)


QUICK_SWITCHES = QuickSwitches()
