"""`receive_body`: the body alone, and what becomes of a message whose body is of another kind."""

import pytest

from jbm_kafka import AcknowledgeMode, Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from tests.jms.conftest import Connect
from tests.jms.support import NOTHING_S, SOON_S, bodies, eventually, left, receive, receive_all, send


def ask_for_bytes(consumer: MessageConsumer, *, of: str) -> None:
    with pytest.raises(errors.MessageFormatError, match=f"str, not bytes; the message was {of}"):
        consumer.receive_body(bytes, SOON_S)


def test_a_body_comes_without_its_message(session: Session, orders: Queue) -> None:
    send(session, orders, "a")
    session.create_producer(orders).send(b"b")
    consumer = session.create_consumer(orders)
    assert consumer.receive_body(str, SOON_S) == "a"
    assert consumer.receive_body(bytes, SOON_S) == b"b"
    assert consumer.receive_body(str, NOTHING_S) is None
    assert consumer.receive_body(str, 0) is None
    consumer.close()
    with pytest.raises(errors.IllegalStateError, match="closed"):
        consumer.receive_body(str, SOON_S)


@pytest.mark.parametrize("unit", ["u", None])
def test_a_body_of_another_kind_stays_the_next_message_in_auto(
    connection: Connection, session: Session, orders: Queue, unit: str | None
) -> None:
    """The call counts as not made: the same message comes before any later one, as if for the first time."""
    send(session, orders, "a", "b", "c", unit=unit)
    consumer = session.create_consumer(orders)
    assert consumer.receive_body(str, SOON_S) == "a"
    for _ in range(3):
        ask_for_bytes(consumer, of="not received")
    got = receive_all(consumer, 2)
    assert bodies(got) == ["b", "c"]
    assert [(message.delivery_count, message.redelivered) for message in got] == [(1, False)] * 2
    session.recover()
    eventually(lambda: left(connection, orders) == [], "it was not acknowledged")


def test_a_body_of_another_kind_is_not_settled_by_closing(connection: Connection, orders: Queue) -> None:
    session = connection.create_session()
    send(session, orders, "a", "b", unit="u")
    ask_for_bytes(session.create_consumer(orders), of="not received")
    session.close()
    got = receive_all(connection.create_session().create_consumer(orders), 2)
    assert [(message.body, message.delivery_count) for message in got] == [("a", 1), ("b", 1)]


def test_a_body_of_another_kind_goes_to_whichever_consumer_asks_next(session: Session, orders: Queue) -> None:
    """UNIT-3: also to another consumer of the session, and in order."""
    send(session, orders, "a", "b", "c", unit="u")
    first, second = session.create_consumer(orders), session.create_consumer(orders)
    ask_for_bytes(first, of="not received")
    got = [receive(second), receive(first), receive(second)]
    assert bodies(got) == ["a", "b", "c"]
    assert all(message.delivery_count == 1 for message in got)


def test_a_body_of_another_kind_that_expires_is_not_handed_over(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """SEND-5: put back in time, asked for too late."""
    consumer = session.create_consumer(orders)
    send(session, orders, "first", unit="u")
    assert consumer.receive_body(str, SOON_S) == "first"  # to join may take longer than the next one lives
    late = session.create_producer(orders).send("late", time_to_live_ms=1_500, unit_of_order="u")
    send(session, orders, "next", unit="u")
    ask_for_bytes(consumer, of="not received")
    eventually(lambda: connection._core.provider.clock.now_ms() > late.expiration, "its time is not over")
    assert receive(consumer).body == "next"


def test_a_body_of_another_kind_comes_after_a_stop_and_a_start(connect: Connect, orders: Queue) -> None:
    """CONN-1: it is unread, and goes back uncounted as what is unread does."""
    connection = connect()
    session = connection.create_session()
    send(session, orders, "a", "b", unit="u")
    consumer = session.create_consumer(orders)
    ask_for_bytes(consumer, of="not received")
    connection.stop()
    connection.start()
    got = receive_all(consumer, 2)
    assert [(message.body, message.delivery_count) for message in got] == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.TRANSACTED, AcknowledgeMode.INDIVIDUAL])
def test_a_body_of_another_kind_is_the_sessions_to_settle_in_the_other_modes(
    connection: Connection, session: Session, orders: Queue, mode: AcknowledgeMode
) -> None:
    send(session, orders, "a", unit="u")
    holder = connection.create_session(mode)
    consumer = holder.create_consumer(orders)
    is_transacted = mode is AcknowledgeMode.TRANSACTED
    ask_for_bytes(consumer, of="received")
    (holder.rollback if is_transacted else holder.recover)()
    assert receive(consumer).delivery_count == 2
    (holder.rollback if is_transacted else holder.recover)()
    ask_for_bytes(consumer, of="received")
    (holder.commit if is_transacted else holder.acknowledge)()
    assert consumer.receive(NOTHING_S) is None
    holder.close()
    eventually(lambda: left(connection, orders) == [], "it was not acknowledged")
