"""Runs a sidecar's work one step at a time, in the one thread of a simulation."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from jbm_kafka.memory.memory_kafka import ProcessCrashed
from jbm_kafka.ports.steps import GO_ON, Steps, Wait
from tests.support.manual_clock import ManualClock


class Blocked(BaseException):
    """Whoever acts waits for a step that cannot end before its own act does; the act is tried again later.

    Not an Exception: the code under test must not take it for an answer.
    """


class SteppedWorker:
    """One piece of work; `step` makes its next step."""

    def __init__(self, name: str, steps: Steps, owner: SteppedWorkers) -> None:
        self.name = name
        self._steps = steps
        self._owner = owner
        self._wait: Wait = GO_ON
        self._since_ms = 0
        self.is_alive = True
        self.is_in_step = False
        """In the middle of a step, which pauses: it cannot make another."""

    @property
    def is_ready(self) -> bool:
        """Its next step can be made now."""
        if not self.is_alive or self.is_in_step:
            return False
        wait = self._wait
        if wait.signal is not None and wait.signal.is_set():
            return True
        return wait.timeout_s is not None and self._owner.clock.monotonic_ms() >= self._since_ms + wait.timeout_s * 1000

    def step(self) -> None:
        """Make one step; the process may crash in it."""
        self.is_in_step = True
        try:
            self._wait = next(self._steps)
            self._since_ms = self._owner.clock.monotonic_ms()
        except StopIteration:
            self.is_alive = False
        finally:
            self.is_in_step = False

    def abandon(self) -> None:
        self.is_alive = False

    def kill(self) -> None:
        """The process is gone: no further step, whatever it waits for."""
        self.is_alive = False
        if not self.is_in_step:
            with suppress(ProcessCrashed):  # it tries to tidy up, and cannot
                self._steps.close()  # type: ignore[attr-defined]

    def wait_end(self, timeout_s: float) -> bool:
        if self.is_in_step:
            raise Blocked
        end_ms = self._owner.clock.monotonic_ms() + int(timeout_s * 1000)
        while self.is_alive and self._owner.clock.monotonic_ms() < end_ms:
            self._owner.pause(0.05)
        return not self.is_alive


class SteppedWorkers:
    """Implements `steps.Workers` for one simulated process."""

    def __init__(self, clock: ManualClock, meanwhile: Callable[[float], None]) -> None:
        self.clock = clock
        self._meanwhile = meanwhile
        self.all: list[SteppedWorker] = []
        self.is_sweep_held = False
        """The one that takes away what ended subscriptions left waits for a lock."""
        self.are_topics_held: Callable[[], bool] = lambda: False
        """Somebody waits for what he writes of a topic: who recovers a partition would wait for him."""

    def start(self, name: str, steps: Steps) -> SteppedWorker:
        worker = SteppedWorker(name, steps, self)
        self.all = [other for other in self.all if other.is_alive]
        self.all.append(worker)
        return worker

    def pause(self, seconds: float) -> None:
        """Others act in the middle of a step; raises ProcessCrashed when this process did not survive that."""
        self._meanwhile(seconds)

    def ready(self) -> list[SteppedWorker]:
        """Whose next step can be made."""
        ready = [worker for worker in self.all if worker.is_ready]
        waiting: tuple[str, ...] = ("jbm-sweep",) if self.is_sweep_held else ()
        waiting += ("jbm-recovery-",) if self.are_topics_held() else ()
        return [worker for worker in ready if not worker.name.startswith(waiting)]

    def kill(self) -> None:
        """The process is gone."""
        for worker in self.all:
            worker.kill()
