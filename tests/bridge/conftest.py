"""Two clusters in memory, and bridges that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from jbm_kafka.bridge import Bridge, BridgeEnd
from jbm_kafka.testing.memory_world import MemoryWorld

Bridged = Callable[..., Bridge]


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    """Where messages come from."""
    with MemoryWorld() as world:
        yield world


@pytest.fixture
def elsewhere() -> Iterator[MemoryWorld]:
    """Another cluster."""
    with MemoryWorld() as world:
        yield world


@pytest.fixture
def bridged() -> Iterator[Bridged]:
    """Starts a bridge between two ends, which the test may stop."""
    with ExitStack() as ending:

        def start(source: BridgeEnd, target: BridgeEnd, **arguments: Any) -> Bridge:
            bridge = Bridge("across", source, target, **arguments)
            bridge.start()
            ending.callback(bridge.stop)
            return bridge

        yield start
