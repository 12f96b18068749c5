"""Requests that wait for their replies: each gets its own, and when none comes the caller hears what is known."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from jbm_kafka import AcknowledgeMode, Message, Queue, TextMessage, Topic, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.support import NOTHING_S, SOON_S, eventually, receive, send

Connect = Callable[..., Connection]
Answer = Callable[[Session, Message], None]


def by_correlation_id(session: Session, request: Message) -> None:
    """The way of those who copy the correlation id."""
    session.create_producer(request.reply_to).send(f"{request.body!s}!", correlation_id=request.correlation_id)


def by_message_id(session: Session, request: Message) -> None:
    """The way of JMS, where the message id of the request becomes the correlation id of the reply."""
    session.create_producer(request.reply_to).send(f"{request.body!s}!", correlation_id=request.message_id)


@contextmanager
def answering(connection: Connection, queue: Queue | Topic, answer: Answer, threads: int = 1) -> Iterator[None]:
    """Responders, until the block ends."""
    sessions = [connection.create_session() for _ in range(threads)]

    def serve(session: Session) -> None:
        for request in consumers[session]:
            answer(session, request)

    consumers = {session: session.create_consumer(queue) for session in sessions}
    with ThreadPoolExecutor(threads) as pool:
        ends = [pool.submit(serve, session) for session in sessions]
        try:
            yield
        finally:
            for consumer in consumers.values():
                consumer.close()
        for end in ends:
            end.result()


def test_a_request_of_json_was_a_type_error(connect: Connect, session: Session, orders: Queue) -> None:
    def answer(responding: Session, request: Message) -> None:
        assert request.reply_to is not None
        wood = request.json()["wood"]
        with responding.create_producer(request.reply_to) as producer:
            producer.send(json={"of": wood}, correlation_id=request.correlation_id)

    with answering(connect(), orders, answer):
        assert session.request(orders, json={"wood": "oak"}, timeout=SOON_S).json() == {"of": "oak"}
    with pytest.raises(errors.MessageFormatError, match="a message and json= were given"):
        session.request(orders, "one", json={}, timeout=SOON_S)
    with pytest.raises(errors.MessageFormatError, match="there is no message"):
        session.request(orders, timeout=SOON_S)


@pytest.mark.parametrize("answer", [by_correlation_id, by_message_id])
def test_a_request_returns_its_reply(connect: Connect, session: Session, orders: Queue, answer: Answer) -> None:
    """Both ways in which responders name what they answer."""
    with answering(connect(), orders, answer):
        reply = session.request(orders, "one", timeout=SOON_S, properties={"n": 1}, unit_of_order="joe")
        assert (reply.body, session.request(orders, TextMessage("two"), timeout=None).body) == ("one!", "two!")
    reply.acknowledge()  # as nothing needs it, nothing happens
    assert reply.destination is not None
    assert reply.destination.is_temporary


def test_a_hundred_requests_of_eight_threads_each_get_their_own(
    connect: Connect, connection: Connection, orders: Queue
) -> None:
    """Of TEMP-1: one reply queue serves a connection, whatever the order of the replies."""
    with answering(connect(), orders, by_message_id, threads=3), ThreadPoolExecutor(8) as pool:

        def ask(thread: int) -> list[object]:
            with connection.create_session() as session:
                return [session.request(orders, f"{thread}.{n}", timeout=60).body for n in range(100 // 8 + 1)]

        for thread, replies in enumerate(pool.map(ask, range(8))):
            assert replies == [f"{thread}.{n}!" for n in range(100 // 8 + 1)]


def test_without_a_reply_the_caller_hears_what_is_known(session: Session, orders: Queue) -> None:
    """The request waits in its queue: destination, time, correlation id, and where the reply was expected."""
    request = TextMessage("one")
    request.correlation_id = "number 1"
    with pytest.raises(errors.RequestTimeoutError) as caught:
        session.request(orders, request, timeout=0.1)
    error = caught.value
    assert isinstance(error, TimeoutError)
    assert f"to {orders}: no reply within 0.1 s. The request was sent" in str(error)
    assert (error.destination, error.timeout, error.correlation_id) == (orders.name, 0.1, "number 1")
    assert f"expected at temporary-queue:{error.reply_to} with correlation_id 'number 1'" in str(error)
    waiting = receive(session.create_consumer(orders))
    assert (waiting.message_id, waiting.correlation_id) == (error.message_id, "number 1")


def test_the_fate_of_a_request_is_told_where_it_is_seen(session: Session, orders: Queue, backend: str) -> None:
    """A look takes a second at most, which a busy broker may need for itself."""
    session.create_consumer(orders).close()
    with pytest.raises(errors.RequestTimeoutError) as caught:
        session.request(orders, "one", timeout=0)
    seen = f"it is in {orders} still, and no receiver has acknowledged it"
    assert seen in str(caught.value) or (backend == "kafka" and "was not seen within 1 s" in str(caught.value))


def test_a_reply_that_comes_too_late_does_no_harm(connect: Connect, session: Session, orders: Queue) -> None:
    """It is dropped, and the next request gets its own."""
    with pytest.raises(errors.RequestTimeoutError):
        session.request(orders, "early", timeout=0)
    responder = connect().create_session()
    consumer = responder.create_consumer(orders)
    by_correlation_id(responder, receive(consumer))
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(session.request, orders, "next", timeout=SOON_S)
        by_message_id(responder, receive(consumer))
        assert asked.result().body == "next!"


def test_replies_that_answer_nothing_are_dropped(connect: Connect, session: Session, orders: Queue) -> None:
    """Without a correlation id, with another one, expired, a second one: the right one is returned."""

    def badly(mine: Session, request: Message) -> None:
        producer = mine.create_producer(request.reply_to)
        producer.send("whose?")
        producer.send("another's", correlation_id="nobody's")
        producer.send("right", correlation_id=request.correlation_id)
        producer.send("again", correlation_id=request.correlation_id)

    with answering(connect(), orders, badly):
        assert [session.request(orders, "x", timeout=SOON_S).body for _ in range(3)] == ["right"] * 3


@pytest.mark.parametrize("whole", [False, True], ids=["session", "connection"])
def test_closing_ends_a_request_that_waits(connect: Connect, orders: Queue, whole: bool) -> None:
    """Of CONN-1: whoever waits hears that it was closed, and that the request was sent."""
    connection = connect()
    session = connection.create_session()
    waiting = connect().create_session().create_consumer(orders)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(session.request, orders, "one", timeout=None)
        assert receive(waiting).body == "one"
        (connection if whole else session).close()
        with pytest.raises(errors.IllegalStateError, match="the session was closed before the reply came"):
            asked.result(SOON_S)


def test_two_requests_of_one_correlation_id_do_not_wait_at_once(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """Their replies could not be told apart."""

    def one() -> TextMessage:
        message = TextMessage("one")
        message.correlation_id = "the same"
        return message

    with ThreadPoolExecutor(1) as pool:
        first = connection.create_session()
        asked = pool.submit(first.request, orders, one(), timeout=None)
        eventually(lambda: "the same" in first._core.connection.requests._pending, "the first waits")
        with pytest.raises(errors.IllegalStateError, match="'the same': another request of this connection waits"):
            session.request(orders, one(), timeout=None)
        first.close()
        with pytest.raises(errors.IllegalStateError):
            asked.result(SOON_S)


def test_where_a_reply_could_never_come_a_request_is_refused(
    connect: Connect, connection: Connection, session: Session, orders: Queue
) -> None:
    """In TRANSACTED sessions, on a stopped connection, by wrong arguments: nothing was sent."""
    with pytest.raises(errors.IllegalStateError, match=r"with create_session\(\) of the connection"):
        connection.create_session(AcknowledgeMode.TRANSACTED).request(orders, "one", timeout=1)
    stopped = connect()
    stopped.stop()
    with pytest.raises(errors.IllegalStateError, match="a connection that is not started"):
        stopped.create_session().request(orders, "one", timeout=1)
    with pytest.raises(errors.InvalidSettingError, match="timeout is -1"):
        session.request(orders, "one", timeout=-1)
    with pytest.raises(errors.InvalidDestinationError, match="use Queue"):
        session.request("orders", "one", timeout=1)  # type: ignore[arg-type]
    assert session.create_consumer(orders).receive(NOTHING_S) is None


def test_what_subscribes_to_a_topic_may_answer(connect: Connect, session: Session, prices: Topic) -> None:
    """The first of several replies is returned; without a subscriber the text says that it cannot be known."""
    with answering(connect(), prices, by_correlation_id, threads=2):
        assert session.request(prices, "oak", timeout=SOON_S).body == "oak!"
    with pytest.raises(errors.RequestTimeoutError, match=f"{prices} does not record which consumer received it"):
        session.request(prices, "ash", timeout=0.1)


def test_a_listener_may_make_requests(connect: Connect, connection: Connection, orders: Queue) -> None:
    """The reply comes beside the session's own messages."""
    inner = Queue(f"{orders.name}.inner")
    found: list[object] = []
    done = threading.Event()

    def relay(message: Message) -> None:
        found.append(mine.request(inner, f"{message.body!s} passed", timeout=SOON_S).body)
        done.set()

    with answering(connect(), inner, by_correlation_id):
        mine = connection.create_session()
        mine.create_consumer(orders).set_listener(relay)
        with connection.create_session() as sending:
            send(sending, orders, "one")
        assert done.wait(SOON_S)
    assert found == ["one passed!"]
