"""Brokers learn of a new topic each in its own time: the one that is asked next may not know what the last one made."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.registry.registry import Registry
from tests.kafka.world import RealWorld
from tests.support.late_news import HeldWay
from tests.support.second_broker import SecondBroker

pytestmark = pytest.mark.thorough

LATE_S = 1.0
LOOKS = 20
"""Each goes to one of two brokers by chance."""


@dataclass(frozen=True, slots=True)
class Late:
    """Two brokers, of which the second hears of changes through the way."""

    bootstrap: str
    way: HeldWay

    @contextmanager
    def a_second_late(self) -> Iterator[None]:
        """While the block runs the second one hears nothing of the controller for LATE_S."""
        self.way.hold()
        timer = threading.Timer(LATE_S, self.way.let_go)
        timer.start()
        try:
            yield
        finally:
            self.way.let_go()
            timer.cancel()
            timer.join()


@pytest.fixture
def late(dedicated_broker: Callable[[], LocalBroker], tmp_path: Path) -> Iterator[Late]:
    """Both run, and know of each other."""
    first = dedicated_broker()
    settings = (first.data_dir / "server.properties").read_text(encoding="utf-8")
    voters = next(line for line in settings.splitlines() if line.startswith("controller.quorum.voters="))
    host, port = voters.rpartition("@")[2].split(":")
    with HeldWay((host, int(port))) as way:
        second = SecondBroker(first, tmp_path / "second", voters=f"1@{way.address}")
        second.start()
        try:
            yield Late(f"{first.bootstrap},{second.address}", way)
        finally:
            second.stop()


def test_a_topic_that_was_made_is_described_whichever_broker_is_asked(late: Late) -> None:
    """Who created it sees it."""
    admin = RealWorld(late.bootstrap).kafka().admin()
    for n in range(3):
        with late.a_second_late():
            assert admin.create_topic(f"late-{n}", partitions=1, config={})
            for _ in range(LOOKS):
                assert set(admin.describe([f"late-{n}"], with_config=True)) == {f"late-{n}"}
    admin.close()


def test_the_first_use_of_a_queue_works_while_a_broker_does_not_know_it(late: Late) -> None:
    """Of LOG-2: a first message is sent and received, and the topic is recorded as one that we made."""
    with ConnectionFactory(late.bootstrap).create_connection() as connection:
        session = connection.create_session()
        for n in range(3):
            queue = Queue(f"first-{n}")
            with late.a_second_late():
                session.create_producer(queue).send("hello")
                received = session.create_consumer(queue).receive(timeout=30)
            assert received is not None
            assert received.body == "hello"
    kafka = RealWorld(late.bootstrap).kafka()
    registry = Registry(kafka, kafka.admin(), "jbm.registry")
    registry.refresh()
    described = kafka.admin().describe([f"first-{n}" for n in range(3)])
    assert all(registry.is_made_by_us(name, found.topic_id) for name, found in described.items())
    registry.close()
