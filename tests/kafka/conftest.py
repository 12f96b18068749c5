"""Both Kafkas, so that every test of the contract runs on each."""

from collections.abc import Callable, Iterator

import pytest

from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.ports import Kafka
from tests.kafka.world import MemoryWorld, RealWorld, World
from tests.support.topics import delete_topics_beginning_with


@pytest.fixture(params=["memory", "confluent"])
def world(request: pytest.FixtureRequest, kafka_name: str) -> Iterator[World]:
    """A Kafka with everybody's broker behind it, or none."""
    if request.param == "memory":
        yield MemoryWorld()
        return
    bootstrap: str = request.getfixturevalue("bootstrap")
    yield RealWorld(bootstrap)
    delete_topics_beginning_with(bootstrap, kafka_name)


@pytest.fixture(params=["memory", "confluent"])
def own_world(request: pytest.FixtureRequest) -> World:
    """A Kafka that the test may cut off."""
    if request.param == "memory":
        return MemoryWorld()
    start: Callable[[], LocalBroker] = request.getfixturevalue("dedicated_broker")
    broker = start()
    return RealWorld(broker.bootstrap, broker)


@pytest.fixture
def kafka(world: World) -> Kafka:
    """Clients of the test's own process."""
    return world.kafka()


@pytest.fixture
def topic(kafka: Kafka, kafka_name: str) -> str:
    """A topic of one partition."""
    kafka.admin().create_topic(kafka_name, partitions=1, config={})
    return kafka_name


@pytest.fixture
def wide_topic(kafka: Kafka, kafka_name: str) -> str:
    """A topic of four partitions."""
    kafka.admin().create_topic(f"{kafka_name}-wide", partitions=4, config={})
    return f"{kafka_name}-wide"
