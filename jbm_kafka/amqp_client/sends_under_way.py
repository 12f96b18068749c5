"""How much is on its way: sends wait when it is too much, and a flush until nothing is."""

from __future__ import annotations

import threading

from jbm_kafka.ports.wake_up import Sleepers

MOST_BYTES = 32 * 2**20


class SendsUnderWay:
    """Any thread."""

    def __init__(self) -> None:
        self._filled = Sleepers(threading.RLock())
        self._count = 0
        self._bytes = 0

    def try_add(self, size: int) -> bool:
        """One more; False: there is no room now."""
        with self._filled.lock:
            if self._bytes and self._bytes + size > MOST_BYTES:
                return False
            self._count += 1
            self._bytes += size
            return True

    def add(self, size: int) -> None:
        """One more, as soon as there is room: every send ends within a minute."""
        self._filled.wait_for(lambda: self.try_add(size), None)

    def end(self, size: int) -> None:
        """One less."""
        with self._filled.lock:
            self._count -= 1
            self._bytes -= size
            self._filled.notify_all()

    def wait_none(self, timeout_s: float) -> bool:
        """True when nothing is on its way."""
        return self._filled.wait_for(lambda: not self._count, timeout_s)
