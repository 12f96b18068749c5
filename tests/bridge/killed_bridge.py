"""A bridge in a process of its own, and brokers, which are killed again and again while it works.

What arrived is read from the target's log, by a consumer of Kafka's own: whoever received would hide what came twice.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import KafkaException, Message

from jbm_kafka import ConnectionFactory, DeliveryMode, Queue
from tests.support.chaos_topics import end_offsets, read_committed
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

FILE = """
[connection]
session_timeout_ms = 2000
state_dir = "state"
[clusters.source]
bootstrap = "{source}"
[clusters.target]
bootstrap = "{target}"
[bridges.across]
source = {{cluster = "source", destination = "in"}}
target = {{cluster = "target", destination = "out"}}
in_flight = 200
"""
UNITS = 50
SOON_S = 120.0
LATER_MS = 300


class BridgeProcess:
    """`jbm-kafka bridge FILE`, started again after each kill."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._log = (file.parent / "bridge.log").open("ab")
        self._process = self._started()

    def kill(self) -> None:
        """With SIGKILL; and there is another at once."""
        self._process.kill()
        self._process.wait()
        self._process = self._started()

    def end(self) -> int:
        """Asked to end; its exit code."""
        self._process.terminate()
        try:
            return self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()
            self._log.close()

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "jbm_kafka", "bridge", str(self._file)]
        return subprocess.Popen(command, cwd=self._file.parent, stdout=self._log, stderr=self._log, env=os.environ)


def send_numbers(bootstrap: str, count: int) -> None:
    """Numbers with units into `in`, every seventh to be delivered later."""
    with ConnectionFactory(bootstrap).create_connection() as connection:
        producer = connection.create_session().create_producer(Queue("in"))
        for number in range(count):
            producer.send(
                str(number),
                unit_of_order=f"u{number % UNITS}",
                delivery_mode=DeliveryMode.NON_PERSISTENT,
                delivery_delay_ms=LATER_MS if number % 7 == 0 else 0,
            )


def play(
    source: str, target: str, folder: Path, *, count: int, kills: Sequence[Callable[[BridgeProcess], None]], turns: int
) -> None:
    """Let a bridge take so many messages across while, turn by turn, one of `kills` is carried out.

    The turns fall at equal shares of what has arrived, so that each kill meets work in hand.
    """
    create_topic(source, "in", partitions=4, config={"retention.ms": "-1"})
    create_topic(target, "out", partitions=4, config={"retention.ms": "-1"})
    send_numbers(source, count)
    folder.mkdir(exist_ok=True)
    file = folder / "jbm-kafka.toml"
    file.write_text(FILE.format(source=source, target=target))
    bridge = BridgeProcess(file)
    log = file.parent / "bridge.log"
    try:
        for turn, kill in zip(range(turns), itertools.cycle(kills), strict=False):
            share = count * turn // turns
            wait_until(lambda: _arrived(target) > share, about=f"turn {turn}: {log}", timeout_s=SOON_S)  # noqa: B023
            kill(bridge)
        wait_until(lambda: _has_all(target, count), about=f"all of it: {log}", timeout_s=SOON_S)
    finally:
        code = bridge.end()
    found = read_committed(target, "out")
    assert faults_of(found, count) == []
    assert code == 0, log.read_text()[-2_000:]


def faults_of(found: Sequence[Message], count: int) -> list[str]:
    """What was lost, came twice, or is out of order."""
    times = Counter(int(message.value() or b"-1") for message in found)
    lost = [number for number in range(count) if not times[number]]
    twice = [number for number, often in times.items() if often > 1]
    units: defaultdict[bytes | None, list[int]] = defaultdict(list)
    for message in sorted(found, key=lambda each: (each.partition(), each.offset())):
        units[message.key()].append(int(message.value() or b"-1"))
    unordered = [name for name, numbers in units.items() if numbers != sorted(numbers)]
    told = (("lost", lost), ("twice", twice), ("out of order", unordered))
    return [f"{len(rows)} {word}: {rows[:10]}" for word, rows in told if rows]


def _arrived(target: str) -> int:
    """How far the target's log goes, marks of transactions included; 0 while nobody answers."""
    try:
        ends = end_offsets(target, "out")
    except (KafkaException, AssertionError):  # its broker was killed just now
        return 0
    return sum(ends.values())


def _has_all(target: str, count: int) -> bool:
    return _arrived(target) >= count and len(read_committed(target, "out")) >= count
