"""CLIENT sessions: acknowledge up to and including; nack and what goes back with it."""

import pytest

from jbm_kafka import AcknowledgeMode, Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.support import DELAY_MS, NOTHING_S, SOON_S, Aside, bodies, eventually, left, receive, receive_all, send


@pytest.fixture
def client(connection: Connection) -> Session:
    return connection.create_session(AcknowledgeMode.CLIENT)


def test_acknowledge_takes_everything_up_to_and_including(
    connection: Connection, client: Session, orders: Queue
) -> None:
    """ACK-2: in delivery order, over units."""
    send(client, orders, "a1", "a2", unit="a")
    send(client, orders, "b1", "b2", unit="b")
    got = receive_all(client.create_consumer(orders), 4)
    got[2].acknowledge()
    eventually(lambda: left(connection, orders) == [got[3].body], "not exactly the last one is left")
    got[2].acknowledge()  # again: nothing


def test_session_acknowledge_takes_all(connection: Connection, client: Session, orders: Queue) -> None:
    """Of ACK-2: session.acknowledge() takes everything the session delivered."""
    send(client, orders, "a", "b", "c")
    receive_all(client.create_consumer(orders), 3)
    client.acknowledge()
    eventually(lambda: left(connection, orders) == [], "something is left")


def test_recover_brings_everything_again_in_order(client: Session, orders: Queue) -> None:
    """UNIT-5, STATE-5: recover asks for redelivery; it comes in order, marked, and counted."""
    send(client, orders, "a", "b", "c", unit="u")
    consumer = client.create_consumer(orders)
    receive_all(consumer, 2)
    client.recover()
    again = receive_all(consumer, 3)
    assert bodies(again) == ["a", "b", "c"]
    assert [m.delivery_count for m in again] == [2, 2, 1]
    assert [m.redelivered for m in again] == [True, True, False]


def test_nack_returns_the_message_and_later_ones_of_its_unit(
    connection: Connection, client: Session, orders: Queue
) -> None:
    """UNIT-3, REDELIVER-1: only the one refused is counted; the earlier one and other units stay in hand."""
    queue = Queue(f"{orders.name}.one")
    send(client, queue, "a1", "a2", "a3", unit="a")
    send(client, queue, "b1", unit="b")
    consumer = client.create_consumer(queue)
    got = {m.body: m for m in receive_all(consumer, 4)}
    got["a2"].nack()
    again = receive_all(consumer, 2)
    # a3 was seen before, so it is marked, and then the count is at least 2, though no attempt of it counts.
    assert [(m.body, m.delivery_count, m.redelivered) for m in again] == [("a2", 2, True), ("a3", 2, True)]
    assert consumer.receive(NOTHING_S) is None
    got["b1"].acknowledge()
    eventually(lambda: left(connection, queue) == ["a2", "a3"], "a1 and b1 are not settled, or more is")


def test_nack_with_a_delay_holds_its_unit_and_no_other(client: Session, orders: Queue) -> None:
    """REDELIVER-2, of UNIT-4: a nack's own delay."""
    queue = Queue(f"{orders.name}.one")
    send(client, queue, "a1", "a2", unit="a")
    send(client, queue, "b1", unit="b")
    consumer = client.create_consumer(queue)
    receive(consumer).nack(delay_ms=DELAY_MS)
    got = receive_all(consumer, 3)
    assert bodies(got) == ["b1", "a1", "a2"]
    assert [m.delivery_count for m in got] == [1, 2, 1]


def test_a_settled_message_cannot_be_given_back(client: Session, orders: Queue) -> None:
    send(client, orders, "a")
    message = receive(client.create_consumer(orders))
    message.acknowledge()
    with pytest.raises(errors.IllegalStateError, match="settled already"):
        message.nack()


def test_closing_the_session_recovers(connection: Connection, session: Session, orders: Queue) -> None:
    """Of UNIT-7: closing a CLIENT session recovers, at once whatever the delay (REDELIVER-1)."""
    queue = Queue(f"{orders.name}.delayed")
    send(session, queue, "a", "b", unit="u")
    with connection.create_session(AcknowledgeMode.CLIENT) as client:
        receive_all(client.create_consumer(queue), 2)
    again = receive_all(session.create_consumer(queue), 2)
    assert [(m.body, m.delivery_count) for m in again] == [("a", 2), ("b", 2)]


def test_closing_the_consumer_leaves_its_messages_with_the_session(
    connection: Connection, client: Session, orders: Queue
) -> None:
    """Of UNIT-7: what the application got stays with the session; the prefetched goes back uncounted."""
    send(client, orders, "a", "b", "c", unit="u")
    consumer = client.create_consumer(orders)
    first, second = receive_all(consumer, 2)
    consumer.close()
    with connection.create_session(AcknowledgeMode.AUTO) as other:
        assert other.create_consumer(orders).receive(NOTHING_S) is None  # the unit is the session's still
        first.acknowledge()
        second.acknowledge()
        third = receive(other.create_consumer(orders))
        assert (third.body, third.delivery_count) == ("c", 1)


def test_any_thread_may_acknowledge_and_nack(connection: Connection, client: Session, orders: Queue) -> None:
    send(client, orders, "a", "b", unit="u")
    consumer = client.create_consumer(orders)
    first, second = receive_all(consumer, 2)
    waiting = Aside(lambda: consumer.receive(SOON_S))
    Aside(first.acknowledge).result()
    Aside(second.nack).result()
    again = waiting.result()
    assert getattr(again, "body", None) == "b"
    eventually(lambda: left(connection, orders) == ["b"], "a is not settled")


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL])
def test_an_acknowledgement_of_what_was_given_back_is_refused(
    connection: Connection, orders: Queue, mode: AcknowledgeMode
) -> None:
    """STATE-6: only a repeated one is ignored; this message comes again, and whoever processed it must know."""
    with connection.create_session(mode) as session:
        send(session, orders, "a", "b")
        consumer = session.create_consumer(orders)
        first, second = receive_all(consumer, 2)
        first.nack()
        with pytest.raises(errors.IllegalStateError, match=r"was given back.*delivered again"):
            first.acknowledge()
        session.recover()
        with pytest.raises(errors.IllegalStateError, match=r"was given back.*delivered again"):
            second.acknowledge()
        for message in receive_all(consumer, 2):
            message.acknowledge()
            message.acknowledge()


def test_what_goes_back_with_an_earlier_one_of_its_unit_cannot_be_acknowledged(client: Session, orders: Queue) -> None:
    """UNIT-3, STATE-6."""
    send(client, orders, "a", "b", unit="u")
    first, second = receive_all(client.create_consumer(orders), 2)
    first.nack()
    with pytest.raises(errors.IllegalStateError, match="was given back"):
        second.acknowledge()


def test_a_nack_takes_nothing_of_a_unit_of_the_same_name_in_another_queue(
    connection: Connection, client: Session, orders: Queue
) -> None:
    """UNIT-3, UNIT-9: a name is of one destination; what went with it could not be acknowledged, and did not come."""
    other = Queue(f"{orders.name}.other")
    for queue in (orders, other):
        send(client, queue, queue.name, unit="u")
    first, second = (receive(client.create_consumer(queue)) for queue in (orders, other))
    first.nack()
    second.acknowledge()
    eventually(lambda: left(connection, other) == [], "it is not acknowledged")
