"""One thread for many pieces of work that never wait within a step: it goes from one to the next that has something."""

from __future__ import annotations

import logging
import threading

from jbm_kafka.ports import Clock
from jbm_kafka.ports.steps import GO_ON, Steps, Wait, Workers
from jbm_kafka.ports.wake_up import WakeUp

log = logging.getLogger(__name__)

LOOK_S = 0.005
REST_MAX_S = 1.0


class SharedWorker:
    """Implements `StepWorker`."""

    def __init__(self, steps: Steps, workers: Workers) -> None:
        self._steps = steps
        self._workers = workers
        self._wait = GO_ON
        self.left_s = 0.0
        """Until its time is up."""
        self.is_alive = True

    @property
    def is_due(self) -> bool:
        """Its next step is to be made."""
        signal = self._wait.signal
        return self.is_alive and (self.left_s <= 0 or (signal is not None and signal.is_set()))

    def pass_time(self, seconds: float) -> None:
        """So much has passed."""
        self.left_s -= seconds

    def step(self) -> None:
        """Make it."""
        try:
            self._wait = next(self._steps)
            self.left_s = REST_MAX_S if self._wait.timeout_s is None else self._wait.timeout_s
        except StopIteration:
            self.is_alive = False
        except Exception:  # a bug: the others go on
            log.exception("a piece of work of the shared thread failed")
            self.is_alive = False

    def wait_end(self, timeout_s: float) -> bool:
        for _ in range(int(timeout_s / LOOK_S) + 1):
            if not self.is_alive:
                break
            self._workers.pause(LOOK_S)
        return not self.is_alive

    def abandon(self) -> None:
        self.is_alive = False


class SharedThread:
    """Implements `Workers`: the thread is there while there is work. Any thread may call it."""

    def __init__(self, name: str, workers: Workers, clock: Clock) -> None:
        self._name = name
        self._workers = workers
        self._clock = clock
        self._lock = threading.Lock()
        self._all: list[SharedWorker] = []
        self._is_running = False
        self._signal = WakeUp()

    def start(self, name: str, steps: Steps) -> SharedWorker:
        made = SharedWorker(steps, self._workers)
        with self._lock:
            self._all = [*self._all, made]
            is_first, self._is_running = not self._is_running, True
        if is_first:
            self._workers.start(self._name, self._run())
        self.wake()
        return made

    def pause(self, seconds: float) -> None:
        self._workers.pause(seconds)

    def wake(self) -> None:
        """A signal was set that some piece of work waits for."""
        self._signal.set()

    def _run(self) -> Steps:
        before_ms = self._clock.monotonic_ms()
        rest_s = 0.0
        while True:
            # Where the rest was not cut short it has passed, whatever a test's clock says.
            now_ms = self._clock.monotonic_ms()
            passed_s = (now_ms - before_ms) / 1000
            if not self._signal.is_set():
                passed_s = max(rest_s, passed_s)
            before_ms = now_ms
            self._signal.clear()
            with self._lock:
                self._all = [each for each in self._all if each.is_alive]
                if not self._all:
                    self._is_running = False
                    return
                present = self._all
            for each in present:
                each.pass_time(passed_s)
            for each in present:
                if each.is_due:
                    each.step()
                    yield GO_ON
            rest_s = max(0.0, min([each.left_s for each in present if each.is_alive], default=0.0))
            yield Wait(rest_s, self._signal) if rest_s else GO_ON
