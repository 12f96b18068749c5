"""Partitions are added to a topic in use: what waits in any of its subscriptions keeps its partition (UNIT-11)."""

from __future__ import annotations

from collections import defaultdict

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Topic
from jbm_kafka.admin import Admin, PathsEnded
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.jms.consumer import MessageConsumer
from tests.jms.support import eventually, receive

WAIT_S = 6.0
"""Processes that are well read the registry every second; nothing here is ever longer on its way."""
UNITS = [f"unit-{n}" for n in range(12)]
MOVING = [unit for unit in UNITS if partition_for(unit.encode(), 5) != partition_for(unit.encode(), 2)]


@pytest.fixture
def prices(admin: Admin, kafka_name: str) -> Topic:
    admin.create_topic(kafka_name, partitions=2)
    return Topic(kafka_name)


@pytest.fixture
def factory(url: str, kafka_name: str) -> ConnectionFactory:
    return ConnectionFactory(url, namespace=kafka_name)


def drained(consumer: MessageConsumer, count: int) -> dict[str, list[tuple[int, object]]]:
    """So many messages, by unit: where each was and what it says; each unit in the order of receiving."""
    found: dict[str, list[tuple[int, object]]] = defaultdict(list)
    for _ in range(count):
        message = receive(consumer)
        assert message.kafka is not None
        found[str(message.unit_of_order)].append((message.kafka.partition, message.body))
        message.acknowledge()
    return found


def held(admin: Admin, topic: Topic, name: str) -> int | None:
    return admin.counts(topic, subscription=name).held


def test_units_that_wait_in_any_subscription_keep_their_partition(
    admin: Admin, factory: ConnectionFactory, prices: Topic
) -> None:
    """Of UNIT-11, UNIT-12: one has settled everything, one that nobody receives from half, one comes meanwhile."""
    waiting, done = MOVING[: len(MOVING) // 2], MOVING[len(MOVING) // 2 :]
    assert waiting, MOVING
    assert done, MOVING
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        producer = session.create_producer(prices)
        eager = session.create_shared_durable_consumer(prices, "eager")
        session.create_shared_durable_consumer(prices, "slow").close()
        for unit in UNITS:
            producer.send("a", unit_of_order=unit)
        drained(eager, len(UNITS))
        named = ", ".join(f"'{unit}'" for unit in waiting)
        eventually(lambda: held(admin, prices, "eager") == 0, "all of it is settled there")
        admin.remove(prices, subscription="slow", selector=f"JMSXGroupID NOT IN ({named})")
        assert admin.admit_partitions(prices.name, partitions=5, wait_s=WAIT_S) == (2, 5)
        assert set(admin.unit_paths(prices)) == set(waiting)
        for unit in MOVING:
            producer.send("b", unit_of_order=unit)
        homes = {unit: partition_for(unit.encode(), 2 if unit in waiting else 5) for unit in MOVING}
        assert drained(eager, len(MOVING)) == {unit: [(home, "b")] for unit, home in homes.items()}
        slow = session.create_shared_durable_consumer(prices, "slow")
        assert drained(slow, len(MOVING) + len(waiting)) == {
            unit: [(home, "a"), (home, "b")] if unit in waiting else [(home, "b")] for unit, home in homes.items()
        }


def test_paths_of_a_topic_end_when_no_subscription_holds_anything_of_the_unit(
    admin: Admin, factory: ConnectionFactory, prices: Topic
) -> None:
    """Of UNIT-11."""
    unit = MOVING[0]
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        producer = session.create_producer(prices)
        eager = session.create_shared_durable_consumer(prices, "eager")
        session.create_shared_durable_consumer(prices, "slow").close()
        producer.send("a", unit_of_order=unit)
        drained(eager, 1)
        assert admin.admit_partitions(prices, partitions=5, wait_s=WAIT_S) == (2, 5)
        eventually(lambda: held(admin, prices, "eager") == 0, "all of it is settled there")
        assert admin.end_paths(prices, wait_s=0) == PathsEnded(0, 1)
        admin.remove(prices, subscription="slow", everything=True)
        assert admin.end_paths(prices, wait_s=WAIT_S) == PathsEnded(1, 0)
        producer.send("b", unit_of_order=unit)
        assert drained(eager, 1) == {unit: [(partition_for(unit.encode(), 5), "b")]}
