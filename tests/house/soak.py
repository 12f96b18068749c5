"""What a worker and a sender hold after half a million messages: `python -m tests.house.soak --help`.

Each message has a duplicate id of its own, each ten a unit of their own, one in fifty goes back once, and every few
thousand messages a second worker comes and leaves, which moves partitions there and back. Caches fill in the first
third of such a run: what still grows from the second to the last is a leak.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.queues import SimpleQueue
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from tests.support.broker import local_broker
from tests.support.waiting import wait_until

QUEUE, PARTITIONS = Queue("soak"), 4
A_UNIT, FAILS_ONCE_IN, LOOK_EACH = 10, 50, 1_000
VISIT_EACH = 5_000
"""Messages between two visits of the second worker."""
AHEAD = 4_000
"""How far the sender may run ahead."""
GROWTH_MAX = 1.05
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Soaked:
    """How much memory one process had, in bytes, at each of its looks."""

    name: str
    sizes: tuple[int, ...]

    @property
    def thirds(self) -> tuple[float, float, float]:
        """Means of the run's first, middle and last third."""
        third = len(self.sizes) // 3
        first, middle, last = (mean(self.sizes[place * third : (place + 1) * third]) for place in range(3))
        return first, middle, last

    @property
    def growth(self) -> float:
        """1.05: the last third's mean is 5 % more than the middle third's."""
        return self.thirds[2] / self.thirds[1]


@dataclass(frozen=True, slots=True)
class Soak:
    """One run, as its processes share it."""

    bootstrap: str
    folder: str
    count: int
    settled: Synchronized[int]
    found: SimpleQueue[Soaked]

    def factory(self, name: str) -> ConnectionFactory:
        return ConnectionFactory(
            self.bootstrap,
            state_dir=f"{self.folder}/{name}",
            address_settings={"#": AddressSettings(partitions=PARTITIONS, redelivery_delay_ms=100)},
        )

    def send(self) -> None:
        """Sends all, no more than `AHEAD` before what is settled."""
        sizes = []
        with self.factory("sender").create_connection() as connection, connection.create_session() as session:
            producer = session.create_producer(QUEUE)
            for number in range(self.count):
                if number % LOOK_EACH == 0:
                    self._wait(number - AHEAD)
                unit, once = f"unit-{number // A_UNIT}", f"once-{number}"
                producer.send(str(number), unit_of_order=unit, duplicate_id=once, on_completion=lambda *_: None)
                if number % LOOK_EACH == 0:
                    sizes.append(resident_bytes())
            producer.flush(PATIENCE_S)
        self.found.put(Soaked("sender", tuple(sizes)))

    def work(self) -> None:
        """The worker that stays, until all is settled."""
        self.found.put(Soaked("worker", tuple(self._receive("worker", self.count))))

    def visit(self) -> None:
        """A worker that takes a few and leaves, again and again."""
        for visit in range(VISIT_EACH, self.count, VISIT_EACH):
            self._wait(visit)
            self._receive("visitor", LOOK_EACH)

    def _wait(self, settled: int) -> None:
        wait_until(lambda: self.settled.value >= settled, about=f"{settled} settled", timeout_s=PATIENCE_S)

    def _receive(self, name: str, count: int) -> list[int]:
        """Settles so many, or all that is left, one in fifty at its second attempt."""
        sizes, mine = [], 0
        with self.factory(name).create_connection() as connection:
            session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
            consumer = session.create_consumer(QUEUE)
            while mine < count and self.settled.value < self.count:
                message = consumer.receive(1.0)
                if message is None:
                    parent = multiprocessing.parent_process()
                    assert parent is None or parent.is_alive(), "the run was broken off"
                    continue
                if int(message.get_body(str) or 0) % FAILS_ONCE_IN == 0 and not message.redelivered:
                    message.nack()
                    continue
                message.acknowledge()
                mine += 1
                with self.settled.get_lock():
                    self.settled.value += 1
                if mine % LOOK_EACH == 0:
                    sizes.append(resident_bytes())
        return sizes


def resident_bytes() -> int:
    """This process's."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def soak(bootstrap: str, folder: str, count: int, progress: Callable[[str], None]) -> list[Soaked]:
    """Plays the whole run, and gives the sizes of the sender and of the worker that stays."""
    spawn = multiprocessing.get_context("spawn")
    run = Soak(bootstrap, folder, count, spawn.Value("q", 0), spawn.SimpleQueue())
    processes = [spawn.Process(target=act, daemon=True) for act in (run.send, run.work, run.visit)]
    for process in processes:
        process.start()
    begun_s = time.monotonic()
    while alive := [process for process in processes if process.is_alive()]:
        alive[0].join(30.0)
        progress(f"{run.settled.value:,} of {count:,} in {time.monotonic() - begun_s:.0f} s")
        if any(process.exitcode for process in processes):
            raise SystemExit("a process of the run failed; its traceback is above")
    return [run.found.get() for _ in range(2)]


def main() -> None:
    """Prints means by thirds; the exit code is 1 where one of the two grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500_000, help="messages of the run")
    count = parser.parse_args().count
    with TemporaryDirectory(prefix="jbm-soak-") as folder, local_broker(Path(folder)) as broker:
        found = soak(broker.bootstrap, folder, count, lambda line: print(line, file=sys.stderr, flush=True))
    for each in found:
        print(each.name, "MB by thirds", *(f"{size / 2**20:.1f}" for size in each.thirds), f"growth {each.growth:.3f}")
    sys.exit(any(each.growth > GROWTH_MAX for each in found))


if __name__ == "__main__":
    main()
