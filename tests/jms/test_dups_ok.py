"""DUPS_OK sessions: what is finished is acknowledged together, by number or by time."""

import threading

import pytest

from jbm_kafka import AcknowledgeMode, Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.conftest import Connect
from tests.jms.support import (
    NOTHING_S,
    Seen,
    bodies,
    eventually,
    group_worker_behind,
    left,
    receive,
    receive_all,
    send,
)

LONG_MS = 3_600_000
"""Never, within a test."""


@pytest.fixture
def lazy(connection: Connection) -> Session:
    """Acknowledges three at a time, and by no clock."""
    session = connection.create_session(AcknowledgeMode.DUPS_OK)
    session.set_dups_ok(messages=3, milliseconds=0)
    return session


def test_the_nth_message_that_is_finished_acknowledges_all(
    connection: Connection, lazy: Session, orders: Queue
) -> None:
    """ACK-3: every n messages; the one in hand is not finished."""
    send(lazy, orders, "1", "2", "3", "4", "5", unit="u")
    consumer = lazy.create_consumer(orders)
    assert bodies(receive_all(consumer, 3)) == ["1", "2", "3"]
    assert consumer._link.group_worker.is_settled
    assert lazy._strategy.count(consumer._link) == 3
    assert receive(consumer).body == "4"
    eventually(lambda: left(connection, orders) == ["4", "5"], "not exactly the finished ones are acknowledged")


def test_the_clock_acknowledges_what_is_finished(connection: Connection, orders: Queue) -> None:
    """ACK-3: after k milliseconds, also while the application does something else with the one in hand."""
    with connection.create_session(AcknowledgeMode.DUPS_OK) as session:
        session.set_dups_ok(messages=0, milliseconds=50)
        send(session, orders, "1", "2", "3", unit="u")
        consumer = session.create_consumer(orders)
        receive_all(consumer, 2)
        eventually(lambda: left(connection, orders) == ["2", "3"], "1 is finished, and nobody acknowledges it")
        assert session._strategy.count(consumer._link) == 1, "the one in hand is not finished"


def test_never_told_it_is_50_messages_or_200_ms(connection: Connection, orders: Queue) -> None:
    """ACK-3: and fewer where the prefetch is smaller."""
    with connection.create_session(AcknowledgeMode.DUPS_OK) as session:
        send(session, orders, *map(str, range(12)), unit="u")
        consumer = session.create_consumer(orders, prefetch=10)
        receive_all(consumer, 12)  # more than the prefetch: it does not stand still
        eventually(lambda: left(connection, orders) == ["11"], "the clock does nothing")


def test_a_clock_that_is_set_later_counts_for_what_is_finished_already(
    connection: Connection, lazy: Session, orders: Queue
) -> None:
    """ACK-3"""
    send(lazy, orders, "1", "2", "3")
    receive_all(lazy.create_consumer(orders), 2)
    lazy.set_dups_ok(messages=3, milliseconds=1)
    eventually(lambda: len(left(connection, orders)) == 2, "what is finished is not acknowledged")


def test_a_prefetch_is_never_full_of_what_is_finished(lazy: Session, orders: Queue) -> None:
    """ACK-3, ACK-8: with the number switched off a full prefetch is the number."""
    lazy.set_dups_ok(messages=0, milliseconds=LONG_MS)
    send(lazy, orders, "1", "2", "3", "4", "5")
    assert len(receive_all(lazy.create_consumer(orders, prefetch=2), 5)) == 5


def test_one_message_and_no_time_is_auto(connection: Connection, lazy: Session, orders: Queue) -> None:
    """ACK-3: each is acknowledged at the next receive, and recover brings nothing again."""
    lazy.set_dups_ok(messages=1, milliseconds=0)
    send(lazy, orders, "1", "2", unit="u")
    consumer = lazy.create_consumer(orders)
    receive_all(consumer, 2)
    eventually(lambda: left(connection, orders) == ["2"], "the next receive acknowledges nothing")
    lazy.recover()
    assert consumer.receive(NOTHING_S) is None
    assert left(connection, orders) == []


