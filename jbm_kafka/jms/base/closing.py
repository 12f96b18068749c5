"""Calls and the signal handlers that interrupt them: a handler may close the very call that closing waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jbm_kafka.ports.wake_up import Sleepers

HANDLED_S = 0.5
"""How long a signal that did not wake the main thread waits for its handler at most."""


def close_beside(close: Callable[[], None], filled: Sleepers | None) -> None:
    """Close on a thread of its own: it waits for the interrupted call, which ends once the handler has returned.

    Not a daemon: a process does not end before it.
    """

    def run() -> None:
        if filled is not None:
            with filled.lock:
                filled.notify_all()  # a receive looks, and finds itself closed
        close()

    threading.Thread(target=run, name="jbm-closing").start()


def wait_handling_signals(filled: Sleepers, is_over: Callable[[], bool], timeout_s: float | None) -> None:
    """Sleep unless `is_over`, until something is notified or the time is up, or on the main thread for `HANDLED_S`.

    The caller looks again, and does not hold the lock.

    Handlers run on the main thread, between two of its instructions. A signal that comes after the last of them and
    before the thread sleeps, or that the system gives to another thread, does not wake it: its handler would run when
    the next message comes.
    """
    if threading.current_thread() is threading.main_thread():
        timeout_s = HANDLED_S if timeout_s is None else min(timeout_s, HANDLED_S)
    filled.sleep_unless(is_over, timeout_s)
