"""Several processes of one worker: started, started again when one dies, and stopped together."""

from __future__ import annotations

import logging
import math
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType

log = logging.getLogger(__name__)

BACKOFF_S = (0.5, 30.0)
"""The first wait before a process is started again, which doubles, and the longest."""
STEADY_S = 60.0
"""A process that lived so long begins with the first wait again."""
BEYOND_DRAIN_S = 10.0
"""How much longer than its drain a process may take to end: it disconnects."""
_LOOK_S = 0.2


@dataclass(slots=True)
class _Child:
    """The place of one process."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    started_s: float = 0.0
    wait_s: float = BACKOFF_S[0]
    due_s: float = field(default=0.0)
    """When it is started, by the monotonic clock."""


class ProcessGroup:
    """`count` processes of one command, which gets its number as its last argument.

    A child whose standard input ends stops as if it was asked to: so none outlives this process.
    """

    def __init__(
        self, command: Sequence[str], count: int, drain_s: float, *, has_changed: Callable[[], bool] = lambda: False
    ) -> None:
        """`has_changed`: the code is another one, so that all are to be started anew."""
        self._command = list(command)
        self._drain_s = drain_s
        self._children = [_Child(number) for number in range(count)]
        self._asked_to_end = threading.Event()
        self._has_changed = has_changed

    def run(self) -> int:
        """Until SIGTERM or SIGINT: 0, or 1 when a process did not end well. Or the exit code of wrong usage."""
        before = {number: signal.signal(number, self._ask_to_end) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            while not self._asked_to_end.is_set():
                for child in self._children:
                    if (code := self._keep(child)) is not None:
                        self._stop()
                        return code
                if all(child.due_s == math.inf for child in self._children):
                    return 0
                if self._has_changed():
                    log.info("the code has changed: all processes start anew")
                    self._stop()
                self._asked_to_end.wait(_LOOK_S)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            codes = self._stop()
        return (
            0 if set(codes) <= {0, DRAINED, -signal.SIGTERM} else 1
        )  # the latter: it was still starting, and had nothing

    def _ask_to_end(self, number: int, frame: FrameType | None) -> None:
        self._asked_to_end.set()

    def _keep(self, child: _Child) -> int | None:
        """Start it if it is due, and look whether it lives; the code to end with, when no other start would help."""
        now_s = time.monotonic()
        if child.process is None:
            if now_s >= child.due_s:
                # A session of its own: Ctrl-C comes to this process, which tells the others once.
                child.process = subprocess.Popen(
                    [*self._command, str(child.number)], stdin=subprocess.PIPE, start_new_session=True
                )
                child.started_s = now_s
            return None
        code = child.process.poll()
        if code is None:
            return None
        if child.process.stdin is not None:
            child.process.stdin.close()
        if code == WRONG_USAGE:
            return code
        if code == DRAINED:
            log.info("process %d of the worker was drained by an operator, and is not started again", child.number)
            child.due_s, child.process = math.inf, None
            return None
        if now_s - child.started_s > STEADY_S:
            child.wait_s = BACKOFF_S[0]
        log.warning("process %d of the worker ended (%s); it starts again in %g s", child.number, code, child.wait_s)
        child.due_s, child.process = now_s + child.wait_s, None
        child.wait_s = min(2 * child.wait_s, BACKOFF_S[1])
        return None

    def _stop(self) -> list[int]:
        """End all, together; their exit codes."""
        running = [child.process for child in self._children if child.process is not None]
        for child in self._children:
            child.process, child.due_s, child.wait_s = None, 0.0, BACKOFF_S[0]
        for process in running:
            process.terminate()
        deadline_s = time.monotonic() + self._drain_s + BEYOND_DRAIN_S
        codes = []
        for process in running:
            try:
                codes.append(process.wait(max(0.0, deadline_s - time.monotonic())))
            except subprocess.TimeoutExpired:
                log.warning("process %d does not end after %g s, and is killed", process.pid, self._drain_s)
                process.kill()
                codes.append(process.wait())
            except KeyboardInterrupt:
                log.warning("asked once more: all processes are killed; what their handlers work on comes again")
                for each in running:
                    each.kill()
                codes.append(process.wait())
            if process.stdin is not None:
                process.stdin.close()
        return codes


WRONG_USAGE = 2
DRAINED = 86
"""Of a child that an operator has drained: it is not started again before all are."""
