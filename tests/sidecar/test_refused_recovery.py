"""What is recorded of a queue may not be read: whoever receives is told at once, with the right that is missing."""

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.errors import JMSSecurityError
from jbm_kafka.ports import AccessRefused
from jbm_kafka.providers.in_memory import use_world


def test_a_worker_that_may_not_read_the_changelog_does_not_try_for_ever(kafka_name: str) -> None:
    """It logged a line twice a second, and each consumer was made after 90 s without a partition."""
    world = use_world(kafka_name)
    factory, orders = ConnectionFactory(f"memory://{kafka_name}"), Queue("orders")
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        session.create_producer(orders).send("first")
        message = session.create_consumer(orders).receive(timeout=20)
        assert message is not None
        message.acknowledge()

    def refused(topic: str, partition: int, offset: int) -> bool:
        if topic != orders.changelog_topic():
            return False
        raise AccessRefused(f"read {topic}[{partition}]: no access rule of Kafka's allows Read on topic {topic}")

    world.cluster.faults.damaged = refused
    with (
        factory.create_connection() as connection,
        connection.create_session() as session,
        pytest.raises(JMSSecurityError, match=r"Read on topic orders\.jbm-changelog"),
    ):
        session.create_consumer(orders).receive(timeout=5)
    world.let_go()
