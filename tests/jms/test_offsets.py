"""The queue's consumer group as Kafka's own tools see it, and what they do to it."""

from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition

from jbm_kafka import AcknowledgeMode, Connection, Queue
from tests.jms.conftest import make_factory
from tests.jms.support import NOTHING_S, bodies, eventually, receive_all, send
from tests.support.chaos_topics import committed_offsets, end_offsets, group_of
from tests.support.topics import ADMIN_TIMEOUT_S, admin_client

UNITS = 8
"""Some in each partition."""
_HAS_MEMBERS = (KafkaError.NON_EMPTY_GROUP, KafkaError.UNKNOWN_MEMBER_ID)


@pytest.mark.parametrize(("to", "expected"), [(0, ["m0", "m1", "m2", "m3"]), (1, ["m1", "m2", "m3"]), (3, ["m3"])])
def test_the_committed_offset_is_the_lowest_unsettled_message_and_a_reset_is_honoured(
    bootstrap: str, orders: Queue, tmp_path: Path, to: int, expected: list[str]
) -> None:
    """Of LOG-2: back means deliver again, with counts that restart; forward means skip."""
    queue = Queue(f"{orders.name}.one")
    factory = make_factory(bootstrap, state_dir=str(tmp_path / "state"))
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        send(session, queue, "m0", "m1", "m2", "m3")
        got = receive_all(session.create_consumer(queue), 4)
        for number in (0, 1, 3):
            got[number].acknowledge()
        eventually(lambda: committed_offsets(bootstrap, queue.name) == {0: 2}, "the offset is not that of m2")
    reset(bootstrap, queue, to)
    with factory.create_connection() as connection, connection.create_session() as session:
        again = receive_all(session.create_consumer(queue), len(expected))
        assert [(m.body, m.delivery_count, m.redelivered) for m in again] == [(body, 1, False) for body in expected]


def test_the_lag_is_0_where_all_is_settled_whatever_was_aborted_and_stays_so_after_a_restart(
    bootstrap: str, orders: Queue, tmp_path: Path
) -> None:
    """Of LOG-2: it stayed at 1 or more behind what a consumer is never given; what comes behind that comes once."""
    name, factory = orders.name, make_factory(bootstrap, state_dir=str(tmp_path / "state"))

    def has_no_lag() -> bool:
        return committed_offsets(bootstrap, name) == end_offsets(bootstrap, name)

    def exchange(connection: Connection, number: int) -> None:
        """Messages of a transaction in each partition, all of which are received."""
        sender = connection.create_session(AcknowledgeMode.TRANSACTED)
        receiver = connection.create_session(AcknowledgeMode.AUTO)
        consumer = receiver.create_consumer(orders)
        sent = [f"{number} of {unit}" for unit in range(UNITS)]
        for unit, body in enumerate(sent):
            send(sender, orders, body, unit=str(unit))
        sender.commit()
        assert sorted(map(str, bodies(receive_all(consumer, UNITS)))) == sent
        assert consumer.receive(NOTHING_S) is None
        eventually(has_no_lag, "the group has a lag")
        receiver.close()

    with factory.create_connection() as connection:
        exchange(connection, 1)
        abort_in_each_partition(bootstrap, name)
        exchange(connection, 2)
    abort_in_each_partition(bootstrap, name)
    with factory.create_connection() as connection:
        consumer = connection.create_session(AcknowledgeMode.AUTO).create_consumer(orders)
        assert consumer.receive(NOTHING_S) is None
        eventually(has_no_lag, "the group has a lag after a restart")
    with factory.create_connection() as connection:
        assert has_no_lag()
        exchange(connection, 3)
    assert len(end_offsets(bootstrap, name)) == 2


def abort_in_each_partition(bootstrap: str, name: str) -> None:
    """As any transactional producer of Kafka does it."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"aborts-{name}"})
    producer.init_transactions()
    producer.begin_transaction()
    for partition in end_offsets(bootstrap, name):
        producer.produce(name, b"aborted", partition=partition)
    producer.flush()
    producer.abort_transaction()


@pytest.mark.thorough
def test_a_reset_does_not_let_a_repeated_send_through(bootstrap: str, orders: Queue) -> None:
    """Of SEND-8 and LOG-2: forward past what is left, what was received before is not received twice."""
    queue = Queue(f"{orders.name}.one")
    factory = make_factory(bootstrap)
    with factory.create_connection() as connection, connection.create_session() as session:
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        for number in range(4):
            producer.send(f"m{number}", duplicate_id=f"d{number}")
        receive_all(consumer, 2)
    eventually(lambda: committed_offsets(bootstrap, queue.name) == {0: 2}, "the offset is not that of m2")
    reset(bootstrap, queue, 3)
    with factory.create_connection() as connection, connection.create_session() as session:
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        for number in (0, 1, 4):
            producer.send(f"again {number}", duplicate_id=f"d{number}")
        assert bodies(receive_all(consumer, 2)) == ["m3", "again 4"]
        assert consumer.receive(NOTHING_S) is None


def reset(bootstrap: str, queue: Queue, position: int) -> None:
    """As kafka-consumer-groups --reset-offsets does it; only a group without members can be, and the last one may be
    leaving still."""
    wanted = ConsumerGroupTopicPartitions(group_of(queue.name), [TopicPartition(queue.name, 0, position)])
    admin = admin_client(bootstrap)

    def was_done() -> bool:
        [future] = admin.alter_consumer_group_offsets([wanted]).values()
        [done] = future.result(ADMIN_TIMEOUT_S).topic_partitions
        assert done.error is None or done.error.code() in _HAS_MEMBERS, done.error
        return done.error is None

    eventually(was_done, "the group has members still")
