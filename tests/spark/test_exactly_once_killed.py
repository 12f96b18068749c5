"""Queries, of write_stream by both writers and of the format, their tasks and their zombies killed in the midst of
writing: every message is in the queue once.

Method: a process copies a queue at default settings, more than 10,000 messages of a partition in a batch. When records
of the batch are in the target's log it is killed, or what writes for it is, or that is stopped, goes on as a zombie
when the next process has written, and tries to commit. At the end the committed records are read from the log.
"""

import itertools
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.spark.conftest import Topics
from tests.spark.killed import members, signal_all
from tests.spark.records import Record, headers
from tests.support.waiting import wait_until

UNITS = 12
EACH = 11_000
"""Messages that a run finds besides what was left: more than a duplicate window of the defaults."""
EACH_LARGE = 60_000
"""More than one transaction takes."""
SOURCES = 2
PATIENCE_S = 600.0
QUEUE_PARTITIONS = 4


@dataclass
class Copying:
    """A queue that is copied by processes that are killed."""

    topics: Topics
    source: str
    queue: str
    checkpoint: str
    hows: Iterator[str]
    """Of tests.spark.once_query, run by run."""
    sent: int = 0
    stopped: list[int] = field(default_factory=list)
    """Processes that are to go on when others have written."""

    def send(self, count: int) -> None:
        """Numbers, one after the other, each of the unit of its number."""
        numbers = range(self.sent, self.sent + count)
        self.topics.write(self.source, [Record(key=b"u%d" % (n % UNITS), value=b"%d" % n) for n in numbers])
        self.sent += count

    def written(self) -> int:
        """Records in the log, committed or not."""
        consumer = Consumer({"bootstrap.servers": self.topics.bootstrap, "group.id": "reads-only"})
        try:
            return sum(consumer.get_watermark_offsets(TopicPartition(self.queue, p), timeout=30)[1]
                       for p in range(QUEUE_PARTITIONS))  # fmt: skip
        finally:
            consumer.close()

    @contextmanager
    def process(self, how: str) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "tests.spark.once_query",
                   self.topics.bootstrap, self.source, self.queue, self.checkpoint, how]  # fmt: skip
        process = subprocess.Popen(command, start_new_session=True)
        try:
            yield process
        finally:
            signal_all([each for each in members(process.pid) if each not in self.stopped], signal.SIGKILL)
            process.wait()

    def run(self) -> None:
        """To the end."""
        with self.process(next(self.hows)) as process:
            assert process.wait(PATIENCE_S) == 0

    def run_and_kill(self, what: str, chance: random.Random) -> None:
        """Until it has written some."""
        before, how = self.written(), next(self.hows)
        with self.process(how) as process:
            wait_until(lambda: self.written() > before or process.poll() is not None,
                       about="something to be written", timeout_s=PATIENCE_S)  # fmt: skip
            with suppress(subprocess.TimeoutExpired):  # in another place of the batch each time
                process.wait(chance.uniform(0, 0.6))
            writers = members(process.pid, "org.apache.spark" if how == "java" else "pyspark.daemon")
            if what == "workers":
                signal_all(writers, signal.SIGKILL)
                process.wait(PATIENCE_S)
            elif what == "zombies":
                self.stopped += writers
                signal_all(self.stopped, signal.SIGSTOP)

    def wake_zombies(self) -> None:
        """Return when they have tried what they were about to, and ended."""
        signal_all(self.stopped, signal.SIGCONT)
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in self.stopped),
                   about="zombies to end", timeout_s=PATIENCE_S)  # fmt: skip
        self.stopped = []


def copy_with_kills(topics: Topics, folder: Path, *hows: str, kills: int, each: int = EACH) -> None:
    chance, queue = random.Random(7), topics.create(QUEUE_PARTITIONS)
    copying = Copying(topics, topics.create(SOURCES), queue, str(folder / "checkpoint"), itertools.cycle(hows))
    try:
        for killed in itertools.islice(itertools.cycle(["zombies", "driver", "workers", "driver"]), kills):
            copying.send(each * SOURCES)
            copying.run_and_kill(killed, chance)
            if killed != "zombies" and copying.stopped:
                copying.wake_zombies()
        copying.run()
    finally:
        signal_all(copying.stopped, signal.SIGKILL)
    check(topics, copying)


def check(topics: Topics, copying: Copying) -> None:
    """None missing, none twice, units in order."""
    found = topics.read(copying.queue)
    numbers = [int(record.value() or b"") for record in found]
    assert len(numbers) == copying.sent
    assert set(numbers) == set(range(copying.sent))
    assert len({headers(record)["JMSMessageID"] for record in found}) == copying.sent
    for unit in range(UNITS):
        of_unit = [number for record, number in zip(found, numbers, strict=True) if record.key() == b"u%d" % unit]
        assert of_unit == sorted(of_unit)
        assert len({record.partition() for record in found if record.key() == b"u%d" % unit}) == 1


@pytest.mark.thorough
@pytest.mark.timeout(1800)
def test_a_message_is_written_once_whatever_is_killed(topics: Topics, tmp_path: Path) -> None:
    """SPARK-3: a zombie, and the process after it, in the midst of one batch; each writer goes on for the other."""
    copy_with_kills(topics, tmp_path, "java", "python", kills=2)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("hows", ["java python python java java", "format"])
def test_many_kills(topics: Topics, tmp_path: Path, hows: str) -> None:
    """SPARK-3: the same again and again, each writer after itself and the other, and of Python its workers alone."""
    copy_with_kills(topics, tmp_path, *hows.split(), kills=10, each=EACH_LARGE)