def test_no_number_and_no_time_is_client(connection: Connection, orders: Queue) -> None:
    """ACK-3, of ACK-2: `message.acknowledge()` says it, and closing gives back."""
    with connection.create_session(AcknowledgeMode.DUPS_OK) as session:
        session.set_dups_ok(messages=0, milliseconds=0)
        send(session, orders, "1", "2", "3", unit="u")
        consumer = session.create_consumer(orders)
        got = receive_all(consumer, 3)
        assert consumer.receive(NOTHING_S) is None
        assert left(connection, orders) == ["1", "2", "3"]
        got[1].acknowledge()
        eventually(lambda: left(connection, orders) == ["3"], "not exactly the first two are acknowledged")
        with pytest.raises(errors.IllegalStateError, match="before its first consumer"):
            session.set_dups_ok(messages=5)
    again = receive(connection.create_session().create_consumer(orders))
    assert (again.body, again.delivery_count) == ("3", 2)


def test_a_session_with_a_consumer_becomes_no_client(lazy: Session, orders: Queue) -> None:
    lazy.create_consumer(orders)
    lazy.set_dups_ok(messages=7, milliseconds=8)
    with pytest.raises(errors.IllegalStateError, match="before its first consumer"):
        lazy.set_dups_ok(messages=0, milliseconds=0)


def test_more_messages_than_the_prefetch_are_refused(lazy: Session, orders: Queue) -> None:
    """ACK-3: n at most the prefetch, else ValueError, wherever the two meet."""
    lazy.set_default_prefetch(10)
    with pytest.raises(ValueError, match="messages is 11: it is at most the prefetch, which is 10"):
        lazy.set_dups_ok(messages=11)
    lazy.set_dups_ok(messages=10)
    with pytest.raises(ValueError, match="messages is 10: it is at most the prefetch, which is 9"):
        lazy.create_consumer(orders, prefetch=9)
    lazy.create_consumer(orders)
    with pytest.raises(ValueError, match="messages is 11"):
        lazy.set_dups_ok(messages=11)


def test_its_unit_is_the_sessions_until_it_is_acknowledged(
    connection: Connection, lazy: Session, orders: Queue
) -> None:
    """UNIT-8: nobody else gets anything of it before."""
    send(lazy, orders, "1", "2", "3", "4", unit="u")
    consumer = lazy.create_consumer(orders)
    receive_all(consumer, 2)
    consumer._link.give_back_unread()
    with connection.create_session() as other:
        beside = other.create_consumer(orders)
        assert beside.receive(NOTHING_S) is None
        assert bodies(receive_all(consumer, 2)) == ["3", "4"]


@pytest.mark.parametrize("closes", ["consumer", "session"])
def test_closing_completes_what_the_application_got(
    connection: Connection, lazy: Session, orders: Queue, closes: str
) -> None:
    """UNIT-7: and what it did not get goes back, uncounted."""
    send(lazy, orders, "1", "2", "3", unit="u")
    consumer = lazy.create_consumer(orders)
    receive_all(consumer, 2)
    (consumer if closes == "consumer" else lazy).close()
    eventually(lambda: left(connection, orders) == ["3"], "closing does not complete")
    third = receive(connection.create_session().create_consumer(orders))
    assert (third.body, third.delivery_count, third.redelivered) == ("3", 1, False)


def test_recover_brings_again_what_is_not_acknowledged(lazy: Session, orders: Queue) -> None:
    """UNIT-5, STATE-5: finished ones too, as nobody knows it of them."""
    send(lazy, orders, "1", "2", "3", unit="u")
    consumer = lazy.create_consumer(orders)
    receive_all(consumer, 2)
    lazy.recover()
    again = receive_all(consumer, 3)
    assert [(m.body, m.delivery_count) for m in again] == [("1", 2), ("2", 2), ("3", 1)]


