"""Calls and the signal handlers that interrupt them: a handler may close the very call that closing waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable

HANDLED_S = 0.5
"""How long a signal that did not wake the main thread waits for its handler at most."""


def close_beside(close: Callable[[], None], filled: threading.Condition) -> None:
    """Close on a thread of its own: it waits for the interrupted call, which ends once the handler has returned.

    Not a daemon: a process does not end before it.
    """

    def run() -> None:
        with filled:
            filled.notify_all()  # a receive looks, and finds itself closed
        close()

    threading.Thread(target=run, name="jbm-closing").start()


def wait_handling_signals(filled: threading.Condition, timeout_s: float | None) -> None:
    """Sleep until something is notified, or the time is up, or on the main thread for `HANDLED_S`; the caller looks.

    Handlers run on the main thread, between two of its instructions. A signal that comes after the last of them and
    before the thread sleeps, or that the system gives to another thread, does not wake it: its handler would run when
    the next message comes.
    """
    if threading.current_thread() is threading.main_thread():
        timeout_s = HANDLED_S if timeout_s is None else min(timeout_s, HANDLED_S)
    filled.wait(timeout_s)
