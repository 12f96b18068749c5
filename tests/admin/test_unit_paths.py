"""Partitions are added to a queue in use: on Kafka and in memory, with senders and receivers at work all the while."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.admin import Admin, PathsEnded, partition_admission
from jbm_kafka.core.jms_errors import (
    IllegalStateError,
    InvalidDestinationError,
    InvalidSettingError,
    TransactionRolledBackError,
)
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.jms.connection import Connection
from jbm_kafka.ports.clock import SystemClock
from jbm_kafka.providers import embedded
from jbm_kafka.providers.in_memory import use_world
from tests.jms.support import receive
from tests.support.waiting import wait_until

WAIT_S = 6.0
"""Stands for the wait for senders that have not heard yet: see `waits_until_senders_have_heard`."""
PATIENCE_S = 60.0
UNITS = [f"unit-{n}" for n in range(12)]
ROUND = len(UNITS)
Traffic = list[Callable[[], int]]


@pytest.fixture
def traffic() -> Traffic:
    """For each sender at work: how many sends of its have ended."""
    return []


@pytest.fixture(autouse=True)
def waits_until_senders_have_heard(url: str, traffic: Traffic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows for how long a busy machine holds a sender up, so the wait ends by what it is for: every sidecar of
    this process has read the registry since, and what was routed before is written."""

    def sleep(seconds: float) -> None:
        if seconds != WAIT_S:
            return  # between two looks for an open transaction, each of which takes its own time
        began_ms = SystemClock().monotonic_ms()
        wait_until(lambda: all(at_ms > began_ms for at_ms in _read_at_ms(url)), about="all read", timeout_s=PATIENCE_S)
        goals = [ended() + 2 * ROUND for ended in traffic]
        wait_until(
            lambda: all(ended() >= goal for ended, goal in zip(traffic, goals, strict=True)),
            about="nothing is on its way",
            timeout_s=PATIENCE_S,
        )

    monkeypatch.setattr(partition_admission, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))


def _read_at_ms(url: str) -> list[int]:
    """When each of the sidecars last began to read the registry and came to its end."""
    name = url.removeprefix("memory://")
    world = use_world(name) if name != url else None
    try:
        running = (world or embedded).sidecars.all()
        logs = [
            each.sidecar.destinations.topics._registry.log
            for each in running
            if each.sidecar.destinations.topics._registry is not None
        ]
        return [log.read_at_ms for log in logs]
    finally:
        if world is not None:
            world.let_go()


@pytest.fixture
def queue(admin: Admin, kafka_name: str) -> Queue:
    admin.create_queue(kafka_name, partitions=2)
    return Queue(kafka_name)


@pytest.fixture
def factory(url: str, kafka_name: str) -> ConnectionFactory:
    return ConnectionFactory(url, namespace=kafka_name)


