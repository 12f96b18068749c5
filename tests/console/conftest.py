"""A console over a world in memory, and a client that speaks to it as a browser of this machine does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from starlette.testclient import TestClient

from jbm_kafka.console import app
from jbm_kafka.console.frame.console import Console
from jbm_kafka.console.frame.console_settings import ConsoleSettings
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.console.looking import Looking

MakeLooking = Callable[..., Looking]


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as made:
        yield made


@pytest.fixture
def look_with(world: MemoryWorld) -> Iterator[MakeLooking]:
    """Makes a console with these settings, and a browser of this machine."""
    made: list[Console] = []

    def make(settings: ConsoleSettings | None = None, address: str = "127.0.0.1") -> Looking:
        application = app(world.url, settings)
        made.append(application.state.console)
        client = TestClient(
            application, base_url="http://127.0.0.1:8161", client=(address, 50_000), follow_redirects=False
        )
        return Looking(client, application.state.console)

    yield make
    for each in made:
        each.close()


@pytest.fixture
def looking(look_with: MakeLooking) -> Looking:
    """Without users."""
    return look_with()
