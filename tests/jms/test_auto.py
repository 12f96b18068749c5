"""AUTO sessions: a message is settled when the next is asked for."""

import queue

import pytest

from jbm_kafka import AcknowledgeMode, Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.conftest import Connect
from tests.jms.support import (
    NOTHING_S,
    SOON_S,
    Seen,
    bodies,
    eventually,
    group_worker_behind,
    left,
    receive,
    receive_all,
    send,
)


def test_the_next_receive_settles_the_message_before(connection: Connection, session: Session, orders: Queue) -> None:
    """ACK-1: settled at the next receive."""
    send(session, orders, "a", "b", unit="u")
    consumer = session.create_consumer(orders)
    assert bodies(receive_all(consumer, 2)) == ["a", "b"]
    eventually(lambda: left(connection, orders) == ["b"], "a is not settled, or b is")


def test_closing_settles_the_message_in_hand(connection: Connection, session: Session, orders: Queue) -> None:
    """ACK-1, of UNIT-7: settled at close; the prefetched one behind it comes to another, uncounted."""
    send(session, orders, "a", "b", unit="u")
    consumer = session.create_consumer(orders)
    assert receive(consumer).body == "a"
    consumer.close()
    eventually(lambda: left(connection, orders) == ["b"], "it waits for the next receive")
    other = session.create_consumer(orders)
    message = receive(other)
    assert (message.body, message.delivery_count, message.redelivered) == ("b", 1, False)
    assert other.receive(NOTHING_S) is None


@pytest.mark.parametrize("then", ["receives", "closes"])
def test_what_is_taken_from_an_auto_session_is_told_once(connect: Connect, orders: Queue, then: str) -> None:
    """Of ACK-9 and REDELIVER-1: when it is taken, and not again by its acknowledgement that comes too late."""
    connection = connect()
    session = connection.create_session(AcknowledgeMode.AUTO)
    send(session, orders, "a")
    consumer = session.create_consumer(orders)
    told: queue.SimpleQueue[Exception] = queue.SimpleQueue()
    connection.exception_listener = told.put
    first, group_worker = receive(consumer), group_worker_behind(consumer)

    def take() -> None:
        for channel in list(group_worker.data.channels.values()):
            group_worker.assignment.reopen(channel)

    group_worker.post(take)
    taken = told.get(timeout=SOON_S)
    assert isinstance(taken, errors.JMSError)
    assert first.kafka is not None
    assert taken.values["offsets"] == (first.kafka.offset,)
    if then == "receives":
        again = receive(consumer)
        assert (again.body, again.redelivered) == ("a", True)
    else:
        session.close()
    nothing_more = RuntimeError("the last")
    connection._core.notify_exception(nothing_more)
    assert told.get(timeout=SOON_S) is nothing_more


def test_recover_redelivers_nothing(connection: Connection, session: Session, orders: Queue) -> None:
    """ACK-1: recover settles what AUTO has in hand."""
    send(session, orders, "a")
    consumer = session.create_consumer(orders)
    receive(consumer)
    session.recover()
    assert consumer.receive(NOTHING_S) is None
    assert left(connection, orders) == []


def test_setting_a_listener_settles_the_message_in_hand(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """ACK-1: and the listener does not get it."""
    send(session, orders, "a")
    consumer, seen = session.create_consumer(orders), Seen()
    receive(consumer)
    consumer.set_listener(seen)
    eventually(lambda: left(connection, orders) == [], "not settled")
    assert seen.messages == []


def test_leaving_by_an_exception_gives_the_message_back(connection: Connection, orders: Queue) -> None:
    """ACK-1, REDELIVER-1: of an application that stops in between."""

    class BrokenError(Exception):
        pass

    def fail() -> None:
        with connection.create_session(AcknowledgeMode.AUTO) as session:
            send(session, orders, "a")
            receive(session.create_consumer(orders))
            raise BrokenError

    with pytest.raises(BrokenError):
        fail()
    with connection.create_session(AcknowledgeMode.AUTO) as session:
        again = receive(session.create_consumer(orders))
        assert (again.body, again.delivery_count, again.redelivered) == ("a", 2, True)


def test_a_consumer_left_by_an_exception_gives_the_message_back(session: Session, orders: Queue) -> None:
    def fail() -> None:
        with session.create_consumer(orders) as consumer:
            raise KeyError(receive(consumer).body)

    send(session, orders, "a")
    with pytest.raises(KeyError, match="a"):
        fail()
    assert receive(session.create_consumer(orders)).delivery_count == 2


def test_a_message_is_readable_after_its_session_closed_and_not_acknowledged(
    connection: Connection, orders: Queue
) -> None:
    with connection.create_session(AcknowledgeMode.CLIENT) as session:
        session.create_producer(orders).send("a", unit_of_order="joe", properties={"region": "EU"})
        message = receive(session.create_consumer(orders))
    assert (message.body, message.unit_of_order, message.properties["region"]) == ("a", "joe", "EU")
    for call in (message.acknowledge, message.nack):
        with pytest.raises(errors.IllegalStateError, match="closed"):
            call()
