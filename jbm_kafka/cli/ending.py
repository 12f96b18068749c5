"""What a command does when it is asked to end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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


def unwind_when_asked_to_end() -> None:
    """Treat SIGTERM and SIGHUP as Ctrl-C: the command unwinds, and so takes every process it started along."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
