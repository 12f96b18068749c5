"""Waits for what only asking again can tell: a file lock, a broker's answer."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], *, timeout_s: float, poll_s: float = 0.02) -> bool:
    """True as soon as the condition holds, False when the time is up; it is asked at least once."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_s)
    return True
