"""What stays on the disk of a broker when many messages go by, and what it costs (LOG-4, LOG-8).

python -m tests.house.log_sizes --messages 2000000

One queue whose settled messages are deleted, with 1 % nacks and a message that is delayed by a week; in turns with it
one with truncate="never"; beside them a topic whose durable subscription stays behind. Sizes are those of the `.log`
files in a broker's own folder, which is what its describe_log_dirs answers; deleted files that wait for their removal
are not counted there either. With fewer messages segments are smaller, down to Kafka's least of 1 MB.
"""

from __future__ import annotations

import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import click

from jbm_kafka import (
    AcknowledgeMode,
    AddressSettings,
    Connection,
    ConnectionFactory,
    DeliveryMode,
    MessageConsumer,
    Queue,
    Topic,
)
from jbm_kafka.admin import Admin
from jbm_kafka.devbroker.broker import LocalBroker
from jbm_kafka.kafka import ConfluentKafka
from tests.support.waiting import wait_until

MB = 2**20
SLICES, PARTITIONS, BODY_BYTES = 20, 4, 100
SEGMENT_BYTES, MARGIN_BYTES, SEGMENT_BYTES_MIN = 16 * MB, 64 * MB, MB
NACKED_EACH, WEEK_MS = 100, 7 * 24 * 3_600_000
BEHIND = 20_000
RECOVERY_S_MAX, RATIO_MIN = 3.0, 0.95
SHRINK_S, WAIT_S = 120.0, 60.0
SETTLED, KEPT, NEWS = Queue("settled"), Queue("kept"), Topic("news")


@dataclass(slots=True)
class Measure:
    """What one run found."""

    messages: int
    segment_bytes: int = 0
    seconds: dict[str, list[float]] = field(default_factory=lambda: {SETTLED.name: [], KEPT.name: []})
    largest: dict[str, int] = field(default_factory=dict)
    """Bytes at the most, by topic."""
    last: dict[str, int] = field(default_factory=dict)
    changelog_bytes: int = 0
    """Of the first queue, in the end: what a recovery reads."""
    recovery_s: float = 0.0
    keepers: list[str] = field(default_factory=list)
    kept_records: int = 0
    """Of the first queue, in the end: what is not deleted."""

    @property
    def ratio(self) -> float:
        """How fast messages go by that are deleted, beside those that are not: the median of neighbours in time."""
        pairs = zip(self.seconds[SETTLED.name], self.seconds[KEPT.name], strict=True)
        return statistics.median(kept / settled for settled, kept in pairs)

    def limit(self) -> int:
        """Bytes of one topic in the end."""
        return PARTITIONS * 2 * self.segment_bytes + MARGIN_BYTES * self.segment_bytes // SEGMENT_BYTES

    def broken(self) -> Iterator[str]:
        """What does not hold."""
        for name in (SETTLED.name, NEWS.name):
            if self.last[name] > self.limit():
                yield f"{name} has {self.last[name]} bytes in the end, more than {self.limit()}"
            if self.largest[name] > PARTITIONS * 2 * self.segment_bytes + MARGIN_BYTES:
                yield f"{name} had {self.largest[name]} bytes"
        if self.recovery_s > RECOVERY_S_MAX:
            yield f"a recovery without local state took {self.recovery_s:.1f} s, more than {RECOVERY_S_MAX:g}"
        if self.ratio < RATIO_MIN:
            yield f"with deletion it is {self.ratio:.2f} as fast as without, less than {RATIO_MIN:g}"


