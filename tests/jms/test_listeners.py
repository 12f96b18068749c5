"""Listeners: on the session's own thread, settled by their return, redelivered by their exception."""

import threading
from pathlib import Path

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Message, Queue, errors
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.delivery_count import FIRST_DELIVERY
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.receiving import listening
from jbm_kafka.jms.receiving.inbox import ConsumerInbox
from jbm_kafka.jms.receiving.listening import Listening
from jbm_kafka.jms.session import Session
from jbm_kafka.ports.deliveries import Delivery, PartitionLease
from tests.jms.conftest import Connect
from tests.jms.support import (
    DEAD_LETTERS,
    NOTHING_S,
    SOON_S,
    Aside,
    Seen,
    ask,
    bodies,
    copies,
    eventually,
    left,
    receive,
    send,
)
from tests.sidecar.parts import channel_of


def by_steps(session: Session) -> Listening:
    """Its listeners without their thread: the test goes the steps."""
    session._core.guard.listening = session._listening._state
    return session._listening


def fail_once() -> Seen:
    """A listener that raises at its first message."""
    failures = iter([True])

    def then(message: Message) -> None:
        if next(failures, False):
            raise RuntimeError(f"cannot handle {message.body!r}")

    return Seen(then)


def test_a_listener_gets_messages_in_order_on_the_sessions_own_thread(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """ACK-1: acknowledged when it returned without raising."""
    send(session, orders, *"abc", unit="u")
    seen = Seen()
    with connection.create_session() as listening:
        listening.create_consumer(orders).set_listener(seen)
        assert bodies(seen.wait(3)) == ["a", "b", "c"]
        eventually(lambda: left(connection, orders) == [], "not acknowledged")
    assert len(set(seen.threads)) == 1
    assert seen.threads[0] is not threading.current_thread()


def test_in_auto_a_listener_that_raises_gets_the_message_again(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """Of ACK-11: before later ones of its unit, counted."""
    send(session, orders, "a", "b", unit="u")
    seen = fail_once()
    connection.create_session().create_consumer(orders).set_listener(seen)
    assert [(m.body, m.delivery_count) for m in seen.wait(3)] == [("a", 1), ("a", 2), ("b", 1)]


def test_in_auto_a_listener_that_raises_waits_the_delay(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """REDELIVER-2, of ACK-11: the destination's own delay; other units go on."""
    queue = Queue(f"{orders.name}.one.delayed")
    send(session, queue, "a", unit="a")
    send(session, queue, "b", unit="b")
    seen = fail_once()
    connection.create_session().create_consumer(queue).set_listener(seen)
    assert bodies(seen.wait(3)) == ["a", "b", "a"]


def test_in_individual_a_listener_that_raises_is_a_nack(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """Of ACK-11: and one that returns has not acknowledged."""
    send(session, orders, "a", unit="u")
    seen = fail_once()
    listening = connection.create_session(AcknowledgeMode.INDIVIDUAL)
    listening.create_consumer(orders).set_listener(seen)
    got = seen.wait(2)
    assert [m.delivery_count for m in got] == [1, 2]
    assert left(connection, orders) == ["a"]
    got[1].acknowledge()
    eventually(lambda: left(connection, orders) == [], "not acknowledged")


def test_in_individual_a_listener_that_raises_keeps_what_it_handed_to_workers(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """ACK-6, of ACK-11: the nack is of its own message alone, and of none that it has settled before it raises."""
    queue = Queue(f"{orders.name}.one")
    send(session, queue, "for a worker", unit="a")
    send(session, queue, "bad", unit="b")

    def refuse(message: Message) -> None:
        if message.body == "bad":
            if message.redelivered:
                message.acknowledge()
            raise RuntimeError("bad")

    seen = Seen(refuse)
    connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(queue).set_listener(seen)
    got = seen.wait(3)
    assert [(m.body, m.delivery_count) for m in got] == [("for a worker", 1), ("bad", 1), ("bad", 2)]
    got[0].acknowledge()
    eventually(lambda: left(connection, queue) == [], "not acknowledged")
    assert len(seen.messages) == 3


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.TRANSACTED])
def test_in_client_and_transacted_a_listener_that_raises_goes_on(
    connection: Connection, session: Session, orders: Queue, mode: AcknowledgeMode
) -> None:
    """Of ACK-11: with the next message; nothing is returned."""
    send(session, orders, "a", "b", unit="u")
    seen = fail_once()
    connection.create_session(mode).create_consumer(orders).set_listener(seen)
    assert [(m.body, m.delivery_count) for m in seen.wait(2)] == [("a", 1), ("b", 1)]
    assert left(connection, orders) == ["a", "b"]


def test_a_poison_message_leaves_and_its_unit_goes_on(connection: Connection, session: Session, orders: Queue) -> None:
    """REDELIVER-3, of ACK-11: by a listener's exceptions too."""
    queue = Queue(f"{orders.name}.twice")
    send(session, queue, "poison", "fine", unit="u")

    def then(message: Message) -> None:
        if message.body == "poison":
            raise RuntimeError("no")

    seen = Seen(then)
    connection.create_session().create_consumer(queue).set_listener(seen)
    assert bodies(seen.wait(3)) == ["poison", "poison", "fine"]
    assert bodies(copies(connection, DEAD_LETTERS, of=queue)) == ["poison"]


def test_a_listener_commits_receives_and_sends(connection: Connection, session: Session, orders: Queue) -> None:
    """ACK-7: the session is its own inside its listener."""
    target = Queue(f"{orders.name}.out")
    send(session, orders, "a", "b", unit="u")
    transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
    producer = transacted.create_producer(target)

    def forward(message: Message) -> None:
        producer.send(f"{message.body!s} done", unit_of_order="u")
        transacted.commit()

    seen = Seen(forward)
    transacted.create_consumer(orders).set_listener(seen)
    seen.wait(2)
    consumer = session.create_consumer(target)
    assert [receive(consumer).body for _ in range(2)] == ["a done", "b done"]


def test_a_session_with_a_listener_belongs_to_it(connection: Connection, orders: Queue) -> None:
    """CONN-1: other threads may close it, nothing else."""
    session = connection.create_session(AcknowledgeMode.TRANSACTED)
    consumer = session.create_consumer(orders)
    producer = session.create_producer(orders)
    consumer.set_listener(Seen())
    with pytest.raises(errors.IllegalStateError, match="listener"):
        consumer.receive(0)
    for call in (session.commit, session.rollback, lambda: producer.send("a")):
        with pytest.raises(errors.IllegalStateError, match="listener"):
            call()
    session.close()


def test_a_receive_beside_a_running_listener_does_not_acknowledge_its_message(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """CONN-1, ACK-1, of ACK-11: it is refused, also at another consumer; the raised listener's message comes again."""
    other = Queue(f"{orders.name}.other")
    send(session, orders, "a", unit="u")
    send(session, other, "b", unit="u")
    may_fail = threading.Event()

    def fail_first(message: Message) -> None:
        if message.delivery_count == 1:
            may_fail.wait(SOON_S)
            raise RuntimeError("not processed")

    seen = Seen(fail_first)
    listening = connection.create_session()
    beside = listening.create_consumer(other)
    listening.create_consumer(orders).set_listener(seen)
    seen.wait(1)
    with pytest.raises(errors.IllegalStateError, match="listener"):
        beside.receive(0)
    beside.set_listener(Seen())
    may_fail.set()
    assert [(m.body, m.delivery_count) for m in seen.wait(2)] == [("a", 1), ("a", 2)]


def test_taking_a_listener_away_waits_until_it_returned(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """CONN-1, ACK-1: the receive that is allowed then does not acknowledge for it."""
    send(session, orders, "a", unit="u")
    may_end = threading.Event()
    seen = Seen(lambda message: may_end.wait(SOON_S))
    consumer = connection.create_session().create_consumer(orders)
    consumer.set_listener(seen)
    seen.wait(1)
    taking_away = Aside(lambda: consumer.set_listener(None))
    eventually(lambda: consumer.listener is None, "not taken away")
    with pytest.raises(errors.IllegalStateError, match="listener"):
        consumer.receive(0)
    assert taking_away.is_running
    may_end.set()
    taking_away.result()
    send(session, orders, "b", unit="u")
    assert receive(consumer).body == "b"


@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK])
@pytest.mark.parametrize("what", ["consumer, then session", "session"])
def test_what_a_listener_is_in_that_does_not_return_was_acknowledged_by_closing(
    connection: Connection,
    session: Session,
    orders: Queue,
    mode: AcknowledgeMode,
    what: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """ACK-1, of ACK-3 and UNIT-7: a worker that hung and was told to stop lost its message."""
    monkeypatch.setattr(listening, "STOP_TIMEOUT_S", 0.2)
    may_end = threading.Event()
    seen = Seen(lambda message: may_end.wait(4 * SOON_S) if message.body == "hangs" else None)
    send(session, orders, "fine", "hangs")
    working = connection.create_session(mode)
    consumer = working.create_consumer(orders)
    consumer.set_listener(seen)
    seen.wait(2)
    if what.startswith("consumer"):
        consumer.close()
    working.close()
    assert "did not return within 0 s; it comes again" in caplog.text
    again = receive(session.create_consumer(orders))
    assert (again.body, again.redelivered, again.delivery_count) == ("hangs", True, 2)
    may_end.set()


@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK])
def test_a_listener_that_returns_after_its_consumer_was_closed_settles_its_message(
    connection: Connection, session: Session, orders: Queue, mode: AcknowledgeMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ACK-1: closing the consumer waited in vain for it, and its session goes on."""
    monkeypatch.setattr(listening, "STOP_TIMEOUT_S", 0.2)
    may_end = threading.Event()
    seen = Seen(lambda message: may_end.wait(4 * SOON_S))
    send(session, orders, "slow")
    working = connection.create_session(mode)
    consumer = working.create_consumer(orders)
    consumer.set_listener(seen)
    seen.wait(1)
    consumer.close()
    may_end.set()
    working.close()
    assert session.create_consumer(orders).receive(NOTHING_S) is None


def test_close_waits_for_a_running_listener(connection: Connection, session: Session, orders: Queue) -> None:
    """CONN-1, of UNIT-7: it finishes, and its message is acknowledged; what was prefetched goes back uncounted."""
    may_end = threading.Event()
    seen = Seen(lambda message: may_end.wait(SOON_S))
    send(session, orders, "a", "b", unit="u")
    consumer = connection.create_session().create_consumer(orders)
    consumer.set_listener(seen)
    seen.wait(1)
    closing = Aside(consumer.close)
    assert closing.is_running
    may_end.set()
    closing.result()
    message = receive(session.create_consumer(orders))
    assert (message.body, message.delivery_count) == ("b", 1)
    assert len(seen.messages) == 1


@pytest.mark.parametrize("end", ["close", "stop", "take away"])
def test_a_message_taken_for_a_listener_goes_back_when_that_ends_before_it_begins(
    warm: ConnectionFactory, connection: Connection, orders: Queue, end: str
) -> None:
    """UNIT-2, CONN-1, of UNIT-7: nothing runs after the call returned; the message is another session's, uncounted."""
    send(connection.create_session(), orders, "a", "b", unit="u")
    with warm.create_connection() as ending:
        session, seen = ending.create_session(), Seen()
        consumer = session.create_consumer(orders)
        thread = by_steps(session)
        consumer.set_listener(seen)
        taken: list[tuple[ConsumerInbox, Delivery]] = []
        while not taken:
            taken += filter(None, [thread.next_message()])
        calls = {"close": consumer.close, "stop": ending.stop, "take away": lambda: consumer.set_listener(None)}
        ended = Aside(calls[end])
        eventually(lambda: not thread.may_listen(consumer._inbox), "not ended")
        assert ended.is_running
        thread.deliver(*taken[0])
        ended.result()
        session.close()
        assert seen.messages == []
    again = connection.create_session().create_consumer(orders)
    assert [(m.body, m.delivery_count) for m in (receive(again), receive(again))] == [("a", 1), ("b", 1)]


def test_a_message_taken_for_a_listener_that_is_taken_away_is_the_next_to_be_received(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """ORDER-1: without a unit too, though later ones are in the buffer already."""
    listening, seen = connection.create_session(), Seen()
    consumer = listening.create_consumer(orders)
    ask(consumer)
    send(session, orders, "a", "b")
    eventually(lambda: bool(consumer._link.buffer), "the first did not come")
    thread = by_steps(listening)
    consumer.set_listener(seen)
    taken = thread.next_message()
    assert taken is not None
    eventually(lambda: bool(consumer._link.buffer), "the second did not come")
    taking_away = Aside(lambda: consumer.set_listener(None))
    eventually(lambda: not thread.may_listen(consumer._inbox), "not taken away")
    thread.deliver(*taken)
    taking_away.result()
    listening._core.guard.listening = None
    assert seen.messages == []
    assert [(m.body, m.delivery_count) for m in (receive(consumer), receive(consumer))] == [("a", 1), ("b", 1)]


def test_a_listener_may_close_its_own_consumer(connection: Connection, session: Session, orders: Queue) -> None:
    """Of UNIT-7: the message in hand is settled by the listener's return or exception, not by the close."""
    send(session, orders, "a", unit="u")
    consumer = connection.create_session().create_consumer(orders)

    def close_and_fail(message: Message) -> None:
        consumer.close()
        raise RuntimeError("after the close")

    seen = Seen(close_and_fail)
    consumer.set_listener(seen)
    seen.wait(1)
    again = receive(session.create_consumer(orders))
    assert (again.body, again.delivery_count) == ("a", 2)


def test_a_listener_may_close_its_own_session_and_connection(warm: ConnectionFactory, orders: Queue) -> None:
    """CONN-1: close from any thread."""
    with warm.create_connection() as connection:
        send(connection.create_session(), orders, "a", unit="u")
        closed = threading.Event()

        def close(message: Message) -> None:
            connection.close()
            closed.set()

        connection.create_session().create_consumer(orders).set_listener(close)
        assert closed.wait(SOON_S)
    with warm.create_connection() as connection:
        eventually(lambda: left(connection, orders) == [], "its return did not acknowledge")


def test_a_listener_that_hands_over_to_workers_goes_on_when_they_acknowledge(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """ACK-8: a full prefetch pauses the listener, and no longer than it is full."""
    for number in range(3):
        send(session, orders, f"m{number}", unit=f"u{number}")
    seen = Seen()
    listening = connection.create_session(AcknowledgeMode.INDIVIDUAL)
    listening.create_consumer(orders, prefetch=1).set_listener(seen)
    for count in (1, 2, 3):
        seen.wait(count)[-1].acknowledge()


def test_two_listeners_of_one_session_keep_a_unit_in_order(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """UNIT-3, ORDER-1: one thread, one order."""
    names = [f"m{number}" for number in range(12)]
    send(session, orders, *names, unit="u")
    seen = Seen()
    listening = connection.create_session(AcknowledgeMode.CLIENT)
    for _ in range(2):
        listening.create_consumer(orders).set_listener(seen)
    assert bodies(seen.wait(12)) == names


def test_without_its_listener_a_consumer_receives_again(
    connection: Connection, session: Session, orders: Queue
) -> None:
    consumer = connection.create_session().create_consumer(orders)
    seen = Seen()
    consumer.set_listener(seen)
    send(session, orders, "a")
    seen.wait(1)
    consumer.set_listener(None)
    send(session, orders, "b")
    assert receive(consumer).body == "b"
    assert consumer.listener is None


@pytest.mark.parametrize("by", ["another thread", "itself"])
def test_what_a_removed_listener_had_not_read_is_another_consumers_at_once(
    connect: Connect, session: Session, orders: Queue, tmp_path: Path, by: str
) -> None:
    """Of UNIT-7: it stayed with the consumer for `receiver_idle_ms`, or for ever, and its unit waited."""
    connection = connect(receiver_idle_ms=600_000, state_dir=tmp_path)
    may_end = threading.Event()

    def handle(message: Message) -> None:
        if message.body == "m1" and by == "itself":
            consumer.set_listener(None)
        elif message.body == "m1":
            may_end.wait(SOON_S)

    seen = Seen(handle)
    consumer = connection.create_session().create_consumer(orders)
    names = [f"m{number}" for number in range(6)]
    send(session, orders, *names, unit="u")
    consumer.set_listener(seen)
    seen.wait(2)
    if by == "another thread":
        eventually(lambda: bool(consumer._link.buffer), "nothing was read ahead")
        taking_away = Aside(lambda: consumer.set_listener(None))
        eventually(lambda: consumer.listener is None, "not taken away")
        may_end.set()
        taking_away.result()
    beside = connection.create_session().create_consumer(orders)
    assert bodies(receive(beside) for _ in range(4)) == names[2:]


@pytest.mark.parametrize("listens", [True, False])
def test_a_buffer_full_of_expired_messages_is_passed_over(
    connection: Connection, session: Session, orders: Queue, listens: bool
) -> None:
    """SEND-5, UNIT-1: however many; what follows them in their unit goes back with them."""
    consumer = connection.create_session(AcknowledgeMode.CLIENT).create_consumer(orders)
    lease = PartitionLease(channel_of(ChannelState()), session_id="s", notify=consumer._link.notices.notify)
    lease.is_revoked = True  # what goes back of it concerns nobody
    references = [Reference(offset, b"u", expiration_ms=1) for offset in range(5_000)] + [Reference(5_000, b"u")]
    with consumer._link.lock:
        consumer._link.buffer.ready.extend(Delivery(lease, reference, FIRST_DELIVERY) for reference in references)
    send(session, orders, "later", unit="w")
    if listens:
        seen = Seen()
        consumer.set_listener(seen)
        got = seen.wait(1)
    else:
        got = [receive(consumer)]
    assert bodies(got) == ["later"]


def test_the_thread_of_the_listeners_outlives_a_failure_of_our_own(
    connect: Connect, session: Session, orders: Queue
) -> None:
    """Of ACK-9: the exception listener is told, later messages are delivered, and the message is in nobody's hand."""
    connection = connect()
    told: list[Exception] = []
    connection.exception_listener = told.append
    listening = connection.create_session()
    consumer = listening.create_consumer(orders)
    lease = PartitionLease(channel_of(ChannelState()), session_id="s", notify=consumer._link.notices.notify)
    lease.is_revoked = True
    with consumer._link.lock:
        consumer._link.buffer.ready.append(Delivery(lease, Reference(0, None, record="no record"), FIRST_DELIVERY))
    seen = Seen()
    consumer.set_listener(seen)
    eventually(lambda: bool(told), "nobody is told")
    assert not listening._core.links.unacknowledged.seen
    send(session, orders, "a")
    assert bodies(seen.wait(1)) == ["a"]


def test_two_listeners_of_one_session_take_turns(connection: Connection, session: Session, orders: Queue) -> None:
    """The second starved until the first queue was empty, and what it had been granted was kept from everybody."""
    busy, starved = (Queue(f"{orders.name}.{name}.one") for name in ("x", "y"))
    count = 10
    send(session, busy, *(f"x{number}" for number in range(count)))
    send(session, starved, *(f"y{number}" for number in range(count)))
    listening = connection.create_session()
    one, two = listening.create_consumer(busy), listening.create_consumer(starved)

    def have_more(message: Message) -> None:
        got = "".join(str(each.body)[0] for each in seen.messages)
        for name, consumer in (("x", one), ("y", two)):
            if got.count(name) < count:
                eventually(lambda: bool(consumer._link.buffer), f"{name} has no message waiting")  # noqa: B023

    seen = Seen(have_more)
    connection.stop()
    one.set_listener(seen)
    two.set_listener(seen)
    connection.start()
    got = [str(message.body) for message in seen.wait(2 * count)][:count]
    assert sum(body[0] == "y" for body in got) >= 3, got
