"""What the contract tests need from a Kafka beyond its ports, for the real one and for the one in memory."""

import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from confluent_kafka import TopicPartition

from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import GroupConsumer, Kafka, KafkaRecord, Outgoing, TransactionalProducer
from jbm_kafka.ports.clock import SystemClock
from tests.kafka.frozen_member import frozen_member
from tests.support.topics import admin_client

SESSION_TIMEOUT_MS = 2_000
MEMORY_BYTES = 4 * 2**20
WAIT_S = 20.0


class World(Protocol):
    """One Kafka, real or not."""

    def kafka(self, *, admin_timeout_s: float = WAIT_S, send_timeout_ms: int = 30_000) -> Kafka:
        """Clients of one more process."""

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Move the log's begin up, as retention does."""

    def frozen_member_refused(self, topic: str, group: str, while_frozen: Callable[[], None]) -> str:
        """Run `frozen_member` with its process stopped past its session timeout; what it tells at the end."""

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """Nothing can be written while the block runs. Other tests must not use this world."""


class RealWorld:
    """A broker; `broker` only where it is the test's own."""

    def __init__(self, bootstrap: str, broker: LocalBroker | None = None) -> None:
        self._bootstrap = bootstrap
        self._broker = broker

    def kafka(self, *, admin_timeout_s: float = WAIT_S, send_timeout_ms: int = 30_000) -> Kafka:
        return ConfluentKafka(self._bootstrap, admin_timeout_s=admin_timeout_s, send_timeout_ms=send_timeout_ms)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        client = admin_client(self._bootstrap)
        for future in client.delete_records([TopicPartition(topic, partition, offset)]).values():
            future.result(WAIT_S)

    def frozen_member_refused(self, topic: str, group: str, while_frozen: Callable[[], None]) -> str:
        command = [sys.executable, "-m", "tests.kafka.frozen_member", self._bootstrap, topic, group]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGSTOP)
            try:
                while_frozen()
            finally:
                process.send_signal(signal.SIGCONT)
            answer, _ = process.communicate("go on\n", timeout=WAIT_S)
        return answer.strip()

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        assert self._broker is not None, "only a broker of the test's own may be stopped"
        self._broker.pause()
        try:
            yield
        finally:
            self._broker.resume()


class MemoryWorld:
    """Brokers in memory, in real time."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(SystemClock())

    def kafka(self, *, admin_timeout_s: float = WAIT_S, send_timeout_ms: int = 30_000) -> Kafka:
        return MemoryKafka(self.cluster, admin_timeout_s=admin_timeout_s, send_timeout_ms=send_timeout_ms)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        self.cluster.log(topic, partition).delete_before(offset)

    def frozen_member_refused(self, topic: str, group: str, while_frozen: Callable[[], None]) -> str:
        kafka = MemoryKafka(self.cluster)
        member = frozen_member(kafka, topic, group)
        next(member)
        kafka.freeze()
        while_frozen()
        kafka.thaw()
        return next(member)

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        self.cluster.faults.stalled = lambda topic, partition: True
        yield
        self.cluster.faults.stalled = None


class Listener:
    """Starts every partition at a position, and remembers what it was told."""

    def __init__(self, positions: Mapping[int, int] | None = None) -> None:
        self.positions = positions
        """Where to start; None: everything at 0."""
        self.told: list[tuple[str, tuple[int, ...]]] = []
        self.before_giving_up: Callable[[Sequence[int]], None] | None = None

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        self.told.append(("assigned", tuple(sorted(partitions))))
        if self.positions is None:
            return dict.fromkeys(partitions, 0)
        return {partition: self.positions[partition] for partition in partitions if partition in self.positions}

    def on_revoked(self, partitions: Sequence[int]) -> None:
        self.told.append(("revoked", tuple(sorted(partitions))))
        if self.before_giving_up is not None:
            self.before_giving_up(partitions)

    def on_lost(self, partitions: Sequence[int]) -> None:
        self.told.append(("lost", tuple(sorted(partitions))))


def member(
    kafka: Kafka, group: str, topic: str, listener: Listener | None = None, *, partitions: int = 4
) -> GroupConsumer:
    """A member with the tests' settings."""
    return kafka.group_consumer(
        group=group,
        topic=topic,
        partitions=partitions,
        listener=listener or Listener(),
        session_timeout_ms=SESSION_TIMEOUT_MS,
        rebalance_timeout_ms=300_000,
        memory_bytes=MEMORY_BYTES,
    )


def consume_until(is_so: Callable[[], bool], *consumers: GroupConsumer) -> list[KafkaRecord]:
    """Let the members run until the condition holds; what they read."""
    records: list[KafkaRecord] = []
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, "it never came about"
        for consumer in consumers:
            records += consumer.consume(100, 0.02)
    return records


def consume_records(consumer: GroupConsumer, count: int) -> list[KafkaRecord]:
    """Exactly the next `count` records."""
    records: list[KafkaRecord] = []
    deadline = time.monotonic() + WAIT_S
    while len(records) < count:
        assert time.monotonic() < deadline, f"only {len(records)} of {count} records came"
        records += consumer.consume(count - len(records), 0.1)
    return records


def consume_some(consumer: GroupConsumer, count_max: int) -> Sequence[KafkaRecord]:
    """What the first call that returns any returns; one may return early with none when an end was reached."""
    deadline = time.monotonic() + WAIT_S
    while not (records := consumer.consume(count_max, WAIT_S)):
        assert time.monotonic() < deadline, "no record came"
    return records


def consume_nothing(consumer: GroupConsumer, seconds: float = 0.3) -> None:
    """Nothing comes, for as long as it would surely have taken."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert not consumer.consume(100, 0.05)


def producer(kafka: Kafka, name: str | None = None) -> TransactionalProducer:
    """An initialised transactional producer, with an id of its own unless told."""
    made = kafka.transactional_producer(name or f"test-{uuid.uuid4().hex}", transaction_timeout_ms=10_000)
    made.initialise(WAIT_S)
    return made


def send_all(kafka: Kafka, records: Sequence[Outgoing]) -> None:
    """Write plain records and see each confirmed."""
    errors: list[object] = []
    sender = kafka.sender()
    for record in records:
        sender.send(record, errors.append)
    assert sender.flush(WAIT_S)
    sender.close(WAIT_S)
    assert errors == [None] * len(records)


def numbered(topic: str, numbers: Sequence[int], partition: int = 0) -> list[Outgoing]:
    """Records whose values are the numbers."""
    return [Outgoing(topic, partition, b"key", str(number).encode()) for number in numbers]


def values(records: Sequence[KafkaRecord]) -> list[int]:
    """The numbers again."""
    return [int(record.value() or b"-1") for record in records]


def offsets(records: Sequence[KafkaRecord]) -> list[int | None]:
    return [record.offset() for record in records]
