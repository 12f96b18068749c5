"""What a command does when it is asked to end."""

from __future__ import annotations

import signal
from types import FrameType


def unwind_when_asked_to_end() -> None:
    """Treat SIGTERM and SIGHUP as Ctrl-C: the command unwinds, and so takes every process it started along."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
