"""Answers of the cluster that several browsers share for a moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")
KEPT_S = 30.0
"""Nothing is asked for that is older, and some answers are large."""


class FreshAnswers:
    """Any thread. Who asks while somebody asks the same waits for that answer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Hashable, tuple[float, Any]] = {}
        self._asking: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, fresh_s: float, ask: Callable[[], T]) -> T:
        """Return what is known and not older, else what `ask` gives. What that raises is kept by nobody."""
        with self._lock:
            turn = self._asking.setdefault(key, threading.Lock())
        with turn:
            known = self._known.get(key)
            if known is not None and time.monotonic() - known[0] < fresh_s:
                answer: T = known[1]
                return answer
            answer = ask()
            with self._lock:
                self._known.pop(key, None)
                self._known[key] = time.monotonic(), answer
                self._drop_old(time.monotonic() - KEPT_S)
            return answer

    def _drop_old(self, before: float) -> None:
        for old in [each for each, (at, _) in self._known.items() if at < before]:
            del self._known[old]
            self._asking.pop(old, None)

    def forget(self) -> None:
        """All of it is old."""
        with self._lock:
            self._known.clear()
