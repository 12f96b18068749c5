"""Administration of a Kafka and of a world in memory: a test that takes `url` or `admin` runs on both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jbm_kafka.admin import Admin
from jbm_kafka.admin.cluster.administered import administered
from jbm_kafka.ports import KafkaAdmin
from tests.admin.moving_place import Place


@pytest.fixture(params=["kafka", "memory"])
def url(request: pytest.FixtureRequest, kafka_name: str) -> str:
    return f"memory://{kafka_name}" if request.param == "memory" else str(request.getfixturevalue("bootstrap"))


@pytest.fixture
def admin(url: str, kafka_name: str) -> Iterator[Admin]:
    with Admin(url, namespace=kafka_name) as made:
        yield made


@pytest.fixture
def cluster(url: str, admin: Admin) -> Iterator[KafkaAdmin]:
    """What Kafka itself says; while there is an `admin` a world in memory stays."""
    reached = administered(url, None, 20)
    asked = reached.kafka.admin()
    yield asked
    asked.close()
    reached.let_go()


@pytest.fixture
def here() -> Iterator[Place]:
    """Where destinations are exported or copied from."""
    place = Place()
    yield place
    place.close()


@pytest.fixture
def there() -> Iterator[Place]:
    place = Place()
    place.admin.create_queue("another")  # topics are numbered there: what is made next has another id than here
    yield place
    place.close()
