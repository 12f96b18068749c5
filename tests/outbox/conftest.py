"""A world in memory and a database in memory for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import StaticPool

from jbm_kafka.outbox import Outbox
from jbm_kafka.testing.memory_world import MemoryWorld


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as world:
        yield world


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


@pytest.fixture
def engine(outbox: Outbox) -> Iterator[Engine]:
    """Of a database in memory, which all threads share."""
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    outbox.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def file_engine(outbox: Outbox, tmp_path: Path) -> Iterator[Engine]:
    """Of a database in a file."""
    engine = create_engine(f"sqlite:///{tmp_path}/shop.db")
    outbox.create_all(engine)
    yield engine
    engine.dispose()
