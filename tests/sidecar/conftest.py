"""Processes over one Kafka in memory, which end with their test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jbm_kafka.memory.memory_kafka import MemoryCluster
from tests.sidecar.processes import Processes
from tests.sidecar.stepped import Start, SteppedSidecar
from tests.support.manual_clock import ManualClock


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(ManualClock(), waits=False)


@pytest.fixture
def partitions() -> int:
    """Those of the queue; a file that needs more has a fixture of this name."""
    return 1


@pytest.fixture
def start(cluster: MemoryCluster, partitions: int) -> Iterator[Start]:
    """Makes processes that end with the test."""
    started: list[SteppedSidecar] = []

    def make(name: str, **options: object) -> SteppedSidecar:
        started.append(SteppedSidecar(name, cluster, **{"partitions": partitions, **options}))  # type: ignore[arg-type]
        return started[-1]

    yield make
    for sidecar in started:
        sidecar.crash()


@pytest.fixture
def one(start: Start) -> SteppedSidecar:
    return start("one")


@pytest.fixture
def processes() -> Iterator[Processes]:
    made = Processes()
    yield made
    made.close()
