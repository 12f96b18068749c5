"""Bridges into Kafka by processes of their own, and by two names of one cluster."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from jbm_kafka import ConnectionFactory, Context, Queue
from jbm_kafka.bridge import BridgeEnd
from tests.bridge.conftest import Bridged
from tests.support.waiting import wait_until

SOON_S = 60.0
UNITS = 5
FILE = """
connection.state_dir = "{state}"
[clusters.here]
bootstrap = "{here}"
[clusters.there]
bootstrap = "{there}"
[bridges.across]
source = {{cluster = "here", destination = "{source}"}}
target = {{cluster = "there", destination = "{target}"}}
"""


def two_names_of(bootstrap: str) -> tuple[str, str]:
    """Of one broker, which a bridge takes for two clusters."""
    port = bootstrap.rpartition(":")[2]
    return f"127.0.0.1:{port}", f"localhost:{port}"


class Process:
    """`jbm-kafka bridge`, as a process."""

    def __init__(self, file: Path, log: Path) -> None:
        self._log = log
        with log.open("wb") as output:
            command = [sys.executable, "-m", "jbm_kafka", "bridge", str(file)]
            self._process = subprocess.Popen(command, stdout=output, stderr=output)

    @property
    def id(self) -> int:
        """Of the process."""
        return self._process.pid

    def wait_said(self, text: str) -> None:
        """Return when its log has it."""
        wait_until(lambda: text in self._log.read_text(), about=self._log.read_text, timeout_s=SOON_S)

    def end(self, number: int) -> int:
        """Send it the signal; its exit code."""
        self._process.send_signal(number)
        return self._process.wait(SOON_S)

    def close(self) -> None:
        """Kill it, if it runs."""
        self._process.kill()
        self._process.wait()


def sent(jms: Context, queue: Queue, numbers: range) -> None:
    producer = jms.create_producer()
    for number in numbers:
        producer.send(queue, str(number), unit_of_order=f"u{number % UNITS}")


def check_come(jms: Context, queue: Queue, numbers: range) -> None:
    """Each once, in the order of its unit, and nothing beside them."""
    with jms.create_consumer(queue) as consumer:
        found = [consumer.receive(SOON_S) for _ in numbers]
        found.append(consumer.receive(0.5))
    bodies = [int(message.body) for message in found if message is not None]
    assert sorted(bodies) == list(numbers)
    for unit in range(UNITS):
        mine = [each for each in bodies if each % UNITS == unit]
        assert mine == sorted(mine)


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_of_two_processes_one_stands_by_and_goes_on_when_the_other_is_killed_or_ends(
    bootstrap: str, kafka_name: str, tmp_path: Path
) -> None:
    """BRIDGE-9, BRIDGE-2, BRIDGE-5: they fenced each other for ever."""
    here, there = two_names_of(bootstrap)
    source, target = Queue(f"{kafka_name}-in"), Queue(f"{kafka_name}-out")
    with ExitStack() as running, ConnectionFactory(bootstrap).create_context() as jms:

        def started(number: int) -> Process:
            file = tmp_path / f"{number}.toml"
            state = tmp_path / f"state-{number}"
            file.write_text(FILE.format(state=state, here=here, there=there, source=source.name, target=target.name))
            process = Process(file, tmp_path / f"{number}.log")
            running.callback(process.close)
            return process

        sent(jms, source, range(50))
        first = started(1)
        check_come(jms, target, range(50))
        second = started(2)
        second.wait_said(f"stands by: process {first.id} at ")
        sent(jms, source, range(50, 100))
        check_come(jms, target, range(50, 100))
        sent(jms, source, range(100, 200))
        assert first.end(signal.SIGKILL) == -signal.SIGKILL
        check_come(jms, target, range(100, 200))
        third = started(3)
        third.wait_said(f"stands by: process {second.id} at ")
        sent(jms, source, range(200, 250))
        check_come(jms, target, range(200, 250))
        assert second.end(signal.SIGTERM) == 0
        sent(jms, source, range(250, 300))
        third.wait_said("bridge across goes on")
        check_come(jms, target, range(250, 300))
        assert third.end(signal.SIGTERM) == 0


def test_two_names_of_one_queue_are_no_two_queues(bootstrap: str, kafka_name: str, bridged: Bridged) -> None:
    """BRIDGE-7: its messages went round until all of them were dead letters."""
    here, there = two_names_of(bootstrap)
    queue = Queue(f"{kafka_name}-orders")
    with ConnectionFactory(bootstrap).create_context() as jms:
        sent(jms, queue, range(3))
        bridge = bridged(BridgeEnd(here, queue), BridgeEnd(there, queue))
        wait_until(lambda: "one and the same" in (bridge.trouble or ""), about=repr(bridge), timeout_s=SOON_S)
        assert bridge.statistics().refused == 0
        assert bridge.stop()
        check_come(jms, queue, range(3))
