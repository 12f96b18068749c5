"""PRE and NO sessions: messages that are over before the application is done with them."""

import pytest

from jbm_kafka import AcknowledgeMode, Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from tests.jms.conftest import Connect
from tests.jms.support import EXPIRED as EXPIRY_QUEUE
from tests.jms.support import (
    NOTHING_S,
    SOON_S,
    Seen,
    ask,
    bodies,
    copies,
    eventually,
    group_worker_behind,
    left,
    receive,
    receive_all,
    send,
)

BOTH = [AcknowledgeMode.PRE, AcknowledgeMode.NO]


@pytest.fixture
def pre(connection: Connection) -> Session:
    return connection.create_session(AcknowledgeMode.PRE)


def buffered(consumer: MessageConsumer, count: int) -> None:
    """So many lie in its buffer, and nobody has asked for them yet."""
    with consumer._link.lock:
        consumer._link.request(count)
    eventually(lambda: len(consumer._link.buffer) == count, "they do not come")


# -- both ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", BOTH)
def test_what_the_application_gets_is_over(connection: Connection, orders: Queue, mode: AcknowledgeMode) -> None:
    """ACK-4, ACK-5: before it asks for the next, and whatever it does with it."""
    with connection.create_session(mode) as session:
        send(session, orders, "a", "b")
        consumer = session.create_consumer(orders)
        receive_all(consumer, 2)
        eventually(lambda: left(connection, orders) == [], "it waits for somebody")


@pytest.mark.parametrize("mode", BOTH)
def test_a_failing_application_gets_nothing_again(connection: Connection, orders: Queue, mode: AcknowledgeMode) -> None:
    """ACK-4, ACK-5: not by an exception, and not by recover."""

    def fail() -> None:
        with connection.create_session(mode) as session:
            send(session, orders, "a", "b")
            consumer = session.create_consumer(orders)
            receive(consumer)
            session.recover()
            receive(consumer)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert connection.create_session().create_consumer(orders).receive(NOTHING_S) is None


@pytest.mark.parametrize("mode", BOTH)
def test_a_listener_that_raises_gets_the_next(connection: Connection, orders: Queue, mode: AcknowledgeMode) -> None:
    """Of ACK-4, ACK-5: a listener is an application too."""

    def fail(message: object) -> None:
        raise ValueError

    with connection.create_session(mode) as session:
        send(session, orders, "a", "b", "c", unit="u")
        seen = Seen(then=fail)
        session.create_consumer(orders).set_listener(seen)
        assert [(m.body, m.delivery_count) for m in seen.wait(3)] == [("a", 1), ("b", 1), ("c", 1)]
        eventually(lambda: left(connection, orders) == [], "not over")


@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK, *BOTH])
def test_acknowledge_is_ignored_and_nack_refused(connection: Connection, orders: Queue, mode: AcknowledgeMode) -> None:
    """Of ACK-2: ignored in AUTO, DUPS_OK, PRE and NO."""
    with connection.create_session(mode) as session:
        send(session, orders, "a")
        message = receive(session.create_consumer(orders))
        message.acknowledge()
        session.acknowledge()
        if mode not in BOTH:
            assert left(connection, orders) == ["a"]
        with pytest.raises(errors.IllegalStateError, match=f"this one is {mode.name}"):
            message.nack()
        for call in (session.commit, session.rollback):
            with pytest.raises(errors.IllegalStateError, match=f"for TRANSACTED sessions, this one is {mode.name}"):
                call()
    with pytest.raises(errors.IllegalStateError, match="closed"):
        message.acknowledge()


@pytest.mark.parametrize("mode", BOTH)
def test_a_unit_goes_on_with_another_session(connection: Connection, orders: Queue, mode: AcknowledgeMode) -> None:
    """UNIT-8: no order is promised, so nothing of a unit waits for what an application works on."""
    with connection.create_session(mode) as session, connection.create_session() as other:
        send(session, orders, "a", "b", unit="u")
        consumer = session.create_consumer(orders, prefetch=1)
        assert receive(consumer).body == "a"
        consumer._link.give_back_unread()
        second = consumer.receive_nowait() if mode is AcknowledgeMode.PRE else receive(other.create_consumer(orders))
        assert second is not None


