"""Work that runs beside others, written in steps: a thread runs it in one go, a simulation one step at a time.

A piece of work is a generator. Between two steps it yields what it waits for; whoever runs it decides how to wait.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from jbm_kafka.ports.wake_up import WakeUp


@dataclass(frozen=True, slots=True)
class Wait:
    """The end of the pause between two steps: the signal or the time, whichever comes first."""

    timeout_s: float | None = 0.0
    """0: go on at once; None: only the signal ends it."""
    signal: WakeUp | threading.Event | None = None


GO_ON = Wait()
"""Nothing to wait for; others may do something in between."""

Steps = Iterator[Wait]


class StepWorker(Protocol):
    """One piece of work on its way."""

    @property
    def is_alive(self) -> bool:
        """False once its last step was made."""

    def wait_end(self, timeout_s: float) -> bool:
        """True when its last step was made in time."""

    def abandon(self) -> None:
        """It makes no further step: that which is under way is its last, however long it takes."""


class Workers(Protocol):
    """Whoever runs pieces of work beside each other."""

    def start(self, name: str, steps: Steps) -> StepWorker:
        """Run it beside."""

    def pause(self, seconds: float) -> None:
        """Let the others work for so long, in the middle of a step: for callbacks that must not return yet."""


def pause_thread(seconds: float) -> None:
    """The calling thread waits so long, where a debugger and a signal can interrupt it."""
    threading.Event().wait(seconds)


class ThreadWorkers:
    """Gives every piece of work a thread of its own."""

    def start(self, name: str, steps: Steps) -> ThreadWorker:
        return ThreadWorker(name, steps)

    def pause(self, seconds: float) -> None:
        pause_thread(seconds)


class ThreadWorker:
    """A daemon thread that makes the steps of one piece of work."""

    def __init__(self, name: str, steps: Steps) -> None:
        self._steps = steps
        self._never = threading.Event()
        self._is_abandoned = False
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        # Not `Thread.is_alive`: a Ctrl-C within that of Python 3.11 takes a thread that runs for one that has ended.
        return not self._is_over

    def wait_end(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def abandon(self) -> None:
        self._is_abandoned = True

    def _run(self) -> None:
        try:
            for wait in self._steps:
                if wait is not GO_ON and not self._is_abandoned:
                    (wait.signal or self._never).wait(wait.timeout_s)
                if self._is_abandoned:
                    return
        finally:
            self._is_over = True
