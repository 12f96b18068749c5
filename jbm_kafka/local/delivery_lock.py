"""One pass over a channel's messages at a time, so that a receiver gets them in order (ORDER-1), and nobody waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class DeliveryLock:
    """Whose turn it is to call receivers. A receiver may begin another pass within its own."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._pass = threading.RLock()
        self._depth = 0
        """How many passes are open in the thread that has the lock."""
        self._is_asked = False
        """Another thread wants the work done as soon as the pass is over."""

    @contextmanager
    def one(self) -> Iterator[bool]:
        """Within the block no other thread has a pass; False when it is within a pass of this thread."""
        with self._pass:
            self._depth += 1
            try:
                yield self._depth == 1
            finally:
                self._depth -= 1
        self._look_again()

    def work_soon(self) -> None:
        """Do the work now, or let the thread that has the pass do it at its end: nobody waits for another's receiver.

        Within this thread's own pass nothing is done: two channels would keep each other busy for ever.
        """
        if not self._try_work():
            self._is_asked = True
        self._look_again()

    def _look_again(self) -> None:
        """A thread that asks finds the pass taken; one that leaves the pass comes here: one of both sees the other."""
        while self._is_asked and not self._depth and self._try_work():
            pass

    def _try_work(self) -> bool:
        """False when another thread has the pass."""
        if not self._pass.acquire(blocking=False):
            return False
        try:
            if not self._depth:
                self._is_asked = False
                self._depth += 1
                try:
                    self._work()
                finally:
                    self._depth -= 1
        finally:
            self._pass.release()
        return True
