"""Fills a queue's topic with messages as our producer writes them, as fast as Kafka's own producer can."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import client_of
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.jms.messages.message import TextMessage
from jbm_kafka.jms.messages.messages_wire import EncodedMessage, to_record
from jbm_kafka.kafka import ConfluentKafka

HELD_UNIT = "held"
DELIVERY_TIME_HEADER = "JMSDeliveryTime"
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


@dataclass(frozen=True, slots=True)
class Kind:
    """The kinds in which the messages of one load may differ, besides their units."""

    region: str = "EU"
    """The property that selectors choose by."""
    delivery_time_ms: int = 0
    """Wall-clock instant before which nobody may get it; 0 at once."""


def fill(cluster: Cluster, topic: str, units: Iterable[str], *, partitions: int, body_bytes: int) -> int:
    """Send one message for each unit named: a text of that size and four headers. Returns how many, all confirmed."""
    kind = Kind()
    return fill_with(cluster, topic, ((unit, kind) for unit in units), partitions=partitions, body_bytes=body_bytes)


def fill_with(
    cluster: Cluster, topic: str, messages: Iterable[tuple[str | None, Kind]], *, partitions: int, body_bytes: int
) -> int:
    """As `fill`; those without a unit go to the partitions in turn.

    It goes around our producer, whose speed is not the question here; the record is what that would write.
    """
    encoded: dict[Kind, EncodedMessage] = {}
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
    for unit, kind in messages:
        record = encoded.get(kind)
        if record is None:
            record = encoded[kind] = _encode(kind, body_bytes)
        place = sent % partitions if unit is None else places.get(unit)
        if place is None:
            assert unit is not None
            place = places[unit] = partition_for(unit.encode(), partitions)
        while True:
            try:
                # Of the stubs' two kinds of header lists neither is that of both.
                producer.produce(topic, record.value, unit, place, headers=list(record.headers), on_delivery=report)
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


def _encode(kind: Kind, body_bytes: int) -> EncodedMessage:
    message = TextMessage("x" * body_bytes)
    message._known_id = "ID:0123456789abcdef-00000001"
    encoded = to_record(message, properties={"region": kind.region, "quantity": 7})
    assert len(encoded.headers) == 4, encoded.headers
    if kind.delivery_time_ms:
        encoded.headers.append((DELIVERY_TIME_HEADER, b"%d" % kind.delivery_time_ms))
    return encoded
