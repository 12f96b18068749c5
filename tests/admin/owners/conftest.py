"""One world in memory, whose cluster a test may disturb."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.jms.connection import Connection
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.providers import in_memory


@pytest.fixture
def url(kafka_name: str) -> str:
    return f"memory://{kafka_name}"


@pytest.fixture
def cluster(url: str) -> Iterator[MemoryCluster]:
    world = in_memory.use_world(url.removeprefix("memory://"))
    yield world.cluster
    world.let_go()


@pytest.fixture
def orders(admin: Admin, kafka_name: str) -> Queue:
    admin.create_queue(kafka_name, partitions=1)
    return Queue(kafka_name)


@pytest.fixture
def connection(url: str, kafka_name: str, cluster: MemoryCluster, admin: Admin) -> Iterator[Connection]:
    with ConnectionFactory(url, namespace=kafka_name).create_connection() as made:
        yield made
