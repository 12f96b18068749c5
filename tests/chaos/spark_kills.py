"""Jobs of Spark that are killed again and again: nothing is lost, twice or out of order, and a zombie changes nothing.

`python -m tests.chaos.spark_kills [JOB...] [--kills N] [--each N] [--seed N] [--beside N]` has each of the jobs of JOBS
do its work in processes of its own, which are killed with their JVMs at moments by chance, three of four of them while
they write; every fourth is stopped instead, and goes on when another process has taken over, or was refused. Each round
begins with so many new messages, which by default are more in each partition than a duplicate window holds, unless the
last one is not done. After so many kills the work is done to its end, and nothing but Kafka's log or the archive's
files is read: a message that is not there, there twice, or behind a later one of its unit, is a fault. Faults are
printed: exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.dataset as ds
from confluent_kafka import Message
from deltalake import DeltaTable

from jbm_kafka.admin import Admin
from tests.chaos.bridge_kills import UNITS, faults
from tests.spark.conftest import Topics
from tests.spark.killed import PATIENCE_S, job, members, signal_all
from tests.spark.records import Record
from tests.support.broker import open_broker
from tests.support.chaos_topics import all_ends
from tests.support.waiting import wait_until

SPREAD_S = 2.0
"""So long after it began to write, at most, a process is killed."""
OPEN_S = 400.0
"""So long a transaction may stay open that a killed batch of the format "jbm" has left: Kafka ends it after 300 s."""
STARTING_S = 15.0
"""And so long after its start, where nobody waits until it writes."""


class Job:
    """Work that processes do; here messages go from one queue to another."""

    is_locked = False
    """A process that stands still keeps others away."""
    is_at_least_once = False

    def __init__(self, topics: Topics, folder: Path) -> None:
        self.topics, self.folder, self.sent = topics, folder, 0
        self.source, self.queue = topics.create(2), topics.create(2)

    def feed(self, count: int) -> None:
        """Begin a round, with numbers, each of the unit of its number."""
        self.write(self.source, count)

    def write(self, topic: str, count: int) -> None:
        """Send the next numbers there."""
        numbers = range(self.sent, self.sent + count)
        self.topics.write(topic, [Record(key=b"u%d" % (n % UNITS), value=b"%d" % n, headers=(("JBMBody", b"text"),))
                                  for n in numbers])  # fmt: skip
        self.sent += count

    def command(self) -> list[str]:
        """The process that does what is to be done, or what is left of it."""
        raise NotImplementedError

    def ended(self) -> None:
        """Note that such a process has ended well."""

    def is_done(self) -> bool:
        """Return True if the next round may begin; work without parts never needs to wait for that."""
        return True

    def progress(self) -> object:
        """Something that changes when a process writes."""
        return self.topics.count(self.queue)

    def found(self) -> list[int]:
        """The numbers, in order within each partition."""
        return [int(record.value() or b"") for record in self.records(self.queue)]

    def records(self, topic: str) -> list[Message]:
        """All that are committed, when no transaction is open there any more that a killed process has left."""
        ends = all_ends(self.topics.bootstrap, stable=False)

        def is_whole() -> bool:
            stable = all_ends(self.topics.bootstrap, stable=True)
            return all(stable.get(place, 0) >= end for place, end in ends.items() if place[0] == topic)

        wait_until(is_whole, about="transactions to end", timeout_s=OPEN_S)
        return self.topics.read(topic)

    def look(self) -> list[str]:
        """What is wrong already, after a kill."""
        return []

    def wrong(self) -> list[str]:
        """What is wrong at the end."""
        found = self.found()
        if self.is_at_least_once:
            print(f"{type(self).__name__}: {len(found) - len(set(found))} are there again")
            found = [*dict.fromkeys(found)]
        return faults(found, self.sent, type(self).__name__)


class Replay(Job):
    """`jbm-spark replay`."""

    def command(self) -> list[str]:
        return job(self.topics, "replay", "--from", self.source, "--to", self.queue, "--job", "kills")


class Stream(Job):
    """A stream of the format "jbm" at both ends."""

    how = "format"

    def command(self) -> list[str]:
        query = [sys.executable, "-m", "tests.spark.once_query", self.topics.bootstrap, self.source, self.queue]
        return [*query, str(self.folder / "checkpoint"), self.how]


class Parts(Job):
    """Work in parts, each of which is to be done before the next one begins."""

    def __init__(self, topics: Topics, folder: Path) -> None:
        super().__init__(topics, folder)
        self.part: str | None = None

    def ended(self) -> None:
        self.part = None

    def is_done(self) -> bool:
        return self.part is None


class Load(Parts):
    """`jbm-spark load`, a file each."""

    is_locked = True

    def feed(self, count: int) -> None:
        file = self.folder / f"{self.sent}.json"
        rows = ({"body_text": f"{n}", "unit_of_order": f"u{n % UNITS}"} for n in range(self.sent, self.sent + count))
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.part, self.sent = str(file), self.sent + count

    def command(self) -> list[str]:
        return job(self.topics, "load", str(self.part), self.queue, "--state", str(self.folder / "state"))


class Batch(Parts, Stream):
    """A batch of the format "jbm": each task of one that is repeated is a transaction once more."""

    is_at_least_once = True
    how = "batch"

    def feed(self, count: int) -> None:
        self.part = self.source = self.topics.create(2)
        self.write(self.source, count)


class Letters(Parts):
    """`jbm-spark dead-letters retry`, of a queue each."""

    def __init__(self, topics: Topics, folder: Path) -> None:
        super().__init__(topics, folder)
        self.letters, self._ends = topics.create(), dict[str, Mapping[int, int]]()

    def feed(self, count: int) -> None:
        self.part = self.topics.create(2)
        self.write(self.part, count)
        there = self.topics.read(self.part)
        self._ends[self.part] = {each.partition() or 0: (each.offset() or 0) + 1 for each in there}
        with Admin(self.topics.bootstrap) as admin:
            done = admin.send_to_dead_letter(self.part, everything=True, dead_letter_address=self.letters)
        assert len(done.messages) == count

    def command(self) -> list[str]:
        return job(self.topics, "dead-letters", "retry", "--from", self.letters)

    def progress(self) -> object:
        return [self.topics.count(queue) for queue in self._ends]

    def found(self) -> list[int]:
        """Of the records behind those that were sent at first."""
        return [int(record.value() or b"") for queue, ends in self._ends.items() for record in self.records(queue)
                if (record.offset() or 0) >= ends.get(record.partition() or 0, 0)]  # fmt: skip


class Archive(Job):
    """`jbm-spark archive`."""

    is_locked = True
    file_format = "parquet"

    @property
    def _place(self) -> Path:
        return self.folder / "archive"

    def command(self) -> list[str]:
        return job(self.topics, "archive", self.source, "--to", str(self._place), "--format", self.file_format)

    def progress(self) -> object:
        # Spark takes folders away meanwhile, which os.walk passes over.
        return {name for _, _, names in os.walk(self._place) for name in names if name.endswith(".parquet")}

    def found(self) -> list[int]:
        """As readers find them that know nothing of Spark."""
        folder = self._place / "messages"
        if self.file_format == "delta":
            is_there = (folder / "_delta_log").is_dir()
        else:
            is_there = any(folder.glob("segment=*/**/*.parquet"))
        if not is_there:
            return []
        data = DeltaTable(folder).to_pyarrow_dataset() if self.file_format == "delta" else ds.dataset(
            folder, partitioning="hive")  # fmt: skip
        rows = data.to_table(columns=["partition", "offset", "body_text"]).to_pylist()
        return [int(row["body_text"]) for row in sorted(rows, key=lambda row: (row["partition"], row["offset"]))]

    def look(self) -> list[str]:
        found = self.found()
        twice = len(found) - len(set(found))
        return [f"{type(self).__name__}: {twice} were there twice after a kill"] * bool(twice)


class Delta(Archive):
    """`jbm-spark archive --format delta`."""

    file_format = "delta"


class Erase(Archive):
    """`jbm-spark erase`, unit by unit, of an archive that grows meanwhile."""

    def __init__(self, topics: Topics, folder: Path) -> None:
        super().__init__(topics, folder)
        self.unit, self.grown_at, self.gone = 0, -1, set[int]()

    def feed(self, count: int) -> None:
        """Every third time, for a Spark of its own archives it."""
        if self.unit % 3 == 0 and self.grown_at != self.unit:
            self.grown_at = self.unit
            super().feed(count)
            subprocess.run(super().command(), check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE_S)

    def command(self) -> list[str]:
        command = [sys.executable, "-m", "jbm_spark.cli", "erase", str(self._place), "--unit", f"u{self.unit}"]
        return [*command, "--yes", "--json"]

    def ended(self) -> None:
        self.gone.update(range(self.unit, self.sent, UNITS))
        self.unit += 1

    def look(self) -> list[str]:
        missing = set(range(self.sent)) - {*self.found(), *self.gone, *range(self.unit, self.sent, UNITS)}
        return super().look() + [f"Erase: {sorted(missing)[:5]} were not there after a kill"] * bool(missing)

    def wrong(self) -> list[str]:
        found = self.found()
        left = sorted(self.gone & {*found})
        return [f"Erase: {left[:5]} are there still"] * bool(left) + faults(sorted([*found, *self.gone]), self.sent,
                                                                           "Erase")  # fmt: skip


JOBS = {kind.__name__.lower(): kind for kind in (Load, Replay, Letters, Archive, Delta, Erase, Stream, Batch)}


@contextmanager
def _process(command: Sequence[str], said: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Gone at the end, with its JVM and Spark's Python workers."""
    with said.open("ab") as log:
        process = subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log)
    try:
        yield process
    finally:
        signal_all(members(process.pid), signal.SIGKILL)
        process.wait()


