"""SAF-1 to SAF-4: a sender with a store is killed again and again, while its broker is away again and again.

Each number is in the queue's log once, those of a unit in order; but for a number whose send did not return, which may
be there or not.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports.kafka import LogPlace
from jbm_kafka.store_and_forward.send_store import look_into
from tests.support.broker import local_broker
from tests.support.storing_sender import unit_of
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

QUEUE = "stored"
PARTITIONS = 4
AWAY_S = 1.5
"""More than a record of a batch may take to be confirmed in half of the outages, with the broker's own start."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    with local_broker(tmp_path / "broker") as found:
        create_topic(found.bootstrap, QUEUE, partitions=PARTITIONS, config={"retention.ms": "-1"})
        yield found


@dataclass
class Told:
    """What senders said."""

    tried: set[int] = field(default_factory=set)
    stored: list[int] = field(default_factory=list)
    refused: int = 0
    is_done: bool = False


class Senders:
    """One process after the other with the same folder."""

    def __init__(self, bootstrap: str, folder: Path, *, fsync: bool) -> None:
        self.told = Told()
        self._arguments = [bootstrap, str(folder), QUEUE, "fsync" if fsync else "kernel"]
        self._process: subprocess.Popen[str] | None = None
        self._hearing: threading.Thread | None = None

    def start(self, end: int, full_at: int = -1) -> None:
        """Send on from what no process has tried."""
        begin = max(self.told.tried, default=-1) + 1
        command = [sys.executable, "-m", "tests.support.storing_sender", *self._arguments, str(begin), str(end)]
        self._process = subprocess.Popen([*command, str(full_at)], stdout=subprocess.PIPE, text=True)
        self._hearing = threading.Thread(target=self._hear, args=(self._process,))
        self._hearing.start()

    def _hear(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                word, number = line.split()
                if word == "try":
                    self.told.tried.add(int(number))
                elif word == "ok":
                    self.told.stored.append(int(number))
                elif word == "no":
                    self.told.refused += 1
                else:
                    self.told.is_done = True

    def wait_stored(self, count: int) -> None:
        """Return when so many are stored."""
        wait_until(lambda: len(self.told.stored) >= count or None, about=f"{count} stored", timeout_s=120)

    def end(self, *, kill: bool) -> None:
        """Kill the process, or wait for its end; nothing that it said is lost."""
        process, hearing = self._process, self._hearing
        assert process is not None
        assert hearing is not None
        if kill:
            process.send_signal(signal.SIGKILL)
        process.wait(120)
        hearing.join()
        self._process = None

    def close(self) -> None:
        """Leave no process behind."""
        if self._process is not None:
            self.end(kill=True)


class Outages:
    """Has a broker stand still, or stop and start, again and again, until it was away so often."""

    def __init__(self, broker: LocalBroker, count: int) -> None:
        self.count = 0
        self._broker = broker
        self._wanted = count
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while self.count < self._wanted and not self._is_over.wait(AWAY_S):
            if self.count % 4 == 3:
                self._broker.stop()
                self._is_over.wait(AWAY_S)
                self._broker.start()
            else:
                self._broker.pause()
                self._is_over.wait(AWAY_S * (1 + self.count % 3))
                self._broker.resume()
            self.count += 1

    def wait_over(self) -> None:
        """Return when there were as many as wanted, and the broker is there."""
        self._thread.join()

    def end(self) -> None:
        """Make no more of them."""
        self._is_over.set()
        self._thread.join()


def everything(bootstrap: str) -> list[tuple[str, int]]:
    """The unit and number of each record, in the order of its partition."""
    kafka = ConfluentKafka(bootstrap, {})
    with closing(kafka.admin()) as admin:
        ends = admin.positions({QUEUE: PARTITIONS}, LogPlace.STABLE_END)[QUEUE]
    with closing(kafka.log_reader()) as reader:
        records = reader.read(QUEUE, {partition: (0, end) for partition, end in ends.items()}, timeout_s=60)
    return [((record.key() or b"").decode(), int(record.value() or b"-1")) for record in records]


def run(broker: LocalBroker, folder: Path, *, count: int, kills: int, outages: int, fsync: bool) -> None:
    """All of it, and what must hold in the end."""
    chance = random.Random(count)
    bootstrap = broker.bootstrap
    with closing(Senders(bootstrap, folder, fsync=fsync)) as senders:
        away = Outages(broker, outages)
        try:
            for kill in range(kills):
                senders.start(count + kills, full_at=count // 2 if kill in (kills // 2, kills // 2 - 1) else -1)
                senders.wait_stored(count * (kill + 1) // (kills + 1) + chance.randrange(20))
                senders.end(kill=True)
            senders.start(count + kills)
            away.wait_over()
        finally:
            away.end()
        senders.end(kill=False)
        while look_into(folder, 1).counts.waiting:
            senders.start(0)
            senders.end(kill=False)
        told = senders.told
    found = everything(bootstrap)
    numbers = [number for _, number in found]
    assert len(told.stored) >= count
    assert told.is_done
    assert set(told.stored) - set(numbers) == set(), "lost"
    assert len(numbers) == len(set(numbers)), "twice"
    assert set(numbers) <= told.tried
    for unit in {unit for unit, _ in found}:
        of_unit = [number for key, number in found if key == unit]
        assert of_unit == sorted(of_unit), f"unit {unit} is out of order"
        assert {unit_of(number) for number in of_unit} == {unit}
    assert away.count == outages
    assert told.refused or count < 10_000, "the disk was never full"
    counts = look_into(folder, 1).counts
    assert (counts.waiting, counts.set_aside, counts.lost) == (0, 0, 0)


@pytest.mark.thorough
@pytest.mark.parametrize("fsync", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_few_kills_and_outages(broker: LocalBroker, tmp_path: Path, fsync: bool) -> None:
    """SAF-1, SAF-2, SAF-3"""
    run(broker, tmp_path / "folder", count=1_500, kills=3, outages=3, fsync=fsync)


@pytest.mark.slow
@pytest.mark.timeout(1_500)
@pytest.mark.parametrize("fsync", [True, False])
def test_many_kills_and_outages(broker: LocalBroker, tmp_path: Path, fsync: bool) -> None:
    """SAF-1, SAF-2, SAF-3, SAF-4"""
    run(broker, tmp_path / "folder", count=50_000, kills=20, outages=20, fsync=fsync)
