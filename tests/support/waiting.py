"""Waiting for what nobody announces: look until it holds, or until the time is up."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
S = TypeVar("S")
LOOK_S = 0.01
TRIES = 4


def wait_until(
    holds: Callable[[], T | None], *, about: str | Callable[[], str], timeout_s: float, look_s: float = LOOK_S
) -> T:
    """The first true answer, looked for every `look_s` seconds. A callable `about` is called when the time is up.

    Raises:
        AssertionError: there was none in time; it says what about.
    """
    deadline = time.monotonic() + timeout_s
    look = threading.Event()
    while not (answer := holds()):
        assert time.monotonic() < deadline, f"{about() if callable(about) else about}: not within {timeout_s:g} s"
        look.wait(look_s)
    return answer


def wait_while_moving(
    look: Callable[[], S], holds: Callable[[S], bool], *, about: str, stuck_s: float, most_s: float
) -> None:
    """Return when what is seen holds: a slow machine may take its time as long as what is seen changes.

    Raises:
        AssertionError: nothing changed for `stuck_s`, or it took longer than `most_s`; it says what about.
    """
    begun = moved = time.monotonic()
    pause = threading.Event()
    seen = look()
    while not holds(seen):
        pause.wait(LOOK_S)
        before, seen, now = seen, look(), time.monotonic()
        moved = now if seen != before else moved
        assert now < moved + stuck_s, f"{about}: nothing has changed for {stuck_s:g} s"
        assert now < begun + most_s, f"{about}: not within {most_s:g} s"


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
