"""Ends a command when it is asked to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

LOOK_S = 0.5


class Interrupted(Exception):
    """Ctrl-C, or a request to end; its text, if any, tells how far the command came."""


@contextmanager
def unwinding() -> Iterator[None]:
    """The same as `unwind_when_asked_to_end`, for a part of a command."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    unwind_when_asked_to_end()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def until_asked_to_end() -> Iterator[Callable[[], None]]:
    """For a server: what this gives returns at SIGTERM or Ctrl-C; from then on a second one ends the process at once.

    Before that neither ends anything, so that what the server has opened is closed in order.
    """
    asked = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        asked.set()

    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, end) for number in numbers}

    def wait() -> None:
        while not asked.wait(LOOK_S):  # another thread may take the signal, and this one sleeps on
            continue
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)

    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def unwind_when_asked_to_end() -> None:
    """Treat SIGTERM and SIGHUP as Ctrl-C: the command unwinds, and so takes every process it started along."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
