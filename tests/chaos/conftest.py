"""Failure tests run on the real broker, with topics of their own."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.chaos_puppet import Puppet
from tests.support.topics import create_topic, delete_topics_beginning_with

MakePuppet = Callable[..., Puppet]


@pytest.fixture
def queue_name(bootstrap: str, kafka_name: str) -> Iterator[str]:
    """A queue's name; its topics go at the end of the test."""
    yield kafka_name
    delete_topics_beginning_with(bootstrap, kafka_name)


@pytest.fixture
def make_queue(bootstrap: str, queue_name: str) -> Callable[..., str]:
    """Creates a queue, of one partition unless told otherwise, whose name begins with `queue_name`."""

    def make(suffix: str, config: Mapping[str, str] | None = None, *, partitions: int = 1) -> str:
        given = {"retention.ms": "-1", **(config or {})}
        return create_topic(bootstrap, f"{queue_name}.{suffix}", partitions=partitions, config=given)

    return make


@pytest.fixture
def puppet(bootstrap: str, tmp_path: Path) -> Iterator[MakePuppet]:
    """Starts processes that do as they are told; they are gone at the end whatever happens."""
    with ExitStack() as started:

        def make(name: str, **options: object) -> Puppet:
            made = Puppet(bootstrap, tmp_path / "puppets", name, **options)  # type: ignore[arg-type]
            started.callback(made.end_anyhow)
            made.wait_ready()
            return made

        yield make
