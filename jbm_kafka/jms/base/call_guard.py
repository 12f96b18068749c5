"""One call of a session at a time; a second thread's is refused, and closing waits for the one that runs.

Not a lock of its own: its state stands under the session's lock, which a receive takes anyway. Up to Python 3.12 each
lock taken reads the clock and parses arguments.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from threading import get_ident
from types import TracebackType

from jbm_kafka.ports.link import Link
from jbm_kafka.ports.wake_up import Sleepers, is_held_here


class ListeningState:
    """The thread that calls a session's listeners, as all others of the session see it."""

    __slots__ = ("is_idle", "links", "taking_for", "thread")

    def __init__(self) -> None:
        self.thread: threading.Thread | None = None
        self.links: list[Link] = []
        """The links whose consumer has a listener."""
        self.is_idle = True
        """No listener runs, and no message is on its way to one."""
        self.taking_for: Link | None = None
        """A message of it may be neither in the buffer nor unacknowledged, but on its way to the listener."""

    def wait_end(self, timeout_s: float) -> bool:
        """True when the thread has ended in time."""
        assert self.thread is not None
        self.thread.join(timeout_s)
        return not self.thread.is_alive()

    @property
    def is_current(self) -> bool:
        """The caller is the thread."""
        return threading.current_thread() is self.thread

    @property
    def is_needed(self) -> bool:
        """A listener is set, or one runs still whose consumer was closed by itself."""
        return not self.is_idle or any(not link.is_closed for link in list(self.links))


class CallGuard:
    """Lets one thread at a time call into a session: each call enters, and leaves at its end."""

    __slots__ = ("_caller", "_filled", "_lock", "_waiting", "is_in_call", "listening")

    def __init__(self, filled: Sleepers) -> None:
        self._filled = filled
        """The session's own; a thread that waits to enter sleeps there."""
        self._lock = filled.lock
        self._waiting = 0
        self.is_in_call = False
        """Anybody may look, without the lock; True is to be trusted, False only under it."""
        self._caller = 0
        """The thread in the call, or of the last one."""
        self.listening: ListeningState | None = None
        """Once the session has had a listener: here, where a receive sees it for next to nothing."""

    def enter(self) -> bool:
        """Begin a call; False when another one runs. The caller holds the lock."""
        if self.is_in_call:
            return False
        self._caller = get_ident()  # first: a signal handler may look in between
        self.is_in_call = True
        return True

    @property
    def is_own(self) -> bool:
        """The caller's thread is in the call."""
        return self.is_in_call and self._caller == get_ident()

    @property
    def user(self) -> str:
        """The name of the thread in the call, or of the last one."""
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        return names.get(self._caller, str(self._caller))

    def is_interrupted(self) -> bool:
        """The caller is a signal handler, and what it interrupted is a call, or holds the lock.

        Neither ends before the handler returns, so it must wait for neither.
        """
        return self.has_lock or self.is_own

    @property
    def has_lock(self) -> bool:
        """The caller's thread holds the session's lock."""
        return is_held_here(self._lock)

    def try_enter(self) -> bool:
        """Begin a call; False when another one runs."""
        if self.is_in_call:  # before the lock, which a forked process may never get
            return False
        with self._lock:
            return self.enter()

    def wait_enter(self, timeout_s: float | None) -> bool:
        """Begin a call when the one that runs has ended; False when it did not end in time."""
        with self._lock:
            self._waiting += 1
        try:
            return self._filled.wait_for(self.enter, timeout_s)
        finally:
            with self._lock:
                self._waiting -= 1

    def leave(self) -> None:
        """End the call; without the lock."""
        self.is_in_call = False
        # Whoever begins to wait only now finds the call ended: it looks after it is counted.
        if self._waiting:
            with self._lock:
                self._filled.notify_all()

    def break_off(self, *, was_own: bool) -> None:
        """End the caller's call, which an error may have kept from beginning, or which has ended already; `was_own`,
        before it, is what `is_own` said."""
        if not was_own and self.is_own:
            self.leave()

    def refuse_for_ever(self) -> None:
        """In a forked process: nobody will end the call, and the lock may never be free, so it is not asked for."""
        self.is_in_call = True


class CallInUse:
    """A call as a `with`. Begun and ended by compiled code, where no signal handler can raise in between."""

    __slots__ = ("_begin", "_guard", "_was_own")

    def __init__(self, guard: CallGuard, begin: Callable[[], object]) -> None:
        self._guard = guard
        self._begin = begin
        """Begins the call, if it is one of its own."""
        self._was_own = False

    def __enter__(self) -> None:
        self._was_own = self._guard.is_own
        try:
            self._begin()
        except BaseException:
            self._guard.break_off(was_own=self._was_own)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._guard.break_off(was_own=self._was_own)
