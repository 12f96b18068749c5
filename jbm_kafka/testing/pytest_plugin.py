"""Fixtures for pytest: `jbm_memory`, a world in memory for each test, and `jbm_broker`, a real broker for the run.

pytest imports this in every project of the environment. So it imports nothing else until a fixture is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jbm_kafka.testing.memory_world import MemoryWorld


@pytest.fixture
def jbm_memory() -> Iterator[MemoryWorld]:
    """A Kafka in memory for this test: `.url`, `.factory(...)`, and `.clock`, which stands until `.advance(ms)`."""
    from jbm_kafka.testing.memory_world import MemoryWorld

    with MemoryWorld() as world:
        yield world


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
