"""The progress of a run, from the topics as they grow, and the lines that show it meanwhile."""

import time
from collections import Counter
from collections.abc import Iterable

from confluent_kafka import Message
from rich.console import Console

from jbm_kafka.demo.bookstore import DEAD_LETTERS, Names
from jbm_kafka.demo.evidence import Entry, Task, entry_of, letters_of

TOLD_EVERY_S = 2.0


class Progress:
    """Counts what the journal and the dead-letter queue have."""

    def __init__(self, names: Names, *, expected: int) -> None:
        self._names = names
        self.expected = expected
        """Lines of the day: each is processed or becomes a dead letter."""
        self.done: set[Task] = set()
        self.by_worker: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.letters = 0
        self.last_done: dict[int, Entry] = {}
        """The last entry of each partition of the orders' topic."""
        self.takeover_ms: int | None = None
        """From the kill until another worker first processed an order of a partition the killed one had."""
        self._killed: tuple[str, int] | None = None

    @property
    def settled(self) -> int:
        """Lines that are finished."""
        return len(self.done) + self.letters

    @property
    def is_complete(self) -> bool:
        """Nothing is left to wait for; whether it is right is the checker's to say."""
        return self.settled >= self.expected

    def killed(self, worker: str) -> None:
        """From now on watch for the worker that takes over."""
        self._killed = worker, time.time_ns() // 1_000_000

    def note(self, records: Iterable[Message]) -> None:
        """Take in what has been read."""
        for record in records:
            if record.topic() == DEAD_LETTERS:
                self.letters += len(letters_of([record], self._names))
            else:
                self._entry(entry_of(record))

    def _entry(self, entry: Entry) -> None:
        if not entry.is_done:
            self.failures[entry.worker] += 1
            return
        self.done.add(entry.task)
        self.by_worker[entry.worker] += 1
        before = self.last_done.get(entry.partition)
        self.last_done[entry.partition] = entry
        if self._killed is not None and self.takeover_ms is None and before is not None:
            victim, at_ms = self._killed
            if before.worker == victim != entry.worker and entry.at_ms > at_ms:
                self.takeover_ms = entry.at_ms - at_ms


class Show:
    """The run on the screen: its events, and every two seconds how far it is."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console = console
        self.progress = progress
        self._started_s = self._told_s = time.monotonic()

    def say(self, text: str) -> None:
        """A line, with the time since the beginning."""
        self._console.print(f"[dim]{time.monotonic() - self._started_s:5.1f} s[/]  {text}", highlight=False)

    def refresh(self, *, sent: int) -> None:
        """Show how far it is, if that was not shown lately."""
        if time.monotonic() - self._told_s >= TOLD_EVERY_S:
            self._told_s = time.monotonic()
            self.say(f"{sent} sent, {self.progress.settled} of {self.progress.expected} finished")
