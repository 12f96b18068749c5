"""Listeners and callbacks that cannot be called, or whose call runs nothing: each lost what it was called with."""

import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from jbm_kafka import ConnectionFactory, Message, Queue
from jbm_kafka.errors import InvalidTypeError
from jbm_kafka.jms.base.exception_listener import ListenerCalls
from jbm_kafka.jms.base.never_run import unrun
from jbm_kafka.jms.connection import Connection
from tests.jms.support import SOON_S, Seen, eventually, left

ORDERS = Queue("orders")


async def coroutine(*arguments: object) -> None: ...


def generator(*arguments: object) -> Iterator[None]:
    yield


async def async_generator(*arguments: object) -> AsyncIterator[None]:
    yield


class Handler:
    """Its method is async, and so is what is called of it."""

    async def on_message(self, *arguments: object) -> None: ...

    async def __call__(self, *arguments: object) -> None: ...


NEVER_RUN: list[Callable[..., object]] = [
    coroutine,
    generator,
    async_generator,
    Handler(),
    Handler().on_message,
    functools.partial(coroutine),
    functools.partial(functools.partial(generator)),
]


@pytest.fixture
def connection() -> Iterator[Connection]:
    with ConnectionFactory("memory://never-run").create_connection() as connection:
        yield connection


@pytest.mark.parametrize("listener", NEVER_RUN)
def test_an_async_listener_acknowledged_messages_that_it_never_saw(
    connection: Connection, listener: Callable[..., object]
) -> None:
    session = connection.create_session()
    session.create_producer(ORDERS).send("a")
    consumer = session.create_consumer(ORDERS)
    with pytest.raises(InvalidTypeError, match=r"^listener is .* runs nothing; write: def listener\(message\): "):
        consumer.set_listener(listener)
    message = consumer.receive(SOON_S)
    assert message is not None
    assert message.body == "a"


@pytest.mark.parametrize("listener", NEVER_RUN)
def test_an_async_callback_was_told_of_no_send_and_of_no_trouble(
    connection: Connection, listener: Callable[..., object]
) -> None:
    producer = connection.create_session().create_producer(ORDERS)
    for _ in range(2):
        with pytest.raises(InvalidTypeError, match=r"^on_completion is .* runs nothing; write: def on_completion\("):
            producer.send("a", on_completion=listener)
    with pytest.raises(InvalidTypeError, match=r"^exception_listener is .* runs nothing"):
        connection.exception_listener = listener


@pytest.mark.parametrize("function", [coroutine, generator, async_generator])
def test_a_lambda_that_calls_an_async_function_acknowledged_what_nobody_worked_on(
    connection: Connection, function: Callable[..., object], caplog: pytest.LogCaptureFixture
) -> None:
    """It is a failed attempt, and the message comes again."""
    with connection.create_session() as session:
        session.create_producer(ORDERS).send("a")
        failures = iter([True])
        seen = Seen()

        def first_async(message: Message) -> object:
            seen(message)
            return function(message) if next(failures, False) else None

        session.create_consumer(ORDERS).set_listener(first_async)
        assert [(m.body, m.delivery_count) for m in seen.wait(2)] == [("a", 1), ("a", 2)]
        eventually(lambda: left(connection, ORDERS) == [], "not acknowledged")
    (raised,) = [record.exc_info for record in caplog.records if record.exc_info]
    assert isinstance(raised[1], InvalidTypeError)
    assert "nobody runs it" in str(raised[1])


def nothing() -> None:
    """Takes no argument."""


def both(message: Message, session: object) -> None:
    """Takes too many."""


def test_a_listener_that_takes_no_message_was_heard_of_at_the_first_message_only(connection: Connection) -> None:
    consumer = connection.create_session().create_consumer(ORDERS)
    for wrong in (nothing, both):
        with pytest.raises(InvalidTypeError, match=r"as listener\(message\).*write: def listener\(message\)"):
            consumer.set_listener(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError, match=r"def exception_listener\(error\)"):
        connection.exception_listener = nothing  # type: ignore[assignment]
    seen: list[Message] = []
    rights: list[Callable[[Message], object] | None] = [print, seen.append, None]
    for right in rights:
        consumer.set_listener(right)


def test_a_completion_callback_that_cannot_be_called_was_a_traceback_in_the_log_at_each_send(
    connection: Connection,
) -> None:
    outcomes: list[Exception | None] = []

    def told(message: Message, error: Exception | None) -> None:
        outcomes.append(error)

    @functools.wraps(nothing)
    def decorated(*arguments: object) -> None:
        outcomes.append(None)

    producer = connection.create_session().create_producer(ORDERS)
    for wrong in (nothing, lambda message: None):
        with pytest.raises(InvalidTypeError, match=r"def on_completion\(message, error\)"):
            producer.send("x", on_completion=wrong)  # type: ignore[arg-type]
    rights: list[Callable[[Message, Exception | None], object]] = [
        told,
        decorated,
        functools.partial(told),
        functools.partial(lambda more, message, error: told(message, error), 1),
    ]
    for right in rights:
        producer.send("x", on_completion=right)
    producer.flush()
    assert outcomes == [None] * len(rights)


def test_a_listener_may_return_what_it_likes_else(connection: Connection) -> None:
    with connection.create_session() as session:
        session.create_producer(ORDERS).send("a")
        seen = Seen()

        def seen_and_told(message: Message) -> str:
            seen(message)
            return "done"

        session.create_consumer(ORDERS).set_listener(seen_and_told)
        assert [m.delivery_count for m in seen.wait(1)] == [1]
        eventually(lambda: left(connection, ORDERS) == [], "not acknowledged")


def test_a_lambda_that_calls_an_async_function_left_no_word_of_what_it_was_not_told(
    connection: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    producer = connection.create_session().create_producer(ORDERS)
    producer.send("a", on_completion=lambda message, error: coroutine(error))
    producer.flush()
    calls = ListenerCalls()
    calls.notify(lambda error: coroutine(), RuntimeError("lost"))
    calls.stop(SOON_S)
    told = [str(record.exc_info[1]) for record in caplog.records if record.levelno >= logging.ERROR and record.exc_info]
    assert [text.partition(" returned ")[0] for text in told] == ["on_completion", "exception_listener"]


class Waiting:
    """What clients of HTTP and of databases return: it begins when somebody waits for it, and is no coroutine."""

    def __await__(self) -> Iterator[None]:
        yield


def test_what_a_handler_returns_and_has_yet_to_be_awaited_acknowledges_nothing() -> None:
    """It was taken for an answer that nobody asked for, and its message was acknowledged without any work."""
    fault = unrun("the handler", Waiting())
    assert fault is not None
    assert "nobody runs it" in str(fault)
