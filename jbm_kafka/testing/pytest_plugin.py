"""Fixtures for pytest: `jbm_memory`, a world in memory for each test, `jbm_worker`, which starts a worker there, and
`jbm_broker`, a real broker for the run.

pytest imports this in every project of the environment. So it imports nothing else until a fixture is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jbm_kafka.testing.memory_world import MemoryWorld
    from jbm_kafka.worker.message_worker import Worker


@pytest.fixture
def jbm_memory() -> Iterator[MemoryWorld]:
    """A Kafka in memory for this test: `.url`, `.factory(...)`, and `.clock`, which stands until `.advance(ms)`."""
    from jbm_kafka.testing.memory_world import MemoryWorld

    with MemoryWorld() as world:
        yield world


@pytest.fixture
def jbm_worker(jbm_memory: MemoryWorld) -> Callable[[Worker], Worker]:
    """`jbm_worker(worker)` starts the application's worker in this test's `jbm_memory`, and the test's end stops it."""
    return jbm_memory.start


@pytest.fixture(scope="session")
def jbm_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of a real Kafka for the whole run: as JBM_TEST_BROKER says, else in a container, else local."""
    from jbm_kafka.testing.real_broker import BrokerUnavailable, run_broker

    failure = ""
    try:
        with run_broker(tmp_path_factory.mktemp("jbm-broker")) as bootstrap:
            yield bootstrap
    except BrokerUnavailable as error:
        failure = str(error)
    if failure:  # not above: pytest would print what it was raised from, which says the same
        pytest.fail(failure, pytrace=False)
