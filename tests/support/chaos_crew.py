"""The processes of a failure test: started, killed, frozen, replaced, and all gone at the end whatever happens."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.chaos_worker import Task
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
STOP_S = 120.0
"""Leaving in order takes a moment, in the middle of a rebalance too; a last checkpoint that is refused takes 15 s."""
START_S = 120.0
ALIKE: Mapping[str, Any] = {}
"""Nobody's task is another than the crew's."""


class Process:
    """A Python module in a process of its own; what it says to standard error is in a file."""

    def __init__(
        self, module: str, argument: str, said: Path, code: Path = ROOT, python: Path = Path(sys.executable)
    ) -> None:
        """`code`: the folder from which it imports `jbm_kafka`, or, where another `python` has that, the tests."""
        self.said = said
        env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        if python == Path(sys.executable):
            env["PYTHONPATH"] = str(ROOT)
        with said.open("a") as log:
            self.process = subprocess.Popen(
                [python, "-m", module, argument],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=code,
                env=None if code == ROOT else env,
                start_new_session=True,
            )

    def wait_ready(self) -> str:
        """Return when it said so: its line."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready"), f"it ended instead of being ready, see {self.said}: {self.last_words()}"
        return line

    def kill(self) -> int:
        """SIGKILL. Returns when it is surely gone: its monotonic time in ns."""
        self.process.kill()
        self.process.wait()
        at_ns = time.monotonic_ns()
        self._close_pipes()
        return at_ns

    def freeze(self) -> None:
        """SIGSTOP."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.process.pid, signal.SIGCONT)

    def ask_to_stop(self) -> None:
        """It finishes what it has in hand and leaves."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait_stopped(self) -> None:
        """Return when it has ended in order."""
        code = self.process.wait(STOP_S)
        self._close_pipes()
        assert code == 0, f"it ended with {code}, see {self.said}: {self.last_words()}"

    def last_words(self) -> str:
        """The end of what it said."""
        return self.said.read_text(errors="replace")[-2000:]

    def end_anyhow(self) -> None:
        """For the end of a test."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._close_pipes()

    def _close_pipes(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class Crew:
    """Workers with the same task. Leaving it as a context manager kills whoever is still there."""

    def __init__(self, task: Task, *, seed: int) -> None:
        self._task = task
        self._folder = Path(task.folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._random = random.Random(seed)
        self._hired = 0
        self.present: dict[str, Process] = {}
        self._desks: dict[str, int] = {}
        self.kills: dict[str, int] = {}
        """When each of the killed was gone and each of the frozen stood still, by name; monotonic, in ns."""
        self._frozen: dict[str, Process] = {}
        self.code = ROOT
        """Of whom is hired from now on: the folder from which he imports `jbm_kafka`."""
        self.python = Path(sys.executable)
        """And the Python that runs him."""

    def hire(self, count: int = 1, desk: int | None = None, changes: Mapping[str, Any] = ALIKE) -> Sequence[Process]:
        """Start so many; they are at work some time later. `changes`: of their task."""
        hired = []
        for _ in range(count):
            self._hired += 1
            name = f"w{self._hired}"
            # A replacement sits down at the desk of the one it replaces, as a supervisor would do it.
            self._desks[name] = place = self._hired if desk is None else desk
            own: dict[str, Any] = {"name": name, "state_dir": str(self._folder / f"desk-{place}"), **changes}
            task = replace(self._task, **own)
            log = self._folder / f"{name}.log"
            process = Process("tests.support.chaos_worker", task.as_json(), log, self.code, self.python)
            self.present[name] = process
            hired.append(process)
        return hired

    def hire_ready(self, count: int) -> None:
        """Start so many and wait until they receive."""
        for process in self.hire(count):
            process.wait_ready()

    def kill_one(self) -> str:
        """SIGKILL one of those at work, by chance, and start its replacement; returns whom."""
        name = self._random.choice(wait_until(self._at_work, about="somebody at work", timeout_s=START_S))
        self.replace(name)
        return name

    def replace(self, *names: str) -> None:
        """SIGKILL all of them, and then start their replacements."""
        for name in names:
            self.kills[name] = self.present.pop(name).kill()
        for name in names:
            self.hire(desk=self._desks[name])

    def freeze_one(self) -> str:
        """SIGSTOP one of those at work, by chance, and start its replacement; returns whom."""
        name = self._random.choice(wait_until(self._at_work, about="somebody at work", timeout_s=START_S))
        self.present[name].freeze()
        self.lose(name)
        return name

    def lose(self, name: str) -> None:
        """Others get what he has from now on; start his replacement. `thaw` is for him, too."""
        self._frozen[name] = self.present.pop(name)
        self.kills[name] = time.monotonic_ns()
        self.hire()  # his desk is not free

    def thaw(self) -> None:
        """The frozen and lost ones go on, try to finish what others have meanwhile, and leave in order."""
        for process in self._frozen.values():
            process.ask_to_stop()
            process.thaw()
        while self._frozen:
            self._frozen.popitem()[1].wait_stopped()

    def dismiss_one(self) -> str:
        """Ask one of those present, by chance, to leave in order, and wait until it has."""
        name = self._random.choice(sorted(self.present))
        process = self.present.pop(name)
        process.ask_to_stop()
        process.wait_stopped()
        return name

    def _at_work(self) -> Sequence[str]:
        """Who of those present has had a message; others may not even have joined yet."""
        journals = {name: self._folder / f"{name}.journal" for name in self.present}
        return sorted(name for name, path in journals.items() if path.exists() and path.stat().st_size > 0)

    def stop(self) -> None:
        """All leave in order."""
        for process in self.present.values():
            process.ask_to_stop()
        for name in list(self.present):
            self.present.pop(name).wait_stopped()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self.present.values(), *self._frozen.values()):
            process.end_anyhow()
        self.present.clear()
        self._frozen.clear()
