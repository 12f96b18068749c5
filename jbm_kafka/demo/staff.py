"""The worker processes: hired, watched, killed, and all gone at the end whatever happens."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from jbm_kafka.cli.cluster_settings import Cluster, environment_of
from jbm_kafka.demo.bookstore import Names
from jbm_kafka.demo.demo_error import DemoError

STOP_S = 30.0


@dataclass(frozen=True, slots=True)
class Colleague:
    """One worker process."""

    name: str
    desk: int
    """Its folder for local state; a replacement gets the desk of the one it replaces, as a supervisor would do it."""
    process: subprocess.Popen[str]
    said: Path
    """The file of its standard error."""


class Staff:
    """Workers of one run. As a context manager: leaving it kills those that are still there."""

    def __init__(self, cluster: Cluster, names: Names, *, session_timeout_ms: int) -> None:
        self._environment = environment_of(cluster, os.environ)
        self._names = names
        self._session_timeout_ms = session_timeout_ms
        self._folder = tempfile.TemporaryDirectory(prefix="jbm-bookstore-", ignore_cleanup_errors=True)
        self._hired = 0
        self.present: dict[str, Colleague] = {}
        """The colleagues by name, as long as nobody stopped or killed them."""

    def hire(self, desk: int) -> Colleague:
        """Start one more worker; it is at work some time after."""
        self._hired += 1
        name = f"worker-{self._hired}"
        home = Path(self._folder.name)
        command = [sys.executable, "-m", "jbm_kafka.demo.worker", "--name", name]
        command += ["--orders", self._names.orders, "--journal", self._names.journal]
        command += ["--state-dir", str(home / f"desk-{desk}"), "--session-timeout-ms", str(self._session_timeout_ms)]
        said = home / f"{name}.log"
        with said.open("w") as log:
            # A session of its own: Ctrl-C is for the shop, which then sees to its workers in order.
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
                env=self._environment,
            )  # fmt: skip
        self.present[name] = Colleague(name, desk, process, said)
        return self.present[name]

    def wait_ready(self, colleagues: Iterable[Colleague]) -> None:
        """Return when all of them have joined the queue's group.

        Raises:
            DemoError: one ended instead.
        """
        for colleague in colleagues:
            assert colleague.process.stdout is not None
            if colleague.process.stdout.readline().strip() != "ready":
                raise self._ended(colleague)

    def check(self) -> None:
        """Raises DemoError when a worker ended that nobody stopped."""
        for colleague in self.present.values():
            if colleague.process.poll() is not None:
                raise self._ended(colleague)

    def kill(self, name: str) -> Colleague:
        """SIGKILL the worker, without a warning; returns it."""
        colleague = self.present.pop(name)
        colleague.process.kill()
        _reap(colleague)
        return colleague

    def stop(self) -> None:
        """Ask all to finish what they have in hand and leave.

        Raises:
            DemoError: one did not, or not in order.
        """
        for colleague in self.present.values():
            assert colleague.process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                colleague.process.stdin.close()
        deadline = time.monotonic() + STOP_S
        for colleague in list(self.present.values()):
            try:
                code = colleague.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise DemoError(f"{colleague.name} did not leave within {STOP_S:g} s") from None
            if code != 0:
                raise self._ended(colleague)
            del self.present[colleague.name]
            _reap(colleague)

    def _ended(self, colleague: Colleague) -> DemoError:
        code = colleague.process.wait(5)
        lines = colleague.said.read_text(errors="replace").strip().splitlines()
        return DemoError(f"{colleague.name} ended with code {code}: {lines[-1] if lines else 'it said nothing'}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for colleague in self.present.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(colleague.process.pid, signal.SIGKILL)
        for colleague in self.present.values():
            _reap(colleague)
        self.present.clear()
        self._folder.cleanup()


def _reap(colleague: Colleague) -> None:
    """Wait for the end of its process, and close its pipes."""
    colleague.process.wait()
    for stream in (colleague.process.stdin, colleague.process.stdout):
        if stream is not None:
            with contextlib.suppress(BrokenPipeError):
                stream.close()
