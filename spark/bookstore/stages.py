"""Says what is being done: a line for each stage, and the latest one again, with its time, while it goes on."""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

AGAIN_S = 4.0
"""Somebody looks at it: a silence of five seconds is long."""


class Stages:
    """For the life of a block; it may tell from any thread."""

    def __init__(self, say: Callable[[str], object], *, again_s: float = AGAIN_S) -> None:
        self._say, self._again_s = say, again_s
        self._changed = threading.Condition()
        self._stage, self._since_s, self._is_over = "", time.monotonic(), False
        self._thread = threading.Thread(target=self._go_on, name="stages", daemon=True)

    def tell(self, line: str) -> None:
        """Say what comes now, or what has come of something."""
        with self._changed:
            self._say(line)
            self._stage, self._since_s = line, time.monotonic()
            self._changed.notify()

    def _go_on(self) -> None:
        with self._changed:
            while not self._is_over:
                if not self._changed.wait(self._again_s):
                    self._say(f"  {self._stage}: {time.monotonic() - self._since_s:.0f} s")

    def __enter__(self) -> Self:
        """The lines begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join()
