"""Failure tests run on the real broker, with topics of their own."""

from collections.abc import Iterator

import pytest

from tests.support.topics import delete_topics_beginning_with


@pytest.fixture
def queue_name(bootstrap: str, kafka_name: str) -> Iterator[str]:
    """A queue's name; its topics go at the end of the test."""
    yield kafka_name
    delete_topics_beginning_with(bootstrap, kafka_name)
