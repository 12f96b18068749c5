"""Fills a queue's topic with messages as our producer writes them, as fast as Kafka's own producer can."""

from __future__ import annotations

from collections.abc import Iterator

from confluent_kafka import KafkaError, Message, Producer

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import client_of
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.jms.messages import TextMessage
from jbm_kafka.jms.messages_wire import to_record
from jbm_kafka.kafka import ConfluentKafka

HELD_UNIT = "held"
FLUSH_TIMEOUT_S = 120.0
ROOM_S = 0.1


def create_topic(cluster: Cluster, topic: str, *, partitions: int) -> None:
    """A topic such as a queue has."""
    admin = ConfluentKafka(cluster.bootstrap, cluster.kafka).admin()
    try:
        admin.create_topic(topic, partitions=partitions, config={"cleanup.policy": "delete", "retention.ms": "-1"})
    finally:
        admin.close()


def spread_units(count: int, *, units: int) -> Iterator[str]:
    """The units of `count` messages, in turn."""
    return (f"unit-{number % units}" for number in range(count))


def fill(cluster: Cluster, topic: str, units: Iterator[str], *, partitions: int, body_bytes: int) -> int:
    """Send one message for each unit named: a text of that size and four headers. Returns how many, all confirmed.

    It goes around our producer, whose speed is not the question here; the record is what that would write.
    """
    message = TextMessage("x" * body_bytes)
    message.message_id = "ID:0123456789abcdef-00000001"
    encoded = to_record(message, properties={"region": "EU", "quantity": 7})
    headers: list[tuple[str, str | bytes | None]] = [*encoded.headers]
    assert len(headers) == 4, headers
    producer = Producer(
        {
            **client_of(cluster),
            "enable.idempotence": True,
            "compression.type": "lz4",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 500_000,
        }
    )
    failures: list[KafkaError] = []

    def report(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    places: dict[str, int] = {}
    sent = 0
    for unit in units:
        place = places.get(unit)
        if place is None:
            place = places[unit] = partition_for(unit.encode(), partitions)
        while True:
            try:
                producer.produce(topic, encoded.value, unit, place, headers=headers, on_delivery=report)
                break
            except BufferError:
                producer.poll(ROOM_S)
        sent += 1
        if not sent % 10_000:
            producer.poll(0)
    left = producer.flush(FLUSH_TIMEOUT_S)
    if left or failures:
        raise OSError(f"filling {topic}: {left} messages unconfirmed, {len(failures)} refused {failures[:1]}")
    return sent
