"""Completion callbacks of sends: in send order, on a thread of the connection's own (SEND-9)."""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Any

from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.sentinels import UNSET
from jbm_kafka.jms.base.arguments import check_arguments, check_callable
from jbm_kafka.jms.base.error_lines import tell_error
from jbm_kafka.jms.base.exception_listener import ended_by
from jbm_kafka.jms.base.never_run import check_runs, refuse_unrun
from jbm_kafka.jms.sends.send_reports import CallbackReport
from jbm_kafka.ports.shielded_call import shielded
from jbm_kafka.ports.wake_up import Sleepers, WakeUp

log = logging.getLogger(__name__)

CALLBACKS_TIMEOUT_S = 60.0


class Completions:
    """Callbacks of one connection. Reports come from the sender's thread in any order over partitions.

    Its thread takes all that are due at once: a hand-over for each would cost more than all the rest of a send's end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        """Held while sends are taken out of `_pending`. Putting one in, and reporting one, needs no lock in Python."""
        self._pending: deque[CallbackReport] = deque()
        self._runner: threading.Thread | None = None
        self._all_done = Sleepers(self._lock)
        self._running = 0
        self.wake = WakeUp()
        """Set after what may be work; the thread clears it before its last look for some."""
        self.is_stopping = False
        """No callback is expected any more."""
        self._fit_code: object = UNSET
        """The code of the last callback, which can be called as callbacks are: looked at once for a function, not for a
        send."""

    def check(self, listener: Any) -> None:
        """Raises InvalidTypeError for a callback that cannot be called, or whose call runs nothing: the outcome of each
        send would stand in the log alone, or nowhere."""
        code = getattr(listener, "__code__", None)
        if code is self._fit_code:
            return
        if code is None:  # no function or method: what it takes is not so cheap to know
            check_callable("on_completion", listener)
            check_runs("on_completion", listener, "message, error")
            return
        check_runs("on_completion", listener, "message, error")
        check_arguments("on_completion", listener, "message, error")
        self._fit_code = code

    def begin(self) -> None:
        """Have callbacks run, from before the first send that has one."""
        if self._runner is None:
            shielded(self._start)

    def expect(self, pending: CallbackReport) -> None:
        """Have the callback of a send called that was made, and may have been reported already.

        After the send: whoever waits for callbacks waits for none of a send that was refused or interrupted.
        """
        self._pending.append(pending)
        if pending.is_reported:
            self.wake.set()

    @property
    def outstanding(self) -> int:
        """How many callbacks have not run."""
        return len(self._pending) + self._running

    def wait_done(self, timeout_s: float) -> bool:
        """True when no callback is outstanding.

        Raises:
            IllegalStateError: called inside a callback, which would wait for itself.
        """
        self.refuse_inside("wait for sends")
        self.wake.set()  # whoever put one in may have been interrupted before it woke the thread
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
        if threading.current_thread() is self._runner:
            raise IllegalStateError(f"{call} inside a completion callback would wait for itself")

    def stop(self) -> None:
        """End the thread, when it has run what is due."""
        self.is_stopping = True
        self.wake.set()

    def _start(self) -> None:
        with self._lock:
            if self._runner is None:
                self._runner = threading.Thread(target=self._run, name="jbm-completions", daemon=True)
                self._runner.start()

    def _take(self) -> list[CallbackReport]:
        """Return what is due: all that are reported and have no unreported one before them. What was taken before has
        run."""
        due: list[CallbackReport] = []
        with self._lock:
            while self._pending and self._pending[0].is_reported:
                due.append(self._pending.popleft())
            self._running = len(due)
            if not due:
                self._all_done.notify_all()
        return due

    def _run(self) -> None:
        while True:
            due = self._take()
            if not due:
                self.wake.clear()
                due = self._take()
            if not due:
                if self.is_stopping:
                    return
                self.wake.wait()
            for pending in due:
                try:
                    result = pending.listener(pending.message, pending.error)
                    if result is not None:
                        refuse_unrun("on_completion", result)
                except BaseException as error:  # sys.exit() too: it would end this thread, and all later callbacks
                    text = "a completion callback %s; the send itself is as it was reported"
                    tell_error(log, logging.ERROR, text, ended_by(error), error=error)