class Senders:
    """Send to every unit in turn, plainly and in transactions, until they are stopped; each counts for itself."""

    def __init__(self, factory: ConnectionFactory, queue: Queue, count: int, traffic: Traffic | None = None) -> None:
        self._ended = [0] * count
        if traffic is not None:
            traffic.extend(lambda n=n: self._ended[n] for n in range(count))  # type: ignore[misc]
        self.sent: dict[tuple[int, str], int] = defaultdict(int)
        self.failures: list[BaseException] = []
        self.rounds = threading.Semaphore(0)
        self._factory, self._queue = factory, queue
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(count)]

    @contextmanager
    def at_work(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        self.wait_for_a_round()
        try:
            yield
            self.wait_for_a_round()
        finally:
            self._is_over.set()
            for thread in self._threads:
                thread.join(60)
        assert not self.failures

    def wait_for_a_round(self) -> None:
        for _ in range(2 * len(self._threads)):
            assert self.rounds.acquire(timeout=60), self.failures

    def _run(self, number: int) -> None:
        is_transacted = number % 2 == 1
        try:
            with self._factory.create_connection() as connection:
                mode = AcknowledgeMode.TRANSACTED if is_transacted else AcknowledgeMode.AUTO
                session = connection.create_session(mode)
                producer = session.create_producer(self._queue)
                while not self._is_over.is_set():
                    for unit in UNITS:
                        count = self.sent[number, unit]
                        producer.send(f"{number} {count}", unit_of_order=unit)
                        self.sent[number, unit] += 1
                    if is_transacted:
                        try:
                            session.commit()
                        except TransactionRolledBackError:  # a broker on a busy machine took too long: all of it again
                            for unit in UNITS:
                                self.sent[number, unit] -= 1
                            continue
                    self._ended[number] += ROUND
                    self.rounds.release()
                    self._is_over.wait(0.05)
        except BaseException as error:
            self.failures.append(error)
            self.rounds.release()


def everything(connection: Connection, queue: Queue, count: int) -> dict[str, list[tuple[int, str]]]:
    """So many messages, by unit: where each was and what it says; each unit in the order of receiving."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    session = connection.create_session(AcknowledgeMode.CLIENT)
    consumer = session.create_consumer(queue)
    for _ in range(count):
        message = receive(consumer)
        assert message.kafka is not None
        found[str(message.unit_of_order)].append((message.kafka.partition, str(message.body)))
        message.acknowledge()
    consumer.close()
    return found


def check_order(found: dict[str, list[tuple[int, str]]], senders: Senders, count: int) -> None:
    for unit, messages in found.items():
        for number in range(count):
            bodies = [body for _, body in messages if body.startswith(f"{number} ")]
            assert bodies == [f"{number} {n}" for n in range(senders.sent[number, unit])], unit


def test_units_that_wait_keep_their_partition_and_nobody_is_refused(
    admin: Admin, factory: ConnectionFactory, queue: Queue, traffic: Traffic
) -> None:
    """Of UNIT-11."""
    senders = Senders(factory, queue, 4, traffic)
    with senders.at_work():
        assert admin.admit_partitions(queue, partitions=5, wait_s=WAIT_S) == (2, 5)
        assert set(admin.unit_paths(queue)) == {u for u in UNITS if _home(u, 5) != _home(u, 2)}
    sent = sum(senders.sent.values())
    assert admin.counts(queue).held == sent
    assert admin.counts(queue).misplaced == 0
    with factory.create_connection() as connection:
        found = everything(connection, queue, sent)
        check_order(found, senders, 4)
        assert {u: {place for place, _ in messages} for u, messages in found.items()} == {
            u: {_home(u, 2)} for u in UNITS
        }


def test_paths_end_when_nothing_of_the_unit_is_left(
    admin: Admin, factory: ConnectionFactory, queue: Queue, traffic: Traffic
) -> None:
    """Of UNIT-11: and what is sent then goes by the new count; who sends while a path ends keeps it."""
    moving = [u for u in UNITS if _home(u, 5) != _home(u, 2)]
    with factory.create_connection() as connection:
        producer = connection.create_session().create_producer(queue)
        for unit in UNITS:
            producer.send("a", unit_of_order=unit)
        assert admin.admit_partitions(queue, partitions=5, wait_s=WAIT_S) == (2, 5)
        assert admin.end_paths(queue, wait_s=0) == PathsEnded(0, len(moving))  # all of them are held
        found = everything(connection, queue, len(UNITS))
        assert {u: messages[0][0] for u, messages in found.items()} == {u: _home(u, 2) for u in UNITS}
        _wait_until_empty(admin, queue)
        ending = threading.Thread(target=admin.end_paths, args=(queue,), kwargs={"wait_s": WAIT_S})
        kept, sends = moving[0], 0
        traffic.append(lambda: sends)
        ending.start()
        while ending.is_alive():
            producer.send("b", unit_of_order=kept)
            sends += 1
        traffic.clear()
        assert list(admin.unit_paths(queue)) == [kept]
        for unit in moving:
            producer.send("c", unit_of_order=unit)
        found = everything(connection, queue, admin.counts(queue).held)
        assert {u: {place for place, _ in messages} for u, messages in found.items()} == {
            u: {_home(u, 2 if u == kept else 5)} for u in moving
        }
        _wait_until_empty(admin, queue)
        assert admin.end_paths(queue, wait_s=WAIT_S) == PathsEnded(1, 0)
        assert admin.unit_paths(queue) == {}


def test_a_transaction_that_is_open_all_the_while_goes_where_its_units_are(
    admin: Admin, factory: ConnectionFactory, queue: Queue
) -> None:
    """Of UNIT-11: routed when it was sent, and again when it is committed."""
    moving = next(u for u in UNITS if _home(u, 5) != _home(u, 2))
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.TRANSACTED)
        session.create_producer(queue).send("a", unit_of_order=moving)
        assert admin.admit_partitions(queue, partitions=5, wait_s=WAIT_S) == (2, 5)
        other = connection.create_session().create_producer(queue)
        other.send("b", unit_of_order=moving)
        session.commit()
        found = everything(connection, queue, 2)
        assert found == {moving: [(_home(moving, 5), "b"), (_home(moving, 5), "a")]}


def test_an_admission_that_was_given_up_goes_on_or_back(
    admin: Admin, factory: ConnectionFactory, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of UNIT-11: killed while it waits; senders go on, and another run ends it, or takes it back."""

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    moving = [u for u in UNITS if _home(u, 5) != _home(u, 2)]
    with factory.create_connection() as connection:
        producer = connection.create_session().create_producer(queue)
        for is_taken_back in (True, False):
            with monkeypatch.context() as patched:
                patched.setattr("jbm_kafka.admin.partition_admission._wait", killed)
                with pytest.raises(Killed):
                    admin.admit_partitions(queue, partitions=5)
            for unit in UNITS:
                producer.send("a", unit_of_order=unit)
            if is_taken_back:
                assert admin.admit_partitions(queue, partitions=2, wait_s=WAIT_S) == (2, 2)
            else:
                assert admin.admit_partitions(queue, wait_s=WAIT_S) == (2, 5)
        assert set(admin.unit_paths(queue)) == set(moving)
        found = everything(connection, queue, 2 * len(UNITS))
        assert {u: {place for place, _ in messages} for u, messages in found.items()} == {
            u: {_home(u, 2)} for u in UNITS
        }


def test_what_cannot_be_admitted_safely_is_refused(admin: Admin, url: str, queue: Queue, kafka_name: str) -> None:
    """Of UNIT-11."""
    with pytest.raises(InvalidSettingError, match=r"partitions is 1: .* has 2, and Kafka takes none away"):
        admin.admit_partitions(queue, partitions=1)
    with pytest.raises(InvalidDestinationError, match="there is no Kafka topic"):
        admin.end_paths("none-of-this-name")
    with Admin(url, namespace=f"{kafka_name}-b") as other:
        other.create_queue(queue.name)
        with pytest.raises(IllegalStateError, match="is used in other namespaces too"):
            admin.admit_partitions(queue, partitions=3)
    assert admin.admit_partitions(queue) == (2, 2)


def _home(unit: str, partitions: int) -> int:
    return partition_for(unit.encode(), partitions)


def _wait_until_empty(admin: Admin, queue: Queue) -> None:
    wait_until(lambda: admin.counts(queue).held == 0, about="an empty queue", timeout_s=30)
