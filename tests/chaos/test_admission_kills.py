"""An admission of partitions is killed again and again while senders and receivers work; then it is let go through."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import defaultdict

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from tests.admin.test_unit_paths import UNITS, Senders

pytestmark = pytest.mark.thorough

SENDERS = 4
WAIT_S = 6
"""Enough where no process is cut off or frozen: each reads the registry every second."""


class Receiver:
    """Receives until it is stopped, and notes where each message was and what it said, by unit."""

    def __init__(self, factory: ConnectionFactory, queue: Queue) -> None:
        self.seen: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self.failures: list[BaseException] = []
        self._factory, self._queue = factory, queue
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(120)
        assert not self.failures
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with self._factory.create_connection() as connection:
                session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
                consumer = session.create_consumer(self._queue)
                while (message := consumer.receive(timeout=2.0)) is not None or not self._is_over.is_set():
                    if message is not None:
                        assert message.kafka is not None
                        self.seen[str(message.unit_of_order)].append((message.kafka.partition, str(message.body)))
                        message.acknowledge()
        except BaseException as error:
            self.failures.append(error)


@pytest.mark.timeout(300)
def test_an_admission_killed_at_any_moment_and_run_again_splits_no_unit(bootstrap: str, kafka_name: str) -> None:
    """Of UNIT-11: senders are never refused, nothing is lost or comes twice, and every unit stays in order."""
    queue = Queue(kafka_name)
    factory = ConnectionFactory(bootstrap)
    with Admin(bootstrap) as admin:
        admin.create_queue(queue.name, partitions=2)
        senders = Senders(factory, queue, SENDERS)
        receiver = Receiver(factory, queue)
        try:
            with senders.at_work():
                for lives_s in (1.0, 3.0, 7.0):
                    _admit(bootstrap, queue, lives_s)
                    senders.wait_for_a_round()
                _admit(bootstrap, queue, None)
                senders.wait_for_a_round()
        finally:
            receiver.stop()
        assert len(admin.counts(queue).partitions) == 5
    for unit in UNITS:
        for number in range(SENDERS):
            bodies = [body for _, body in receiver.seen[unit] if body.startswith(f"{number} ")]
            assert bodies == [f"{number} {n}" for n in range(senders.sent[number, unit])], (unit, receiver.seen[unit])


def _admit(bootstrap: str, queue: Queue, lives_s: float | None) -> None:
    """The command, killed when it lived so long; it must succeed when it may live."""
    command = [sys.executable, "-m", "jbm_kafka.cli.main", "admit-partitions", queue.name, "--partitions", "5"]
    with subprocess.Popen(
        [*command, "--wait", str(WAIT_S), "--bootstrap", bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=lives_s or 120)
        except subprocess.TimeoutExpired:
            process.kill()
        else:
            assert process.returncode == 0, said
