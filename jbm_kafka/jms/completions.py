"""Completion callbacks of sends: in send order, on a thread of the connection's own (SEND-9)."""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable

from jbm_kafka.core.errors import IllegalStateError
from jbm_kafka.jms.messages import Message
from jbm_kafka.jms.troubles import ended_by

log = logging.getLogger(__name__)

CALLBACKS_TIMEOUT_S = 60.0
CompletionListener = Callable[[Message, Exception | None], object]


class Pending:
    """One send whose callback is to come."""

    __slots__ = ("error", "is_reported", "listener", "message")

    def __init__(self, message: Message, listener: CompletionListener) -> None:
        self.message = message
        self.listener = listener
        self.is_reported = False
        self.error: Exception | None = None


class Completions:
    """Callbacks of one connection. Reports come from the sender's thread in any order over partitions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: deque[Pending] = deque()
        self._ready: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._all_done = threading.Condition(self._lock)
        self._running = 0

    def expect(self, message: Message, listener: CompletionListener) -> Pending:
        """Note a send about to be made; returns what `report` or `withdraw` is to be told."""
        pending = Pending(message, listener)
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="jbm-completions", daemon=True)
                self._thread.start()
            self._pending.append(pending)
        return pending

    def report(self, pending: Pending, error: Exception | None) -> None:
        """The send has ended."""
        with self._lock:
            pending.is_reported, pending.error = True, error
            self._release()

    def withdraw(self, pending: Pending) -> None:
        """The send was refused at once: its caller saw the error, no callback comes."""
        with self._lock:
            if not pending.is_reported:
                self._pending.remove(pending)
            self._release()
            self._all_done.notify_all()

    def wait_done(self, timeout_s: float) -> bool:
        """True when no callback is outstanding.

        Raises:
            IllegalStateError: called inside a callback, which would wait for itself.
        """
        self.refuse_inside("wait for sends")
        with self._all_done:
            return self._all_done.wait_for(lambda: not self._pending and not self._running, timeout_s)

    def wait_before(self, call: str) -> None:
        """Let a call begin that comes after the callbacks of earlier sends (SEND-9).

        Raises:
            IllegalStateError: it was called inside a callback.
        """
        self.refuse_inside(call)
        if self._pending or self._running:
            self.wait_done(CALLBACKS_TIMEOUT_S)

    def refuse_inside(self, call: str) -> None:
        """Raises IllegalStateError when called inside a callback."""
        if threading.current_thread() is self._thread:
            raise IllegalStateError(f"{call} inside a completion callback would wait for itself")

    def stop(self) -> None:
        """End the thread."""
        self._ready.put(None)

    def _release(self) -> None:
        while self._pending and self._pending[0].is_reported:
            self._running += 1
            self._ready.put(self._pending.popleft())

    def _run(self) -> None:
        while (pending := self._ready.get()) is not None:
            try:
                pending.listener(pending.message, pending.error)
            except BaseException as error:  # sys.exit() too: it would end this thread, and every later callback with it
                log.exception("a completion callback %s; the send itself is as it was reported", ended_by(error))
            with self._all_done:
                self._running -= 1
                self._all_done.notify_all()