def test_recover_brings_again_the_one_that_is_worked_on(lazy: Session, orders: Queue) -> None:
    """STATE-5: alone; behind a finished one of its unit it goes back with that."""
    send(lazy, orders, "1")
    consumer = lazy.create_consumer(orders)
    assert receive(consumer).body == "1"
    lazy.recover()
    again = receive(consumer)
    assert (again.body, again.delivery_count) == ("1", 2)


def test_leaving_by_an_exception_gives_back_the_one_in_hand(connection: Connection, orders: Queue) -> None:
    """REDELIVER-1: what came before was worked on, and is acknowledged."""

    def fail() -> None:
        with connection.create_session(AcknowledgeMode.DUPS_OK) as session:
            send(session, orders, "1", "2", unit="u")
            receive_all(session.create_consumer(orders), 2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with connection.create_session() as session:
        consumer = session.create_consumer(orders)
        again = receive(consumer)
        assert (again.body, again.delivery_count, again.redelivered) == ("2", 2, True)
        assert consumer.receive(NOTHING_S) is None


def test_a_listener_that_raises_gets_its_message_again(connection: Connection, lazy: Session, orders: Queue) -> None:
    """ACK-11: after the delay of its destination; the ones before do not come again."""
    queue = Queue(f"{orders.name}.delayed")
    send(lazy, queue, "1", "2", "3", unit="u")
    lazy.set_dups_ok(messages=50, milliseconds=50)
    failed = threading.Event()

    def fail_once(message: object) -> None:
        if getattr(message, "body", None) == "2" and not failed.is_set():
            failed.set()
            raise ValueError

    seen = Seen(then=fail_once)
    lazy.create_consumer(queue).set_listener(seen)
    assert [(m.body, m.delivery_count) for m in seen.wait(4)] == [("1", 1), ("2", 1), ("2", 2), ("3", 1)]
    eventually(lambda: left(connection, queue) == [], "what the listener finished is not acknowledged")


def test_consumers_of_one_session_are_counted_together(connection: Connection, lazy: Session, orders: Queue) -> None:
    """ACK-3: n is the session's; each has its own queue's messages acknowledged."""
    other = Queue(f"{orders.name}.other")
    send(lazy, orders, "1", "2")
    send(lazy, other, "3", "4")
    one, two = lazy.create_consumer(orders), lazy.create_consumer(other)
    for consumer in (one, two, one, two):
        receive(consumer)
    eventually(lambda: (left(connection, orders), left(connection, other)) == ([], ["4"]), "not the first three")


def test_a_rebalance_does_not_wait_for_what_is_finished(connect: Connect, orders: Queue) -> None:
    """ACK-3: a partition that others are to have does not wait for a number, nor for a clock."""
    connection = connect()
    queue = Queue(f"{orders.name}.one")
    session = connection.create_session(AcknowledgeMode.DUPS_OK)
    session.set_dups_ok(messages=50, milliseconds=0)
    send(session, queue, "1", "2", unit="u")
    consumer = session.create_consumer(queue)
    receive_all(consumer, 2)
    group_worker = group_worker_behind(consumer)

    def close() -> None:
        for channel in group_worker.data.channels.values():
            channel.is_closing = True

    group_worker.post(close)
    eventually(lambda: left(connection, queue) == ["2"], "1 is finished, and the partition waits for it")


@pytest.mark.parametrize("closes", [False, True])
def test_blocking_acknowledgement_waits_at_the_nth(connect: Connect, orders: Queue, closes: bool) -> None:
    """Of ACK-9: when the call returns they are recorded."""
    connection = connect(block_on_acknowledge=True)
    session = connection.create_session(AcknowledgeMode.DUPS_OK)
    session.set_dups_ok(messages=2, milliseconds=0)
    send(session, orders, "1", "2", "3", unit="u")
    consumer = session.create_consumer(orders)
    receive_all(consumer, 3)
    if closes:
        session.close()
    assert left(connection, orders) == ([] if closes else ["3"])
