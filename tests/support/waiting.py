"""Waiting for what nobody announces: look until it holds, or until the time is up."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
LOOK_S = 0.01
TRIES = 4


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


def in_time(call: Callable[[], T], limit_s: float) -> T:
    """What the call returns, once it took less than the limit: a busy machine may hold up one try, and not all.

    Raises:
        AssertionError: each of some tries took longer.
    """
    took_s: list[float] = []
    for _ in range(TRIES):
        begin = time.monotonic()
        answer = call()
        took_s.append(time.monotonic() - begin)
        if took_s[-1] < limit_s:
            return answer
    raise AssertionError(f"not within {limit_s:g} s: {took_s}")
