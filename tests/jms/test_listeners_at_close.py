"""What a listener may do while closing waits for it: all that it may do before (CONN-1)."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Message, Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.receiving import listening
from jbm_kafka.jms.session import Session
from tests.jms.support import NOTHING_S, SOON_S, Aside, Seen, bodies, eventually, left, receive, send

Act = Callable[[Session, Message], object]


def listen(working: Session, queue: Queue, act: Act) -> tuple[Seen, list[BaseException]]:
    """Its listener waits until closing has begun, and then acts; what that raised is in the list."""
    raised: list[BaseException] = []

    def then(message: Message) -> None:
        eventually(lambda: working.is_closed, "nobody closes")
        try:
            act(working, message)
        except BaseException as error:
            raised.append(error)
            raise

    seen = Seen(then)
    working.create_consumer(queue).set_listener(seen)
    seen.wait(1)
    return seen, raised


def acknowledge_in_a_worker(_: Session, message: Message) -> None:
    Aside(message.acknowledge).result()


@pytest.mark.parametrize("closed", ["session", "connection"])
@pytest.mark.parametrize(
    ("mode", "act"),
    [
        (AcknowledgeMode.INDIVIDUAL, lambda _, message: message.acknowledge()),
        (AcknowledgeMode.CLIENT, lambda _, message: message.acknowledge()),
        (AcknowledgeMode.CLIENT, lambda session, _: session.acknowledge()),
        (AcknowledgeMode.TRANSACTED, lambda session, _: session.commit()),
        (AcknowledgeMode.INDIVIDUAL, acknowledge_in_a_worker),
    ],
    ids=["individual", "client", "session", "commit", "worker"],
)
def test_a_listener_that_closing_waits_for_could_not_acknowledge(
    warm: ConnectionFactory, connection: Connection, orders: Queue, mode: AcknowledgeMode, act: Act, closed: str
) -> None:
    """CONN-1, UNIT-7: its work was done, and came again."""
    send(connection.create_session(), orders, "a")
    with warm.create_connection() as ending:
        working = ending.create_session(mode)
        _, raised = listen(working, orders, act)
        (working if closed == "session" else ending).close()
    assert raised == []
    assert left(connection, orders) == []


@pytest.mark.parametrize(
    ("mode", "act"),
    [
        (AcknowledgeMode.INDIVIDUAL, lambda _, message: message.nack()),
        (AcknowledgeMode.CLIENT, lambda session, _: session.recover()),
        (AcknowledgeMode.TRANSACTED, lambda session, _: session.rollback()),
    ],
    ids=["nack", "recover", "rollback"],
)
def test_a_listener_that_closing_waits_for_gives_back_once(
    warm: ConnectionFactory, session: Session, orders: Queue, mode: AcknowledgeMode, act: Act
) -> None:
    """CONN-1: and closing counts no second attempt. Its own message does not come back to it."""
    send(session, orders, "a")
    with warm.create_connection() as ending:
        seen, raised = listen(ending.create_session(mode), orders, act)
    assert raised == []
    assert len(seen.messages) == 1
    again = receive(session.create_consumer(orders))
    assert (again.body, again.delivery_count) == ("a", 2)


def test_a_listener_that_closing_waits_for_sends_in_any_session_of_its_connection(
    warm: ConnectionFactory, session: Session, orders: Queue
) -> None:
    """CONN-1: to receive in one and to send in another is usual; closing waits for the callbacks of those, too."""
    out = Queue(f"{orders.name}.one")
    send(session, orders, "a")
    completed: list[object] = []
    with warm.create_connection() as ending:
        beside = ending.create_session()
        other = beside.create_producer(out)
        working = ending.create_session(AcknowledgeMode.TRANSACTED)
        own = working.create_producer(out)

        def forward(_: Session, message: Message) -> None:
            other.send("beside", on_completion=lambda sent, error: completed.append(error))
            own.send("own")
            working.commit()

        _, raised = listen(working, orders, forward)
        ending.close()
        with pytest.raises(errors.IllegalStateError, match="closed"):
            other.send("of another thread")
    assert raised == []
    assert completed == [None]
    consumer = session.create_consumer(out)
    assert bodies([receive(consumer), receive(consumer)]) == ["beside", "own"]
    assert session.create_consumer(orders).receive(NOTHING_S) is None


def test_a_block_that_raises_while_closing_waits_is_rolled_back(
    warm: ConnectionFactory, connection: Connection, session: Session, orders: Queue
) -> None:
    """ACK-7: what the listener commits after it is not half of what the block did."""
    out = Queue(f"{orders.name}.one")
    send(session, orders, "a")

    def fail_and_commit(working: Session, _: Message) -> None:
        with suppress(RuntimeError), working.transaction():
            working.create_producer(out).send("of the block")
            raise RuntimeError
        working.commit()

    with warm.create_connection() as ending:
        _, raised = listen(ending.create_session(AcknowledgeMode.TRANSACTED), orders, fail_and_commit)
    assert raised == []
    assert left(connection, out) == []


def test_no_listener_of_a_connection_begins_another_message_once_it_closes(
    warm: ConnectionFactory, connection: Connection, session: Session, orders: Queue
) -> None:
    """CONN-1: while it waited for one, those of later sessions went on, each with a limit of its own."""
    other = Queue(f"{orders.name}.other")
    send(session, orders, "a")
    with warm.create_connection() as ending:
        may_end = threading.Event()
        slow, quick = Seen(lambda message: may_end.wait(SOON_S)), Seen()
        working, later = ending.create_session(), ending.create_session()
        working.create_consumer(orders).set_listener(slow)
        later.create_consumer(other).set_listener(quick)
        slow.wait(1)
        closing = Aside(ending.close)
        eventually(lambda: working.is_closed and later.is_closed, "the later one goes on")
        send(session, other, "b")
        may_end.set()
        closing.result()
    assert quick.messages == []
    assert left(connection, other) == ["b"]
    assert left(connection, orders) == []


def test_listeners_that_hang_have_one_limit_together(
    warm: ConnectionFactory,
    session: Session,
    orders: Queue,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CONN-1, of ACK-1: what it said afterwards is refused; its message came again."""
    monkeypatch.setattr(listening, "STOP_TIMEOUT_S", 0.2)
    may_end = threading.Event()
    refused: list[BaseException] = []
    begun: list[Seen] = []

    def hang(message: Message) -> None:
        may_end.wait(SOON_S)
        try:
            message.acknowledge()
        except errors.IllegalStateError as error:
            refused.append(error)

    with warm.create_connection() as ending:
        for number in range(2):
            queue = Queue(f"{orders.name}.{number}")
            send(session, queue, f"m{number}")
            begun.append(Seen(hang))
            ending.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(queue).set_listener(begun[-1])
            begun[-1].wait(1)
        with caplog.at_level(logging.INFO, "jbm_kafka.jms.receiving.listening"):
            ending.close()
    lines = [row.getMessage() for row in caplog.records if row.getMessage().startswith("closing waits")]
    assert ["no longer" in line for line in lines] == [False, False, True, True], lines
    may_end.set()
    eventually(lambda: len(refused) == 2, "not refused")
    assert all("is closed; it comes again" in str(error) for error in refused), refused
    again = receive(session.create_consumer(Queue(f"{orders.name}.0")))
    assert (again.body, again.delivery_count) == ("m0", 2)


