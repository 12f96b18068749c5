"""One Spark session for all of these tests, and topics on the real broker."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from jbm_spark.session import build_session
from tests.spark.records import Record
from tests.support.topics import create_topic


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """PySpark leaves the socket of every collect() to the garbage collector; elsewhere that stays an error."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = build_session("tests", starts_fast=True)
    yield session
    session.stop()


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
        settings: dict[str, str | int] = {"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random"}
        if transactional_id is not None:
            settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": 10_000}
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
        assert producer.flush(30) == 0
        return producer


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
