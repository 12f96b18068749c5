"""The broker that all tests share, in a container or not, can do what the project needs of it."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import KafkaException

from jbm_kafka.devbroker.asking_again import wait_until
from tests.conftest import MakeTopic
from tests.support.topics import create_topic, delete_topics_beginning_with

WAIT_S = 20.0
QUIET = {"log_level": 0}


def test_transactions_commit_and_abort(bootstrap: str, kafka_name: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": kafka_name, **QUIET})
    producer.init_transactions(WAIT_S)
    for value, is_kept in ((b"aborted", False), (b"kept", True)):
        producer.begin_transaction()
        producer.produce(topic, value)
        if is_kept:
            producer.commit_transaction(WAIT_S)
        else:
            assert producer.flush(WAIT_S) == 0
            producer.abort_transaction(WAIT_S)
    assert _read(bootstrap, kafka_name, topic) == [b"kept"]


def test_offsets_go_with_a_transaction(bootstrap: str, kafka_name: str, make_topic: MakeTopic) -> None:
    topic = make_topic()
    group = {"bootstrap.servers": bootstrap, "group.id": kafka_name, "session.timeout.ms": 1500, **QUIET}
    consumer = Consumer(group)
    consumer.subscribe([topic])
    try:
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": kafka_name, **QUIET})
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        position = [TopicPartition(topic, 0, 7, metadata="note")]
        # Only a member of the group may commit for it, and joining happens inside consume().
        assert wait_until(lambda: bool(consumer.consume(1, timeout=0.2) or consumer.assignment()), timeout_s=WAIT_S)
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), WAIT_S)
        producer.commit_transaction(WAIT_S)
        (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=WAIT_S)
    finally:
        consumer.close()
    assert committed.offset == 7


def test_a_missing_topic_is_not_made_by_asking_for_it(bootstrap: str, kafka_name: str) -> None:
    topics = AdminClient({"bootstrap.servers": bootstrap, **QUIET}).list_topics(kafka_name, timeout=WAIT_S).topics
    assert topics[kafka_name].error is not None


def test_topics_of_a_test_go_with_it_and_no_others(bootstrap: str, kafka_name: str) -> None:
    create_topic(bootstrap, f"{kafka_name}-a", partitions=3, config={"cleanup.policy": "compact"})
    create_topic(bootstrap, f"other-{kafka_name}")
    with pytest.raises(KafkaException, match="already exists"):
        create_topic(bootstrap, f"{kafka_name}-a")
    delete_topics_beginning_with(bootstrap, kafka_name)
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})

    def left() -> set[str]:
        return {name for name in admin.list_topics(timeout=WAIT_S).topics if kafka_name in name}

    # The broker that has confirmed it tells of it a moment later.
    assert wait_until(lambda: left() == {f"other-{kafka_name}"}, timeout_s=WAIT_S), left()
    delete_topics_beginning_with(bootstrap, f"other-{kafka_name}")


def _read(bootstrap: str, group: str, topic: str) -> list[bytes | None]:
    """Everything a read_committed reader sees, up to the end."""
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            **QUIET,
        }
    )
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes | None] = []
        while (record := reader.poll(WAIT_S)) is not None and record.error() is None:
            values.append(record.value())
        assert record is not None, "the end was not reached in time"
        return values
    finally:
        reader.close()
