"""One Spark session for all of these tests, and topics on the real broker."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import TopicMetadata  # type: ignore[attr-defined]  # imported there, not exported
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import SparkSession

from jbm_spark.session import build_session
from jbm_spark.submit import write_packages
from tests.spark.records import Record
from tests.support.topics import admin_client, create_topic, delete_topics
from tests.support.waiting import wait_until

PATIENCE_S = 120.0
"""For what takes a moment, on a machine with much else to do."""
IN_SHORT = {
    "test_spark_reads_every_record_as_the_codec_does",
    "test_a_unit_is_written_in_the_order_asked_for",
    "test_a_query_goes_on_where_it_was",
}
"""What `make test` plays of the tests that use this process's Spark: the codec's, one batch and one stream."""


@pytest.hookimpl(tryfirst=True)  # before those that `-m` leaves out are taken away
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves the socket of every collect() to the garbage collector; elsewhere that stays an error.

    The first test waits for a broker and for Spark besides, which took 130 s on a machine with much else to do.
    """
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            assert isinstance(item, pytest.Function)
            if "spark" in item.fixturenames and item.originalname not in IN_SHORT:
                item.add_marker(pytest.mark.thorough)
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Its queries are small, and many: Spark interprets them, for compiling them takes a quarter of the tests' time.

    Jobs that tests run as processes of their own compile theirs.
    """
    session = build_session("tests", starts_fast=True)
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Our packages and those they need, as they are shipped to workers; made once, for that takes a while."""
    return write_packages(tmp_path_factory.mktemp("packages") / "new" / "folder")


@dataclass(frozen=True, slots=True)
class Topics:
    """Makes topics of their own for a test, and writes records to them as any producer may."""

    bootstrap: str

    def create(self, partitions: int = 1) -> str:
        """Name of a new, empty topic."""
        # The records have fixed dates, long ago: with Kafka's default retention they would be deleted at once.
        config = {"retention.ms": "-1"}
        return create_topic(self.bootstrap, f"spark-{uuid4().hex[:12]}", partitions=partitions, config=config)

    def write(self, topic: str, records: Sequence[Record], *, transactional_id: str | None = None) -> Producer:
        """Writes and flushes; with a transactional id the transaction is open when this returns."""
        settings: dict[str, str | int] = {
            "bootstrap.servers": self.bootstrap,
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "queue.buffering.max.messages": 1_000_000,
        }
        if transactional_id is not None:
            settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": 300_000}
        producer = Producer(settings)
        if transactional_id is not None:
            producer.init_transactions()
            producer.begin_transaction()
        for record in records:
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=[(name, value) for name, value in record.headers],
                timestamp=record.timestamp_ms,
            )
        assert producer.flush(PATIENCE_S) == 0
        return producer

    def grow(self, topic: str, partitions: int) -> None:
        """As Kafka's tools do it, behind our back."""
        admin = admin_client(self.bootstrap)
        for future in admin.create_partitions([NewPartitions(topic, partitions)]).values():
            future.result(PATIENCE_S)
        # The broker that is asked next takes the change a moment later than the one that has confirmed it.
        wait_until(lambda: len(self._known(topic).partitions) == partitions,
                   about=f"{partitions} partitions of {topic}", timeout_s=PATIENCE_S)  # fmt: skip

    def delete(self, topic: str) -> None:
        """Returns when the broker does not know it any more."""
        delete_topics(self.bootstrap, [topic])
        admin = admin_client(self.bootstrap)
        wait_until(lambda: topic not in admin.list_topics(timeout=PATIENCE_S).topics,
                   about=f"{topic} to be gone", timeout_s=PATIENCE_S)  # fmt: skip

    def _known(self, topic: str) -> TopicMetadata:
        return admin_client(self.bootstrap).list_topics(topic, timeout=PATIENCE_S).topics[topic]

    def make_anew(self, topic: str) -> None:
        """Delete it, with all that is in it, and create it with one partition."""
        self.delete(topic)
        create_topic(self.bootstrap, topic, config={"retention.ms": "-1"})

    def count(self, topic: str) -> int:
        """Offsets that the topic has now."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reads-only"})
        try:
            partitions = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
            ends = [consumer.get_watermark_offsets(TopicPartition(topic, each), PATIENCE_S) for each in partitions]
            return sum(high - low for low, high in ends)
        finally:
            consumer.close()

    def read(self, topic: str) -> list[Message]:
        """Every committed record that the topic holds now, partition by partition, in the order of the log."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "reads-only", "enable.partition.eof": True,
                    "isolation.level": "read_committed", "enable.auto.commit": False}  # fmt: skip
        consumer = Consumer(settings)
        try:
            partitions = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
            consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
            found: list[Message] = []
            at_end: set[int | None] = set()
            while len(at_end) < len(partitions):
                message = consumer.poll(PATIENCE_S)
                assert message is not None, f"{topic}: its end was not reached"
                error = message.error()
                if error is None:
                    found.append(message)
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    at_end.add(message.partition())
        finally:
            consumer.close()
        return sorted(found, key=lambda each: (each.partition(), each.offset()))


@pytest.fixture(scope="session")
def topics(bootstrap: str) -> Topics:
    return Topics(bootstrap)


@pytest.fixture(scope="session")
def written(topics: Topics) -> Callable[..., str]:
    """Calls with records give the name of a new one-partition topic that holds them."""

    def write(*records: Record) -> str:
        topic = topics.create()
        topics.write(topic, records)
        return topic

    return write