def _run(work: Job, said: Path) -> int:
    with _process(work.command(), said) as process:
        code = process.wait(PATIENCE_S)
    if code == 0:
        work.ended()
    return code


def _wake(work: Job, zombie: subprocess.Popen[bytes], said: Path) -> list[str]:
    """Another process does its work meanwhile, or is refused; what is wrong."""
    signal_all(members(zombie.pid), signal.SIGSTOP)
    begin = said.stat().st_size
    code = _run(work, said)
    told = said.read_bytes()[begin:]
    signal_all(members(zombie.pid), signal.SIGCONT)
    woken = zombie.wait(PATIENCE_S)
    print(f"{type(work).__name__}: the other process ended with {code}, and then the zombie with {woken}", flush=True)
    if code == 0:
        return []
    if woken == 0:
        work.ended()  # the other one was refused
    is_refused = work.is_locked and b"another " in told
    return [] if is_refused and woken == 0 else [f"{type(work).__name__}: neither ended as it must, see its log"]


def _wait_for_writes(work: Job, process: subprocess.Popen[bytes]) -> None:
    before = work.progress()
    wait_until(lambda: work.progress() != before or process.poll() is not None,
               about="something to be written", timeout_s=PATIENCE_S)  # fmt: skip


def play(work: Job, *, kills: int, each: int, chance: random.Random) -> list[str]:
    """What is wrong."""
    wrong: list[str] = []
    said, killed = work.folder / "said.log", 0
    while killed < kills:
        if work.is_done():
            work.feed(each)
        with _process(work.command(), said) as process:
            is_early = chance.random() < 0.25
            if not is_early:
                _wait_for_writes(work, process)
            with suppress(subprocess.TimeoutExpired):
                process.wait(chance.uniform(0.0, STARTING_S if is_early else SPREAD_S))
            if process.poll() is not None:
                if process.returncode:
                    return [*wrong, f"{type(work).__name__}: it ended with {process.returncode} by itself"]
                work.ended()
                continue
            killed += 1
            if killed % 4 == 2:
                wrong += _wake(work, process, said)
        wrong += work.look()
    if work.is_done():
        work.feed(each)
    if code := _run(work, said):
        wrong.append(f"{type(work).__name__}: the last run ended with {code}")
    return wrong + work.wrong()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("jobs", nargs="*", help=f"of {', '.join(JOBS)}; all of them unless some are named")
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--each", type=int, default=24_000)
    parser.add_argument("--beside", type=int, default=2, help="so many jobs at once: each waits for its Spark mostly")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    given = parser.parse_args()
    if unknown := sorted({*given.jobs} - {*JOBS}):
        parser.error(f"{unknown[0]!r} is no job: it is one of {', '.join(JOBS)}")
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="jbm-spark-kills-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with open_broker(os.environ.get("JBM_TEST_BROKER", "local"), folder / "broker") as bootstrap:

            def play_one(one: str) -> bool:
                begun_s, place = time.monotonic(), folder / one
                place.mkdir()
                work = JOBS[one](Topics(bootstrap), place)
                wrong = play(work, kills=given.kills, each=given.each, chance=random.Random(given.seed))
                print(f"{type(work).__name__}: {given.kills} kills, {time.monotonic() - begun_s:.0f} s", flush=True)
                if wrong:
                    print(*wrong, (place / "said.log").read_text(errors="replace")[-4_000:], sep="\n", flush=True)
                return bool(wrong)

            with ThreadPoolExecutor(given.beside) as threads:
                return int(any([*threads.map(play_one, given.jobs or JOBS)]))


if __name__ == "__main__":
    sys.exit(main())