@pytest.mark.parametrize("mode", BOTH)
def test_more_than_the_prefetch_comes_without_a_word(
    connection: Connection, orders: Queue, mode: AcknowledgeMode
) -> None:
    """ACK-8: it limits what is unread, for nothing is unacknowledged."""
    with connection.create_session(mode) as session:
        send(session, orders, *"abcde")
        assert len(receive_all(session.create_consumer(orders, prefetch=2), 5)) == 5


@pytest.mark.parametrize("mode", [AcknowledgeMode.DUPS_OK, *BOTH])
def test_a_body_of_another_kind_stays_the_next_message(
    connection: Connection, orders: Queue, mode: AcknowledgeMode
) -> None:
    with connection.create_session(mode) as session:
        send(session, orders, "a", "b", unit="u")
        consumer = session.create_consumer(orders)
        with pytest.raises(errors.MessageFormatError, match="was not received"):
            consumer.receive_body(bytes, SOON_S)
        assert [(m.body, m.delivery_count) for m in receive_all(consumer, 2)] == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("mode", BOTH)
def test_a_consumer_beside_another_gets_the_rest(connection: Connection, orders: Queue, mode: AcknowledgeMode) -> None:
    with connection.create_session(mode) as session:
        send(session, orders, *"abcdef", unit="u")
        one, two = session.create_consumer(orders), session.create_consumer(orders)
        assert sorted(str(receive(consumer).body) for consumer in (one, two, one, one, two, two)) == [*"abcdef"]
        eventually(lambda: left(connection, orders) == [], "not over")


# -- PRE ---------------------------------------------------------------------------------------------------------------


def test_what_arrives_in_the_buffer_is_over_before_anybody_asks(
    connection: Connection, pre: Session, orders: Queue
) -> None:
    """ACK-4: acknowledged before the application sees it."""
    send(pre, orders, "a", "b", "c")
    consumer = pre.create_consumer(orders)
    buffered(consumer, 3)
    eventually(lambda: left(connection, orders) == [], "it waits for somebody to ask")
    assert sorted(map(str, bodies(receive_all(consumer, 3)))) == ["a", "b", "c"]


@pytest.mark.parametrize("closes", ["consumer", "session"])
def test_closing_drops_what_is_unread_and_says_so(
    connection: Connection, pre: Session, orders: Queue, closes: str, caplog: pytest.LogCaptureFixture
) -> None:
    """ACK-4, of UNIT-7: it is over, so nobody else gets it."""
    send(pre, orders, "a", "b", "c")
    consumer = pre.create_consumer(orders)
    buffered(consumer, 3)
    receive(consumer)
    (consumer if closes == "consumer" else pre).close()
    [line] = [each.getMessage() for each in caplog.records if each.name == "jbm_kafka.jms.settling.at_most_once"]
    assert line.startswith(f"{orders.name}: a consumer in PRE closed with 2 messages unread"), line
    assert connection.create_session().create_consumer(orders).receive(NOTHING_S) is None


def test_a_stopped_connection_keeps_what_is_unread(connect: Connect, orders: Queue) -> None:
    """ACK-4: nobody else can get it, so nothing is lost by a pause; and nothing is handed over in it."""
    connection = connect()
    session = connection.create_session(AcknowledgeMode.PRE)
    send(session, orders, "a", "b", "c", unit="u")
    consumer = session.create_consumer(orders)
    buffered(consumer, 3)
    assert receive(consumer).body == "a"
    connection.stop()
    assert consumer.receive(NOTHING_S) is None
    connection.start()
    assert bodies(receive_all(consumer, 2)) == ["b", "c"]


