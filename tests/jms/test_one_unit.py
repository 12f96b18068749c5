"""Receiving one unit by hand: what is kept of the others goes back as if it had never been handed over."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jbm_kafka import AcknowledgeMode, Queue
from jbm_kafka.errors import ResourceAllocationError
from jbm_kafka.jms import selective_receive
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.one_unit import OneUnit
from jbm_kafka.jms.session import Session
from tests.jms.conftest import make_factory

Connect = Callable[..., Connection]


@pytest.mark.kafka_only  # it waits for seconds
def test_others_get_a_partition_with_what_was_kept_of_it(
    connect: Connect, session: Session, orders: Queue, bootstrap: str, tmp_path: Path
) -> None:
    """Of REDELIVER-1: it reached no application, so no attempt of it counts."""
    producer = session.create_producer(orders)
    for number in range(40):
        producer.send(str(number), unit_of_order=f"unit-{number}")
    with (
        connect().create_session(AcknowledgeMode.INDIVIDUAL) as looking,
        OneUnit(looking, orders, "nobody") as one,
        ThreadPoolExecutor() as pool,
        make_factory(bootstrap, state_dir=str(tmp_path / "other")).create_connection() as elsewhere,
    ):
        nothing = pool.submit(one.receive, 8.0)
        consumer = elsewhere.create_session(AcknowledgeMode.AUTO).create_consumer(orders)
        first = consumer.receive(20.0)  # a member's first assignment may be empty: the others give up theirs first
        assert first is not None
        received = [(first.delivery_count, first.redelivered)]
        while (message := consumer.receive(1.0)) is not None:
            received.append((message.delivery_count, message.redelivered))
        assert 0 < len(received) < 40, "it has got one of two partitions"
        assert set(received) == {(1, False)}
        assert nothing.result() is None
        one.close()
        looking.close()
        while len(received) < 40 and (message := consumer.receive(20.0)) is not None:
            received.append((message.delivery_count, message.redelivered))
    assert received == [(1, False)] * 40


def test_too_many_others_are_told(
    connect: Connect, session: Session, orders: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selective_receive, "PASSED_MAX", 3)
    producer = session.create_producer(orders)
    for number in range(5):
        producer.send(str(number))
    with (
        connect().create_session(AcknowledgeMode.INDIVIDUAL) as looking,
        OneUnit(looking, orders, "joe") as one,
        pytest.raises(ResourceAllocationError, match="3 other messages come before one of unit 'joe'"),
    ):
        one.receive(5.0)
    consumer = session.create_consumer(orders)
    bodies = [str(message.body) for message in iter(lambda: consumer.receive(1.0), None)]
    assert sorted(bodies) == ["0", "1", "2", "3", "4"]
