"""A call that is answered later, on another thread, once."""

from __future__ import annotations

from collections.abc import Callable

from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports.wake_up import WakeUp


class Completion:
    """Completed or failed once; one thread waits for it, or a callback gets it."""

    __slots__ = ("_answered", "_callback", "_error", "is_done")

    def __init__(self, callback: Callable[[Exception | None], object] | None = None) -> None:
        self._answered = WakeUp()
        self.is_done = False
        """Completed or failed."""
        self._error: Exception | None = None
        self._callback = callback

    def complete(self, error: Exception | None = None) -> None:
        """Answer; later answers are ignored."""
        if self.is_done:
            return
        self._error = error
        self.is_done = True
        self._answered.set()
        if self._callback is not None:
            self._callback(error)

    def wait_done(self, timeout_s: float) -> bool:
        """True when it is completed or failed in time; which of them, `wait` says."""
        return self.is_done or self._answered.wait(timeout_s)

    def wait(self, timeout_s: float, *, about: str) -> None:
        """Return when completed.

        Raises:
            the error it failed with, or JMSError when `timeout_s` passed without an answer.
        """
        if not self.wait_done(timeout_s):
            raise JMSError(f"{about}: no answer within {timeout_s:g} s; its outcome is not known", timeout_s=timeout_s)
        if self._error is not None:
            raise self._error
