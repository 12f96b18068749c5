"""How one thread wakes another where a signal handler may raise at any point: Ctrl-C, or sys.exit() on SIGTERM.

`threading.Event` and `threading.Condition` are written in Python, so an exception out of a handler may end their calls
half-way. Then their lock stays taken, and the next thread that comes to it waits for ever; or it is released twice.
Here a lock is taken by `with` alone, which Python does not interrupt between the taking and the block, and nobody
holds one while it sleeps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

LOOK_AGAIN_S = 1.0
"""The longest sleep of a waiting thread: an interrupted thread may not have notified it."""


class WakeUp:
    """Any thread sets it; one thread, the owner, waits and clears. As `threading.Event`, but for one that waits."""

    __slots__ = ("_asleep", "_is_seen")

    def __init__(self) -> None:
        self._asleep = threading.Lock()
        """Taken while it is not set, so that setting it is one act of the interpreter."""
        self._asleep.acquire()
        self._is_seen = False
        """The owner has taken the lock, and not cleared yet."""

    def set(self) -> None:
        """The owner's wait ends, or the next one returns at once. What it is to find must be there already."""
        if self._asleep.locked():
            try:  # noqa: SIM105  # `suppress` is two Python functions for each record
                self._asleep.release()
            except RuntimeError:
                pass  # another thread was first

    def is_set(self) -> bool:
        return self._is_seen or not self._asleep.locked()

    def clear(self) -> None:
        """The owner looks for what it was woken for after this, so nothing is missed."""
        self._is_seen = False
        self._asleep.acquire(blocking=False)

    def wait(self, timeout_s: float | None = None) -> bool:
        """True once it is set; False when the time is up. The owner only."""
        if not self._is_seen:
            self._is_seen = self._asleep.acquire(True, -1 if timeout_s is None else max(timeout_s, 0.0))
        return self._is_seen


class Bed(Protocol):
    """The place in which one sleeper sleeps: a thread in a lock that is taken, a task in what wakes its event loop."""

    def locked(self) -> bool:
        """Nobody has woken it yet."""

    def release(self) -> None:
        """Wake it. Any thread, once; it must not wait."""


class Sleepers:
    """Who waits for a change of what a lock guards: as `threading.Condition`, without lock in hand."""

    __slots__ = ("_asleep", "changes", "lock")

    def __init__(self, lock: threading.RLock | threading.Lock) -> None:
        self.lock = lock
        self.changes = 0
        """How many notifications there were; a thread that looked after reading it sleeps only while it is the same."""
        self._asleep: dict[Bed, None] = {}
        """One of each sleeper, who puts it in and takes it out."""

    def notify_all(self) -> None:
        """Something changed: whoever sleeps looks again. The caller holds the lock."""
        self.changes += 1
        if self._asleep:
            self.wake_all()

    def wake_all(self) -> None:
        """Whoever sleeps looks again, and nobody else. The caller holds the lock."""
        for bed in list(self._asleep):
            if bed.locked():
                bed.release()

    def sleep_unless(self, is_so: Callable[[], object], timeout_s: float | None) -> bool:
        """True at once if `is_so`, called once, under the lock; False when something changed or the time is up.

        The caller does not hold the lock.
        """
        bed = threading.Lock()
        bed.acquire()
        try:
            if self.lie_down_unless(is_so, bed):
                return True
            bed.acquire(True, -1 if timeout_s is None else max(timeout_s, 0.0))
            return False
        finally:
            self.get_up(bed)

    def lie_down_unless(self, is_so: Callable[[], object], bed: Bed) -> bool:
        """True if `is_so`, called once, under the lock; else the next notification wakes the bed. Until `get_up`."""
        with self.lock:
            if is_so():
                return True
            self._asleep[bed] = None
            return False

    def get_up(self, bed: Bed) -> None:
        """It sleeps no more, if it did."""
        self._asleep.pop(bed, None)

    def wait_for(self, is_so: Callable[[], object], timeout_s: float | None) -> bool:
        """True when `is_so`, which is called under the lock; False when the time is up. The caller does not hold it."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = LOOK_AGAIN_S if deadline is None else min(deadline - time.monotonic(), LOOK_AGAIN_S)
            if self.sleep_unless(is_so, left_s):
                return True
            if left_s <= 0:
                return False


def is_held_here(lock: threading.RLock | threading.Lock) -> bool:
    """The caller's thread holds it. An RLock only: a Lock does not know its holder."""
    is_owned: bool = lock._is_owned()  # type: ignore[union-attr]
    return is_owned
