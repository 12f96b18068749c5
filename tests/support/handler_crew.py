"""Processes of handlers that are killed one after the other, by chance, each replaced; all gone at the end."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.chaos_crew import Process
from tests.support.handler_process import HandlerTask

BETWEEN_KILLS_S = (1.0, 5.0)
NOTE_BYTES = 5
"""Of a message that is done, about."""


class HandlerCrew:
    """Processes with tasks of their own."""

    def __init__(self, tasks: Sequence[HandlerTask], *, seed: int, messages_a_kill: int = 50) -> None:
        """The tasks' places are given here, and names that begin with theirs. About so many messages are done from one
        kill to the next: a slow machine would do little but start."""
        self._tasks = [replace(task, place=place) for place, task in enumerate(tasks)]
        self._folder = Path(tasks[0].folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._random = random.Random(seed)
        self._bytes_a_kill = messages_a_kill * NOTE_BYTES
        self._names: list[str] = []
        self._present: list[Process] = []
        self.killed: list[str] = []

    def kill_until(self, is_done: Callable[[], bool], *, limit_s: float) -> None:
        """SIGKILL one by chance of those that have done something, start its replacement, and again some work later.

        Raises:
            AssertionError: it is not done in time.
        """
        pause, deadline, before = threading.Event(), time.monotonic() + limit_s, 0
        while not is_done():
            assert time.monotonic() < deadline, f"not done within {limit_s:g} s; see {self._folder}"
            pause.wait(self._random.uniform(*BETWEEN_KILLS_S))
            done = sum(path.stat().st_size for path in self._folder.glob("*.done"))
            at_work = [place for place, name in enumerate(self._names) if self._done_by(name).stat().st_size]
            if at_work and done >= before + self._bytes_a_kill:
                place, before = self._random.choice(at_work), done
                self._present[place].kill()
                self.killed.append(self._names[place])
                self._start(place)

    def stop(self) -> None:
        """All leave in order."""
        for process in self._present:
            process.ask_to_stop()
        for process in self._present:
            process.wait_stopped()

    def done(self) -> dict[str, list[int]]:
        """By process, the numbers of what it did, in that order."""
        return {path.stem: [*map(int, path.read_bytes().split())] for path in self._folder.glob("*.done")}

    def done_again(self) -> list[int]:
        """Numbers that were done more than once by those that nobody killed."""
        times = Counter(n for name, numbers in self.done().items() if name not in self.killed for n in numbers)
        return sorted(number for number, count in times.items() if count > 1)

    def _done_by(self, name: str) -> Path:
        return self._folder / f"{name}.done"

    def _start(self, place: int) -> None:
        task = replace(self._tasks[place], name=f"{place}-{len(self.killed)}")
        self._done_by(task.name).touch()
        process = Process("tests.support.handler_process", task.as_json(), self._folder / f"{task.name}.log")
        if place == len(self._present):
            self._present.append(process)
            self._names.append(task.name)
        else:
            self._present[place], self._names[place] = process, task.name

    def __enter__(self) -> Self:
        """All receive."""
        for place in range(len(self._tasks)):
            self._start(place)
        for process in self._present:
            process.wait_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._present:
            process.end_anyhow()
