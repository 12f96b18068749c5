"""A message that kills its worker each time, with `persist_delivery_count_before_delivery`: it alone is given up."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

import pytest

from jbm_kafka import AcknowledgeMode, Queue
from tests.support.chaos_crew import Process
from tests.support.poisoned_worker import ATTEMPTS_MAX, POISON, Poisoned

PLAIN = 27
IN_A_ROW = 3
ALL_S = 180.0


class Desks:
    """Places for workers: one that dies is replaced by another at once."""

    def __init__(self, count: int, task: Poisoned) -> None:
        self._tasks = [
            Poisoned(f"w{n}", task.bootstrap, task.queue, task.partitions, task.folder) for n in range(count)
        ]
        self._present: dict[str, Process] = {}

    def fill(self) -> None:
        """Start whoever is missing."""
        for task in self._tasks:
            worker = self._present.get(task.name)
            if worker is None or worker.process.poll() is not None:
                self.end(task.name)
                said = Path(task.folder) / f"{task.name}.log"
                self._present[task.name] = Process("tests.support.poisoned_worker", task.as_json(), said)

    def stop(self) -> None:
        """All leave in order."""
        for worker in self._present.values():
            worker.ask_to_stop()
        for worker in self._present.values():
            worker.wait_stopped()

    def end(self, name: str | None = None) -> None:
        """Gone, whatever happens."""
        for each in list(self._present) if name is None else [name]:
            if each in self._present:
                self._present.pop(each).end_anyhow()


def seen_in(folder: Path) -> dict[str, list[int]]:
    """The delivery counts of each message, as the workers wrote them down."""
    counts: dict[str, list[int]] = defaultdict(list)
    for path in folder.glob("*.seen"):
        for line in path.read_text().splitlines():
            body, count = line.rsplit(" ", 1)
            counts[body].append(int(count))
    return counts


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_only_what_killed_its_worker_three_times_becomes_a_dead_letter(
    bootstrap: str, queue_name: str, tmp_path: Path, workers: int
) -> None:
    """REDELIVER-1, REDELIVER-7, ACK-8: prefetched is no attempt, and a first delivery says that it is the first."""
    task = Poisoned("sender", bootstrap, queue_name, workers, str(tmp_path))
    plain = [f"plain {number}" for number in range(PLAIN)]
    poison = [f"{POISON} {number}" for number in range(IN_A_ROW)]
    in_order = [*plain[: PLAIN // 3], *poison, *plain[PLAIN // 3 :]]
    with ExitStack() as last, task.factory().create_connection() as connection:
        session = last.enter_context(connection.create_session(AcknowledgeMode.AUTO))
        producer = session.create_producer(Queue(task.queue))
        for body in in_order:
            producer.send(body)
        browser = session.create_browser(Queue(task.dead_letters), include="all")
        desks = Desks(workers, task)
        last.callback(desks.end)
        deadline = time.monotonic() + ALL_S
        while not (set(plain) <= seen_in(tmp_path).keys() and len(list(browser)) >= IN_A_ROW):
            assert time.monotonic() < deadline, seen_in(tmp_path)
            desks.fill()
        desks.stop()
        dead = [message.body for message in browser]
    seen = seen_in(tmp_path)
    assert sorted(map(str, dead)) == poison
    assert {body: sorted(seen[body]) for body in poison} == {body: [*range(1, ATTEMPTS_MAX + 1)] for body in poison}
    assert {body: min(seen[body]) for body in plain} == dict.fromkeys(plain, 1)
