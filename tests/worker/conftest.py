"""A world of its own for each test of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jbm_kafka.testing.memory_world import MemoryWorld


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as world:
        yield world