def test_a_connection_waits_for_a_session_that_another_thread_closes(
    warm: ConnectionFactory, connection: Connection, session: Session, orders: Queue
) -> None:
    """CONN-1: it took the connection away from the listener that the other thread waited for."""
    send(session, orders, "a")
    with warm.create_connection() as ending:
        working = ending.create_session(AcknowledgeMode.INDIVIDUAL)
        may_end, raised = threading.Event(), list[BaseException]()

        def work(message: Message) -> None:
            may_end.wait(SOON_S)
            try:
                message.acknowledge()
            except BaseException as error:
                raised.append(error)

        seen = Seen(work)
        working.create_consumer(orders).set_listener(seen)
        seen.wait(1)
        closing = Aside(working.close)
        eventually(lambda: working.is_closed, "not closed")
        all_closing = Aside(ending.close)
        eventually(lambda: ending.is_closed, "not closed")
        assert all_closing.is_running
        may_end.set()
        closing.result()
        all_closing.result()
    assert raised == []
    assert left(connection, orders) == []


def test_a_listener_closes_its_connection_while_closing_of_its_session_waits_for_it(
    warm: ConnectionFactory, connection: Connection, session: Session, orders: Queue
) -> None:
    """CONN-1: neither waits for the other, and its message is settled all the same."""
    send(session, orders, "a")
    ending = warm.create_connection()
    ending.start()

    def close_and_acknowledge(_: Session, message: Message) -> None:
        ending.close()
        message.acknowledge()

    working = ending.create_session(AcknowledgeMode.INDIVIDUAL)
    _, raised = listen(working, orders, close_and_acknowledge)
    working.close()
    eventually(lambda: ending.is_closed, "not closed")
    eventually(lambda: not any(thread.name == "jbm-closing" for thread in threading.enumerate()), "still closing")
    assert raised == []
    assert left(connection, orders) == []


@pytest.mark.parametrize("end", ["consumer", "stop"])
def test_a_listener_acknowledges_while_its_consumer_closes_or_its_connection_stops(
    warm: ConnectionFactory, connection: Connection, session: Session, orders: Queue, end: str
) -> None:
    """CONN-1, UNIT-7: its session goes on."""
    send(session, orders, "a")
    with warm.create_connection() as ending:
        may_end = threading.Event()

        def work(message: Message) -> None:
            may_end.wait(SOON_S)
            message.acknowledge()

        seen = Seen(work)
        consumer = ending.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(orders)
        consumer.set_listener(seen)
        seen.wait(1)
        ended = Aside(consumer.close if end == "consumer" else ending.stop)
        eventually(lambda: consumer.is_closed or not ending.is_started, "not ended")
        may_end.set()
        ended.result()
        eventually(lambda: left(connection, orders) == [], "not acknowledged")


def test_a_session_closed_while_its_listeners_thread_starts_raised_and_kept_its_consumer(
    warm: ConnectionFactory, orders: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONN-1: RuntimeError: cannot join thread before it is started."""
    is_starting, may_start = threading.Event(), threading.Event()
    start = threading.Thread.start

    def held(thread: threading.Thread) -> None:
        if thread.name.startswith("jbm-session-"):
            is_starting.set()
            assert may_start.wait(SOON_S)
        start(thread)

    with warm.create_connection() as connection:
        working = connection.create_session()
        consumer = working.create_consumer(orders)
        monkeypatch.setattr(threading.Thread, "start", held)
        setting = Aside(lambda: consumer.set_listener(lambda message: None))
        assert is_starting.wait(SOON_S)
        closing = Aside(working.close)
        eventually(lambda: working.is_closed, "nobody closes")
        may_start.set()
        closing.result()
        with suppress(errors.IllegalStateError):
            setting.result()
        assert consumer.is_closed
        assert working._is_over
