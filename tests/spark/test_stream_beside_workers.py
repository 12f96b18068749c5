"""A query fills a queue that live workers empty, both killed by chance: what each of them counted agrees.

Method: a sender fills a queue for some minutes; a query copies it to a second one, and notes Spark's count of each
batch; processes of handlers work on that. The query's process is killed twice, handlers every few seconds. A batch
whose count a kill kept from being told is as large as its part of the checkpoint's log of offsets says.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from jbm_kafka import AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_spark.jobs.audit import run
from tests.spark.conftest import Topics
from tests.support.chaos_topics import channel_events, read_committed
from tests.support.handler_crew import HandlerCrew
from tests.support.handler_process import HandlerTask
from tests.support.waiting import wait_until

UNITS, A_SECOND = 40, 100
PATIENCE_S = 600.0
DRIVER_KILLS = 2


class Sending:
    """Numbers, one after the other, each of the unit of its number, as JSON, for some time."""

    def __init__(self, bootstrap: str, queue: str, seconds: float) -> None:
        self._factory = ConnectionFactory(bootstrap)
        self._queue = Queue(queue)
        self._seconds = seconds
        self.sent = 0
        self.share = 0.0
        """How much of the time is over."""

    def send(self) -> None:
        """Until the time is over."""
        begun, pause = time.monotonic(), threading.Event()
        with self._factory.create_sender() as sender:
            while self.share < 1:
                self.share = (time.monotonic() - begun) / self._seconds
                while self.sent < self.share * self._seconds * A_SECOND:
                    body = {"number": self.sent, "fails": int(self.sent % 31 == 0)}
                    unit = f"u{self.sent % UNITS}"
                    sender.send(self._queue, json.dumps(body), unit_of_order=unit, on_completion=lambda *_: None)
                    self.sent += 1
                pause.wait(0.05)


class Counted:
    """What Spark counted of each batch."""

    def __init__(self, checkpoint: Path, progress: Path) -> None:
        self._offsets = checkpoint / "offsets"
        self._progress = progress
        self._planned: dict[int, int] = {}

    def look(self) -> None:
        """Take in the log of offsets, of which Spark keeps the last hundred batches."""
        ends = {-1: 0}
        for path in self._offsets.glob("*"):
            if path.name.isdigit():
                with suppress(IndexError, ValueError):  # it is being written
                    [parts] = json.loads(path.read_text().splitlines()[2]).values()
                    ends[int(path.name)] = sum(parts.values())
        self._planned |= {batch: end - ends[batch - 1] for batch, end in ends.items() if batch - 1 in ends}

    def told(self) -> dict[int, set[int]]:
        """By batch, what Spark told of it, which may be more than once; without those that had nothing."""
        found: dict[int, set[int]] = defaultdict(set)
        lines = self._progress.read_text().splitlines() if self._progress.exists() else []
        for batch, rows in (map(int, line.split()) for line in lines):
            if rows:
                found[batch].add(rows)
        return found

    def total(self) -> int:
        """Of all batches whose count was told, and of those that a kill kept from it."""
        self.look()
        told = self.told()
        for batch, counts in told.items():
            assert counts == {self._planned.get(batch, min(counts))}, f"batch {batch}"
        return sum(min(told.get(batch, {self._planned.get(batch, 0)})) for batch in range(max(told, default=-1) + 1))

    def untold(self) -> int:
        """Batches whose count a kill kept from being told."""
        told = self.told()
        return max(told, default=-1) + 1 - len(told)


def now_and_then(holds: Callable[[], bool]) -> Callable[[], bool]:
    """For looks that cost those who work."""
    pause = threading.Event()
    return lambda: not pause.wait(0.5) and holds()


@contextmanager
def query_process(*arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """With its JVM; both are killed at the end."""
    command = [sys.executable, "-m", "tests.spark.counted_query", *arguments]
    process = subprocess.Popen(command, start_new_session=True)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("minutes", [10])
def test_what_spark_counted_what_workers_did_and_what_the_topics_say_agree(
    topics: Topics, tmp_path: Path, request: pytest.FixtureRequest, minutes: float
) -> None:
    """SPARK-3, LOG-5, AUDIT-1: to the message."""
    bootstrap, source, queue = topics.bootstrap, topics.create(3), topics.create(4)
    task = HandlerTask(name="", bootstrap=bootstrap, queue=queue, folder=str(tmp_path / "crew"))
    topics_of_query = (bootstrap, source, queue, str(tmp_path / "checkpoint"), str(tmp_path / "progress"))
    counted = Counted(tmp_path / "checkpoint", tmp_path / "progress")
    sending, is_over = Sending(bootstrap, source, 60 * minutes), threading.Event()
    with Admin(bootstrap) as admin, HandlerCrew([task] * 3, seed=7) as crew, ThreadPoolExecutor() as threads:
        admin.set_address_settings(queue, AddressSettings(record_deliveries=True))
        sender = threads.submit(sending.send)
        killing = threads.submit(crew.kill_until, is_over.is_set, limit_s=60 * minutes + PATIENCE_S)
        try:
            for number in range(1, DRIVER_KILLS + 1):
                with query_process(*topics_of_query):
                    wait_until(lambda: sending.share > number / (DRIVER_KILLS + 1),  # noqa: B023
                               about="the time to kill", timeout_s=60 * minutes)  # fmt: skip
                counted.look()
            with query_process(*topics_of_query):
                sender.result()
                wait_until(now_and_then(lambda: counted.total() >= sending.sent), about="batches", timeout_s=PATIENCE_S)
                wait_until(now_and_then(lambda: admin.counts(queue).held == 0), about="all done", timeout_s=PATIENCE_S)
        finally:
            is_over.set()
        killing.result()
        crew.stop()
    print(sending.sent, "messages,", counted.total(), "counted by Spark in", len(counted.told()), "batches and",
          counted.untold(), "untold,", len(crew.killed), "processes of handlers killed")  # fmt: skip
    assert counted.total() == sending.sent
    assert crew.killed
    check_topic(topics, queue, sending.sent)
    check_done(crew, sending.sent)
    acknowledged = [(event["partition"], offset) for event in channel_events(bootstrap, queue)
                    for each in event["acknowledged"] for offset in range(each["first"], each["last"] + 1)]  # fmt: skip
    there = {(record.partition(), record.offset()) for record in read_committed(bootstrap, queue)}
    assert sorted(place for place in acknowledged if place in there) == sorted(there)
    result = run(request.getfixturevalue("spark"), queue, bootstrap=bootstrap)
    print(result.text())
    assert result.messages == sending.sent
    assert not result.has_violations, result.text()


def check_topic(topics: Topics, queue: str, sent: int) -> None:
    """Each number once, in its unit's order."""
    numbers: dict[bytes, list[int]] = defaultdict(list)
    for record in topics.read(queue):
        numbers[record.key() or b""].append(json.loads(record.value() or b"")["number"])
    assert numbers == {b"u%d" % unit: list(range(unit, sent, UNITS)) for unit in range(UNITS)}


def check_done(crew: HandlerCrew, sent: int) -> None:
    """Each number once, but for what a killed one had in hand; in each process in its unit's order."""
    done = crew.done()
    assert {number for numbers in done.values() for number in numbers} == set(range(sent))
    assert crew.done_again() == []
    for numbers in done.values():
        for unit in range(UNITS):
            of_unit = [number for number in numbers if number % UNITS == unit]
            assert of_unit == sorted(of_unit)
