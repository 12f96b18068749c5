"""A client that sends again after a lost answer, without Kafka's idempotence: its record stands there twice."""

from collections.abc import Callable

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from bookstore.store_queues import Store
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import client_of
from jbm_kafka.codec.events import decode_events
from jbm_kafka.core.destination import with_namespace

TIMEOUT_S = 30.0


def acknowledge_twice(cluster: Cluster, store: Store) -> int:
    """Repeat the first record that tells of acknowledged big orders: how many offsets it covers."""
    group = store.big_orders.group_id(cluster.namespace).encode()

    def is_meant(record: Message) -> bool:
        return record.key() == group and bool(decode_events(record.value() or b"").acknowledged)

    record = _write_again(cluster, with_namespace("jbm.events", cluster.namespace), is_meant)
    return sum(each.last - each.first + 1 for each in decode_events(record.value() or b"").acknowledged)


def give_up_twice(cluster: Cluster, store: Store) -> None:
    """Repeat the first dead letter."""
    _write_again(cluster, store.dead_letters.kafka_topic(cluster.namespace), lambda record: True)


def _write_again(cluster: Cluster, topic: str, is_meant: Callable[[Message], bool]) -> Message:
    record = _first(cluster, topic, is_meant)
    producer = Producer(client_of(cluster))
    producer.produce(topic, record.value(), record.key(), record.partition() or 0, headers=record.headers() or [])
    if producer.flush(TIMEOUT_S):
        raise TimeoutError(f"{topic}: Kafka did not confirm the record in {TIMEOUT_S:g} s")
    return record


def _first(cluster: Cluster, topic: str, is_meant: Callable[[Message], bool]) -> Message:
    consumer = Consumer(client_of(cluster) | {"group.id": "bookstore.faulty-client", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        while (record := consumer.poll(TIMEOUT_S)) is not None:
            if record.error() is None and is_meant(record):
                return record
    finally:
        consumer.close()
    raise TimeoutError(f"{topic}: the record that is to stand there twice did not come in {TIMEOUT_S:g} s")
