"""Closing from a signal handler, which may have interrupted the very call that closing waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable


def close_beside(close: Callable[[], None], filled: threading.Condition) -> None:
    """Close on a thread of its own: it waits for the interrupted call, which ends once the handler has returned.

    Not a daemon: a process does not end before it.
    """

    def run() -> None:
        with filled:
            filled.notify_all()  # a receive looks, and finds itself closed
        close()

    threading.Thread(target=run, name="jbm-closing").start()
