"""Gives errors that no call can raise to the exception listener: in order, on a thread of the connection's own.

Not on the thread that found the trouble: that may be a worker's, which a slow listener would stop for every receiver of
its queue, and on which the listener could not close the connection, as JMS applications do in it.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import cast
from weakref import WeakSet

from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.base.error_lines import tell_error
from jbm_kafka.jms.base.never_run import refuse_unrun

log = logging.getLogger(__name__)

ExceptionListener = Callable[[JMSError], object]
"""Called with what no call can raise."""


class ListenerCalls:
    """Calls of one connection's exception listener."""

    def __init__(self, complete: Callable[[Exception], Exception] = lambda error: error) -> None:
        """`complete` adds to an error what takes time to find out; on the thread that the listener is called on."""
        self._complete = complete
        self.listener: ExceptionListener | None = None
        """Whom to tell; None: the log."""
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[tuple[ExceptionListener, Exception] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_stopped = False
        self._told: WeakSet[JMSError] = WeakSet()

    def notify(self, listener: ExceptionListener | None, error: Exception) -> None:
        """Have it called soon; to the log when there is no listener, or the connection has ended.

        Once for each error: many receivers may have one and the same, again and again.
        """
        if isinstance(error, JMSError):
            with self._lock:
                if error in self._told:
                    return
                self._told.add(error)
        if listener is not None and self._enqueue(listener, error):
            return
        log.warning("%s", error)

    def stop(self, timeout_s: float) -> None:
        """End the thread after the errors that wait; a call by the listener itself does not wait for that."""
        with self._lock:
            if self._is_stopped:
                return
            self._is_stopped = True
            thread = self._thread
        if thread is None:
            return
        self._waiting.put(None)
        if thread is not threading.current_thread():
            thread.join(timeout_s)

    def _enqueue(self, listener: ExceptionListener, error: Exception) -> bool:
        """Have the thread call the listener with the error; return False if calls have been stopped."""
        with self._lock:
            if self._is_stopped:
                return False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="jbm-exceptions", daemon=True)
                self._thread.start()
            self._waiting.put((listener, error))
            return True

    def _run(self) -> None:
        while (next_call := self._waiting.get()) is not None:
            listener, error = next_call
            try:
                result = listener(cast(JMSError, self._complete(error)))
                if result is not None:
                    refuse_unrun("exception_listener", result)
            except BaseException as raised:  # sys.exit() too: it would end this thread, and later errors would be lost
                text = "the exception listener %s on: %s"
                tell_error(log, logging.ERROR, text, ended_by(raised), error, error=raised)


def ended_by(error: BaseException, *, again: bool = False) -> str:
    """How a call of the application's ended, for a line of the log; an exit is not carried out on a thread of ours.

    `again`: the last one ended so as well, and the log has its traceback.
    """
    if isinstance(error, SystemExit) and again:
        return "called sys.exit() again"
    if again:
        return f"raised {type(error).__name__} again"
    if isinstance(error, SystemExit):
        return "called sys.exit(), which ends nothing here: set an event that the main thread waits for"
    return "raised"
