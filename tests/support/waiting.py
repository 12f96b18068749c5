"""Waiting for what nobody announces: look until it holds, or until the time is up."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LOOK_S = 0.01


def wait_until(holds: Callable[[], T | None], *, about: str, timeout_s: float) -> T:
    """The first true answer.

    Raises:
        AssertionError: there was none in time; it says what about.
    """
    deadline = time.monotonic() + timeout_s
    look = threading.Event()
    while not (answer := holds()):
        assert time.monotonic() < deadline, f"{about}: not within {timeout_s:g} s"
        look.wait(LOOK_S)
    return answer
