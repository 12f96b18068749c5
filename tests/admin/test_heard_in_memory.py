"""In memory a pause waits for nobody who is not there: all that can hear of it are in this process."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.core.jms_errors import IllegalStateError
from tests.jms.support import receive

ORDERS = Queue("orders")
URL = "memory://heard"
SOON_S = 1.5
"""Less than the default of any `wait_s`, and more than a busy machine takes."""


@pytest.fixture
def admin() -> Iterator[Admin]:
    with Admin(URL) as made:
        made.create_queue(ORDERS.name, partitions=2)
        yield made


def test_a_pause_returns_as_soon_as_everybody_has_heard(admin: Admin, tmp_path: object) -> None:
    """It took three seconds, in which processes on a cluster hear of it."""
    factories = [ConnectionFactory(URL, state_dir=f"{tmp_path}/{number}") for number in range(2)]
    with factories[0].create_connection() as one, factories[1].create_connection() as other:
        producers = [each.create_session().create_producer(ORDERS) for each in (one, other)]
        for number, producer in enumerate(producers):
            producer.send(str(number))
        consumer = one.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(ORDERS)
        begun_s = time.monotonic()
        admin.pause(ORDERS)
        assert time.monotonic() - begun_s < SOON_S
        for producer in producers:
            with pytest.raises(IllegalStateError, match="sending is paused"):
                producer.send("late")
        assert consumer.receive(timeout=0.3) is None
        admin.resume(ORDERS, wait_s=3)
        assert {receive(consumer).body for _ in range(2)} == {"0", "1"}


def test_partitions_are_admitted_and_paths_ended_as_soon_as_everybody_has_heard(admin: Admin) -> None:
    """They took 130 seconds each."""
    with ConnectionFactory(URL).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(ORDERS)
        units = [f"unit-{number}" for number in range(8)]
        for unit in units:
            producer.send("before", unit_of_order=unit)
        begun_s = time.monotonic()
        assert admin.admit_partitions(ORDERS, partitions=5) == (2, 5)
        kept = len(admin.unit_paths(ORDERS))
        assert 0 < kept <= len(units)
        for unit in units:
            producer.send("after", unit_of_order=unit)
        consumer = session.create_consumer(ORDERS)
        got = [message for _ in range(16) if (message := consumer.receive(timeout=10)) is not None]
        assert [[each.body for each in got if each.unit_of_order == unit] for unit in units] == [
            ["before", "after"]
        ] * 8
        assert consumer.receive_nowait() is None
        ended = admin.end_paths(ORDERS)
        assert (ended.ended, ended.left) == (kept, 0)
        assert time.monotonic() - begun_s < 20