def test_a_partition_that_goes_leaves_what_is_unread(connection: Connection, pre: Session, orders: Queue) -> None:
    """ACK-4: a rebalance takes no message back that nobody else will get."""
    queue = Queue(f"{orders.name}.one")
    send(pre, queue, "a", "b", "c", unit="u")
    consumer = pre.create_consumer(queue)
    buffered(consumer, 3)
    eventually(lambda: left(connection, queue) == [], "not over")
    group_worker = group_worker_behind(consumer)
    gone: list[object] = []

    def reopen() -> None:
        for channel in list(group_worker.data.channels.values()):
            group_worker.assignment.reopen(channel)
            gone.append(channel)

    group_worker.post(reopen)
    eventually(lambda: bool(gone), "the group worker does not run")
    assert bodies(receive_all(consumer, 3)) == ["a", "b", "c"]
    assert consumer.receive(NOTHING_S) is None


def test_an_idle_consumer_keeps_what_is_unread(connect: Connect, pre: Session, orders: Queue) -> None:
    send(pre, orders, "a", "b", unit="u")
    consumer = pre.create_consumer(orders)
    buffered(consumer, 2)
    group_worker_behind(consumer).post(lambda: group_worker_behind(consumer).settle.return_unread(consumer._link))
    assert bodies(receive_all(consumer, 2)) == ["a", "b"]


def test_what_expires_unread_is_passed_over_alone(connection: Connection, pre: Session, orders: Queue) -> None:
    """SEND-5, ACK-4: it is over already, so it goes nowhere; what follows it in its unit comes."""
    producer, consumer = pre.create_producer(orders), pre.create_consumer(orders)
    producer.send("first", unit_of_order="u")
    assert receive(consumer).body == "first"  # to join may take longer than the next one lives
    producer.send("a", unit_of_order="u", time_to_live_ms=2_000)
    producer.send("b", unit_of_order="u")
    buffered(consumer, 2)
    clock = connection._core.provider.clock
    eventually(lambda: consumer._link.buffer.ready[0].reference.expiration_ms < clock.now_ms(), "no time")
    assert receive(consumer).body == "b"
    assert consumer.receive(NOTHING_S) is None
    assert copies(connection, EXPIRY_QUEUE, orders) == []


def test_blocking_acknowledgement_comes_before_the_message(connect: Connect, orders: Queue) -> None:
    """ACK-4, of ACK-9: it is recorded before the application can see the message."""
    connection = connect(block_on_acknowledge=True)
    session = connection.create_session(AcknowledgeMode.PRE)
    send(session, orders, "a", "b", unit="u")
    consumer = session.create_consumer(orders)
    for body in ("a", "b"):
        assert receive(consumer).body == body
        group_worker = group_worker_behind(consumer)
        assert not any(
            channel.state.is_dirty for channel in group_worker.data.channels.values() if channel.holds_nothing
        )
    assert left(connection, orders) == []


def test_a_blocking_one_that_is_stopped_meanwhile_keeps_it(connect: Connect, orders: Queue) -> None:
    connection = connect(block_on_acknowledge=True)
    session = connection.create_session(AcknowledgeMode.PRE)
    consumer = session.create_consumer(orders)
    send(session, orders, "a")
    ask(consumer)
    eventually(lambda: bool(consumer._link.buffer.coming or consumer._link.buffer.ready), "nothing is on its way")
    connection.stop()
    eventually(lambda: left(connection, orders) == [], "not over")
    connection.start()
    assert receive(consumer).body == "a"


# -- NO ----------------------------------------------------------------------------------------------------------------


def test_what_is_unread_goes_back_in_no(connection: Connection, orders: Queue) -> None:
    """ACK-5, UNIT-7: only handing over ends a message; the rest is as if it had never been assigned."""
    with connection.create_session(AcknowledgeMode.NO) as session:
        send(session, orders, "a", "b", "c", unit="u")
        consumer = session.create_consumer(orders)
        buffered(consumer, 3)
        assert receive(consumer).body == "a"
    with connection.create_session() as other:
        again = receive_all(other.create_consumer(orders), 2)
        assert [(m.body, m.delivery_count, m.redelivered) for m in again] == [("b", 1, False), ("c", 1, False)]