class Run:
    """The broker, and the applications."""

    def __init__(self, bootstrap: str, data: Path, messages: int) -> None:
        self._bootstrap = bootstrap
        self._data = data
        self.found = Measure(messages)
        self._sent = self._read = 0
        """Of the topic."""

    def measure(self) -> Measure:
        """Everything."""
        found = self.found
        found.segment_bytes = max(SEGMENT_BYTES * found.messages // 2_000_000, SEGMENT_BYTES_MIN)
        self._make()
        with ExitStack() as stack:
            connection = stack.enter_context(self._factory("work").create_connection())
            consumers = {queue: self._consumer(connection, queue) for queue in (SETTLED, KEPT)}
            reader = connection.create_session(AcknowledgeMode.CLIENT).create_durable_consumer(NEWS, "ledger")
            with connection.create_session() as session:
                session.create_producer(SETTLED).send(b"in a week", delivery_delay_ms=WEEK_MS)
            for number in range(SLICES):
                for queue in (SETTLED, KEPT) if number % 2 else (KEPT, SETTLED):
                    found.seconds[queue.name].append(self._slice(connection, queue, consumers[queue]))
                self._news(connection, reader)
                self._note_sizes()
            self._wait_until_small()
        found.changelog_bytes = self._size_of(SETTLED.changelog_topic(""))
        self._recover()
        return found

    def _factory(self, state: str) -> ConnectionFactory:
        rules = {KEPT.name: AddressSettings(truncate="never"), "#": AddressSettings(partitions=PARTITIONS)}
        where = self._data.parent / f"state-{state}"
        return ConnectionFactory(self._bootstrap, state_dir=where, address_settings=rules, client_id="measure")

    def _make(self) -> None:
        with Admin(self._bootstrap) as admin:
            for queue in (SETTLED, KEPT):
                admin.create_queue(queue.name, partitions=PARTITIONS)
            admin.create_topic(NEWS.name, partitions=PARTITIONS)
        kafka = ConfluentKafka(self._bootstrap).admin()
        for name in (SETTLED.name, KEPT.name, NEWS.name):
            kafka.alter_config(name, {"segment.bytes": str(self.found.segment_bytes)})
        kafka.close()

    def _consumer(self, connection: Connection, queue: Queue) -> MessageConsumer:
        return connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(queue)

    def _slice(self, connection: Connection, queue: Queue, consumer: MessageConsumer) -> float:
        count = self.found.messages // SLICES
        begin = time.perf_counter()
        with connection.create_session() as session:
            producer = session.create_producer(queue)
            producer.delivery_mode = DeliveryMode.PERSISTENT_GROUPACK
            for _ in range(count):
                producer.send(secrets.token_bytes(BODY_BYTES))
            producer.flush(WAIT_S)
        settled = received = 0
        while settled < count:
            message = consumer.receive(timeout=WAIT_S)
            assert message is not None, f"{queue}: {settled} of {count} came"
            received += 1
            if received % NACKED_EACH == 0 and message.delivery_count == 1:
                message.nack()
            else:
                message.acknowledge()
                settled += 1
        return time.perf_counter() - begin

    def _news(self, connection: Connection, reader: MessageConsumer) -> None:
        """A quarter as many; read but for the last."""
        with connection.create_session() as session:
            producer = session.create_producer(NEWS)
            producer.delivery_mode = DeliveryMode.PERSISTENT_GROUPACK
            for _ in range(self.found.messages // SLICES // 4):
                producer.send(secrets.token_bytes(BODY_BYTES))
                self._sent += 1
            producer.flush(WAIT_S)
        behind = min(BEHIND, self.found.messages // 20)
        message = None
        while self._sent - self._read > behind:
            message = reader.receive(timeout=WAIT_S)
            assert message is not None, f"{NEWS}: {self._read} of {self._sent} came"
            self._read += 1
            if self._read % 100 == 0:
                message.acknowledge()

    def _note_sizes(self) -> None:
        found = self.found
        for name in (SETTLED.name, KEPT.name, NEWS.name):
            found.last[name] = self._size_of(name)
            found.largest[name] = max(found.largest.get(name, 0), found.last[name])

    def _size_of(self, topic: str) -> int:
        return sum(file.stat().st_size for file in self._data.rglob(f"{topic}-[0-9]/*.log"))

    def _wait_until_small(self) -> None:
        """Processes look every 20 s, and brokers free what was deleted a moment later."""
        with suppress(AssertionError):  # then what is found says so
            wait_until(self._is_small, about="the logs", timeout_s=SHRINK_S)
        with Admin(self._bootstrap) as admin:
            for destination in (SETTLED, NEWS):
                log = admin.truncate(destination, dry_run=True)
                if destination is SETTLED:
                    self.found.kept_records = log.kept + log.deletable
                self.found.keepers += [f"{destination}: {each.records} for {each.name}" for each in log.keepers]

    def _is_small(self) -> bool:
        self._note_sizes()
        with Admin(self._bootstrap) as admin:
            log = admin.truncate(SETTLED, dry_run=True)
        is_cut = log.kept + log.deletable <= self.found.messages // 10
        return is_cut and max(self.found.last[SETTLED.name], self.found.last[NEWS.name]) <= self.found.limit()

    def _recover(self) -> None:
        with self._factory("sender").create_context() as sender:
            sender.create_producer().send(SETTLED, b"after the recovery")
        begin = time.perf_counter()
        with self._factory("nothing").create_connection() as connection:
            message = self._consumer(connection, SETTLED).receive(timeout=WAIT_S)
            self.found.recovery_s = time.perf_counter() - begin
            assert message is not None
            message.acknowledge()


@contextmanager
def own_broker() -> Iterator[tuple[str, Path]]:
    """A broker with a folder of its own; its address and that."""
    with tempfile.TemporaryDirectory(prefix="jbm-sizes-") as folder:
        data = Path(folder) / "broker"
        with LocalBroker(data, heap_mb=1_024) as broker:
            yield str(broker.bootstrap), data


@click.command()
@click.option("--messages", type=click.IntRange(20_000), default=2_000_000, show_default=True)
def main(messages: int) -> None:
    """Measure; exit 1 where something does not hold."""
    with own_broker() as (bootstrap, data):
        found = Run(bootstrap, data, messages).measure()
    click.echo(f"{messages} messages of {BODY_BYTES} bytes, segments of {found.segment_bytes} bytes")
    for name, most in found.largest.items():
        click.echo(f"{name}: {found.last[name] / MB:.1f} MB in the end, {most / MB:.1f} at the most")
    click.echo(f"limit of a topic in the end: {found.limit() / MB:.1f} MB; what is kept: {'; '.join(found.keepers)}")
    read = f"{found.changelog_bytes / MB:.1f} MB of changelog"
    click.echo(f"recovery without local state: {found.recovery_s:.2f} s, {read}; speed beside never: {found.ratio:.3f}")
    broken = list(found.broken())
    for each in broken:
        click.echo(f"does not hold: {each}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
