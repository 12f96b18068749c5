"""One run of a failure test: queue, input, crew, kills by progress, and the evidence at the end."""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.chaos_checks import Evidence
from tests.support.chaos_input import Input
from tests.support.chaos_journal import GOT, Step, done_by, read_journals
from tests.support.chaos_topics import (
    bodies,
    channel_events,
    end_offsets,
    lag_of,
    read_committed,
)
from tests.support.chaos_worker import Task
from tests.support.topics import create_topic
from tests.support.waiting import wait_until, wait_while_moving

DONE_S = 150.0
"""So long nothing may move."""
MOST_S = 600.0
"""And so long all may take."""
LOOK_AT_JOURNALS_S = 0.2


def counted(steps: Sequence[Step], kills: Mapping[str, int]) -> list[Step]:
    """Without what one that was frozen did afterwards with messages that others had meanwhile.

    Who was frozen for less than its session timeout lost nothing: what nobody else got it finished in its own right.
    """
    got_by: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    for step in steps:
        if step.kind == GOT:
            got_by[step.message].add(step.worker)
    return [
        step
        for step in steps
        if step.at_ns <= kills.get(step.worker, step.at_ns) or got_by[step.message] == {step.worker}
    ]


@dataclass(frozen=True, slots=True)
class Run:
    """A queue with its input."""

    bootstrap: str
    task: Task
    sent: Input
    seed: int
    excused: frozenset[tuple[str, int]] = frozenset()
    """What the fault itself deleted or skipped."""
    again: frozenset[tuple[str, int]] = frozenset()
    """What the fault itself gave back."""

    @classmethod
    def prepare(
        cls, bootstrap: str, name: str, folder: Path, *, units: int, each: int, seed: int, poison: int = 3,
        refused: float = 0.05, odd: float = 0.0, partitions: int = 8, types: tuple[str, ...] = (),
        is_sent: bool = True, **task: object,
    ) -> "Run":  # fmt: skip
        """Make the topics and send everything, if it is not to be sent later."""
        dead_letters = f"{name}.dlq"
        retention = {"retention.ms": "-1"}
        create_topic(bootstrap, name, partitions=partitions, config=retention)
        create_topic(bootstrap, dead_letters, partitions=2, config=retention)
        sent = Input.mixed(units=units, each=each, seed=seed, poison=poison, refused=refused, odd=odd)
        if is_sent:
            sent.send(bootstrap, name, partitions=partitions, types=types)
        given = Task(
            name="", folder=str(folder), state_dir="", queue=name, dead_letters=dead_letters,
            partitions=partitions, seed=seed, types=types, **{"bootstrap": bootstrap, **task},  # type: ignore[arg-type]
        )  # fmt: skip
        return cls(bootstrap, given, sent, seed)

    @property
    def folder(self) -> Path:
        """Of the journals and of what the workers said."""
        return Path(self.task.folder)

    def at_progress(self, shares: int, act: Callable[[], object], *, first: int = 1) -> None:
        """Call `act` after each share of the input that is done, `shares` of them and one without, from the first."""
        for share in range(first, shares + 1):
            wanted = len(self.sent.good) * share // (shares + 1)
            self.wait_done(wanted)
            act()

    def wait_done(self, count: int | None = None) -> None:
        """Return when so many are done; without a number: all, and nothing is owed any more."""
        must = self.sent.good - self.excused
        wanted = len(must) if count is None else count
        pause = threading.Event()

        def done() -> set[tuple[str, int]]:
            pause.wait(LOOK_AT_JOURNALS_S)  # reading all journals costs the workers time
            return done_by(self.folder)

        wait_while_moving(
            done,
            lambda done: len(done) >= wanted if count is not None else must <= done,
            about=self.explain(f"{wanted} messages done"),
            stuck_s=DONE_S,
            most_s=MOST_S,
        )
        if count is None:
            self.wait_settled()

    def wait_settled(self) -> None:
        """Return when the group has committed the end of the queue."""
        about = self.explain(f"{self.task.group}: everything settled")
        wait_while_moving(self.lag, lambda lag: lag == 0, about=about, stuck_s=DONE_S, most_s=MOST_S)

    def wait_dead_letters(self, count: int) -> None:
        """Return when about so many are there: the ends count the transactions' markers too."""
        wait_until(
            lambda: sum(end_offsets(self.bootstrap, self.task.dead_letters).values()) >= count,
            about=self.explain(f"{count} dead letters"),
            timeout_s=DONE_S,
        )

    def lag(self) -> int:
        """How many messages lie between the group's committed offsets and the ends of the queue."""
        return lag_of(self.bootstrap, self.task.queue, self.task.group)

    def evidence(self, kills: Mapping[str, int]) -> Evidence:
        """When all have left."""
        return Evidence(
            sent=self.sent,
            steps=counted(read_journals(self.folder), kills),
            kills=kills,
            events=channel_events(self.bootstrap, self.task.group),
            dead_letters=bodies(read_committed(self.bootstrap, self.task.dead_letters)),
            lag=self.lag(),
            excused=self.excused,
            again=self.again,
        )

    def explain(self, what: str) -> str:
        """What a failing test prints: how to see more, and how to do it again."""
        return f"{what}; seed {self.seed}; journals and logs of the workers: {self.folder}"

    def assert_right(self, wrong: list[str]) -> None:
        """Fails with every finding; the first in the first line, which alone is in a run's summary."""
        assert not wrong, "\n".join([self.explain(f"{len(wrong)} findings, first: {wrong[0]}"), *wrong])
