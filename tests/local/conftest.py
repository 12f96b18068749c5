"""What several tests of local channels stand on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jbm_kafka.local import RocksPersistenceManager
from tests.local.topic_parts import TopicBench


@pytest.fixture(params=["memory", "rocks"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TopicBench]:
    """On both persistence managers."""
    if request.param == "memory":
        yield TopicBench()
        return
    with RocksPersistenceManager(tmp_path) as rocks:
        yield TopicBench(rocks)
