"""INDIVIDUAL sessions: each message on its own."""

import sys
from collections.abc import Iterator
from functools import partial

import pytest

from jbm_kafka import AcknowledgeMode, Message, Queue
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.support import DELAY_MS, NOTHING_S, Aside, bodies, eventually, left, receive, receive_all, send


@pytest.fixture
def individual(connection: Connection) -> Session:
    return connection.create_session(AcknowledgeMode.INDIVIDUAL)


def test_messages_are_acknowledged_in_any_order(connection: Connection, individual: Session, orders: Queue) -> None:
    """ACK-6: the others stay in hand."""
    for number in range(4):
        send(individual, orders, f"m{number}", unit=f"u{number}")
    got = receive_all(individual.create_consumer(orders), 4)
    got[3].acknowledge()
    got[1].acknowledge()
    expected = sorted([str(got[0].body), str(got[2].body)])
    eventually(lambda: sorted(map(str, left(connection, orders))) == expected, "not exactly two are left")


def test_one_message_of_a_unit_is_in_hand_at_most(individual: Session, orders: Queue) -> None:
    """UNIT-3, UNIT-2: the next one of the unit comes when the first is finished."""
    send(individual, orders, "a1", "a2", unit="a")
    consumer = individual.create_consumer(orders)
    first = receive(consumer)
    assert consumer.receive(NOTHING_S) is None
    first.acknowledge()
    assert receive(consumer).body == "a2"


def test_nack_brings_the_message_again_before_its_followers(individual: Session, orders: Queue) -> None:
    """ACK-6, REDELIVER-1: counted by one for each refusal."""
    send(individual, orders, "a1", "a2", unit="a")
    consumer = individual.create_consumer(orders)
    for count in (1, 2, 3):
        message = receive(consumer)
        assert (message.body, message.delivery_count, message.redelivered) == ("a1", count, count > 1)
        assert message.properties["JMSXDeliveryCount"] == count
        if count < 3:
            message.nack()
    message.acknowledge()
    assert receive(consumer).delivery_count == 1


def test_nack_with_a_delay_lets_other_units_go_first(individual: Session, orders: Queue) -> None:
    """ACK-6, of UNIT-4: other units do not wait."""
    queue = Queue(f"{orders.name}.one")
    send(individual, queue, "a1", "a2", unit="a")
    send(individual, queue, "b1", unit="b")
    consumer = individual.create_consumer(queue, prefetch=1)
    receive(consumer).nack(delay_ms=DELAY_MS)
    got = []
    for _ in range(3):
        got.append(receive(consumer))
        got[-1].acknowledge()
    assert bodies(got) == ["b1", "a1", "a2"]


def test_recover_brings_back_what_is_in_hand(individual: Session, orders: Queue) -> None:
    """STATE-5: recover asks for all that is owed."""
    send(individual, orders, "a", unit="a")
    send(individual, orders, "b", unit="b")
    consumer = individual.create_consumer(orders)
    receive_all(consumer, 2)
    individual.recover()
    again = receive_all(consumer, 2)
    assert sorted((str(m.body), m.delivery_count) for m in again) == [("a", 2), ("b", 2)]


@pytest.fixture
def _eager_threads() -> Iterator[None]:
    """Threads take turns after every few steps, so that what they do to each other shows."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.usefixtures("_eager_threads")
def test_workers_may_acknowledge_messages_of_a_closed_consumer(
    connection: Connection, individual: Session, orders: Queue
) -> None:
    """ACK-6, of UNIT-7: what is in hand stays with the session; the last one settled lets the consumer go."""
    queue, count = Queue(f"{orders.name}.one"), 400
    producer = individual.create_producer(queue)
    for number in range(count):
        producer.send(f"m{number}", unit_of_order=f"u{number}", on_completion=lambda message, error: None)
    producer.flush()
    consumer = individual.create_consumer(queue)
    got = receive_all(consumer, count)
    consumer.close()

    def acknowledge(mine: list[Message]) -> None:
        for message in mine:
            message.acknowledge()

    workers = [Aside(partial(acknowledge, got[each::8])) for each in range(8)]
    for worker in workers:
        worker.result()
    assert individual._core.links.all == []
    eventually(lambda: left(connection, queue) == [], "not acknowledged")


def test_closing_the_session_recovers(connection: Connection, session: Session, orders: Queue) -> None:
    """Of UNIT-7: closing an INDIVIDUAL session recovers."""
    send(session, orders, "a", "b", unit="u")
    with connection.create_session(AcknowledgeMode.INDIVIDUAL) as individual:
        receive(individual.create_consumer(orders))
    again = receive_all(session.create_consumer(orders), 2)
    assert [(m.body, m.delivery_count) for m in again] == [("a", 2), ("b", 1)]
