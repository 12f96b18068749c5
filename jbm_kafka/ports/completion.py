"""A call that is answered later, on another thread, once."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jbm_kafka.core.jms_errors import JMSError


class Completion:
    """Completed or failed once; waited for by one thread, or told to a callback."""

    __slots__ = ("_callback", "_error", "_event")

    def __init__(self, callback: Callable[[Exception | None], None] | None = None) -> None:
        self._event = threading.Event()
        self._error: Exception | None = None
        self._callback = callback

    @property
    def is_done(self) -> bool:
        """Completed or failed."""
        return self._event.is_set()

    def complete(self, error: Exception | None = None) -> None:
        """Answer; later answers are ignored."""
        if self._event.is_set():
            return
        self._error = error
        self._event.set()
        if self._callback is not None:
            self._callback(error)

    def wait_done(self, timeout_s: float) -> bool:
        """True when it is completed or failed in time; which of them, `wait` says."""
        return self._event.wait(timeout_s)

    def wait(self, timeout_s: float, *, about: str) -> None:
        """Return when completed.

        Raises:
            the error it failed with, or JMSError when `timeout_s` passed without an answer.
        """
        if not self._event.wait(timeout_s):
            raise JMSError(f"{about}: no answer within {timeout_s:g} s; its outcome is not known", timeout_s=timeout_s)
        if self._error is not None:
            raise self._error
