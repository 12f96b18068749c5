"""How much is on its way: sends wait when it is too much, and a flush until nothing is."""

from __future__ import annotations

import threading

from jbm_kafka.ports.wake_up import Sleepers

MOST_BYTES = 32 * 2**20


class SendsUnderWay:
    """Any thread. A send is known by itself, so that one which a signal handler interrupts may be ended twice."""

    def __init__(self) -> None:
        self._filled = Sleepers(threading.RLock())
        self._sizes: dict[object, int] = {}
        """The bytes of each."""
        self._bytes = 0

    def try_add(self, send: object, size: int) -> bool:
        """Count one more; False: there is no room now."""
        with self._filled.lock:
            if self._bytes and self._bytes + size > MOST_BYTES:
                return False
            self._sizes[send] = size
            self._bytes += size
            return True

    def add(self, send: object, size: int) -> bool:
        """Count one more as soon as there is room: every send ends within a minute."""
        return self._filled.wait_for(lambda: self.try_add(send, size), None)

    def end(self, send: object) -> None:
        """Count one less, if it has not ended already."""
        with self._filled.lock:
            self._bytes -= self._sizes.pop(send, 0)
            self._filled.notify_all()

    def wait_none(self, timeout_s: float) -> bool:
        """Return True when nothing is on its way."""
        return self._filled.wait_for(lambda: not self._sizes, timeout_s)
