"""Providers of arguments, and lifespans: what is made when, and cleaned up behind what."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Context, Depends, Header, Message, Queue, Worker
from jbm_kafka.errors import InvalidTypeError
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.waiting import wait_until

ORDERS, LETTERS = Queue("orders"), Queue("DLQ")
SOON_S = 30.0
TOLD: list[Any] = []


@pytest.fixture(autouse=True)
def told() -> list[Any]:
    TOLD.clear()
    return TOLD


@pytest.fixture
def jms(world: MemoryWorld) -> Iterator[Context]:
    settings = {"#": AddressSettings(partitions=1, max_delivery_attempts=1)}
    with world.factory(address_settings=settings).create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        yield jms


def left(jms: Context, queue: Queue) -> list[Message]:
    return list(jms.create_browser(queue, include="all"))


def run(jms: Context, worker: Worker) -> None:
    """Until the queue is empty."""
    worker.start()
    try:
        wait_until(lambda: not left(jms, ORDERS), about="the handler", timeout_s=SOON_S)
    finally:
        assert worker.stop()


def settings() -> str:
    TOLD.append("settings")
    return "shop"


def pool(name: Annotated[str, Depends(settings, "worker")]) -> Iterator[str]:
    TOLD.append("pool made")
    yield f"pool of {name}"
    TOLD.append("pool closed")


def connection(of: Annotated[str, Depends(pool, "worker")]) -> Iterator[str]:
    TOLD.append("connection made")
    yield f"connection of {of} on {threading.current_thread().name[:11]}"
    TOLD.append("connection closed")


def transaction(
    region: Annotated[str, Header], on: Annotated[str, Depends(connection, "thread")]
) -> Iterator[tuple[str, str]]:
    TOLD.append("begin")
    try:
        yield region, on
    except Exception as error:  # and it does not raise it again
        TOLD.append(f"rollback: {error}")
    else:
        TOLD.append("commit")


def work(body: str, first: Annotated[Any, Depends(transaction)], second: Annotated[Any, Depends(transaction)]) -> None:
    assert first is second, "it is made once a message"
    TOLD.append((body, *first))
    if body == "bad":
        raise ValueError("no such customer")


def test_each_is_made_once_in_its_scope_and_cleaned_up_behind_it(
    world: MemoryWorld, jms: Context, told: list[Any]
) -> None:
    for body in ("a", "bad"):
        jms.create_producer().send(ORDERS, body, properties={"region": "EU"})
    worker = Worker(world.factory())
    worker.handler(ORDERS)(work)
    run(jms, worker)
    given = "EU", "connection of pool of shop on jbm-handler"
    assert told == [
        *("settings", "pool made", "connection made"),
        *("begin", ("a", *given), "commit"),
        *("begin", ("bad", *given), "rollback: no such customer"),
        *("connection closed", "pool closed"),
    ]
    (letter,) = left(jms, LETTERS)
    assert letter.body == "bad", "a provider that hides the error made no success of it"


def test_a_clean_up_that_fails_is_a_failed_attempt(world: MemoryWorld, jms: Context) -> None:
    """It comes before the acknowledgement: a commit that fails loses no message."""

    def transaction() -> Iterator[None]:
        yield
        raise ConnectionError("the database is away")

    def work(message: Message, on: Annotated[None, Depends(transaction)]) -> None: ...

    work.__annotations__ = {"message": Message, "on": Annotated[None, Depends(transaction)]}
    jms.create_producer().send(ORDERS, "a")
    worker = Worker(world.factory())
    worker.handler(ORDERS)(work)
    run(jms, worker)
    (letter,) = left(jms, LETTERS)
    assert letter.properties["_JBM_LAST_ERROR"] == "ConnectionError: the database is away"


async def client() -> AsyncIterator[str]:
    TOLD.append(("client made", asyncio.get_running_loop()))
    yield "client"
    TOLD.append(("client closed", asyncio.get_running_loop()))


async def call(of: Annotated[str, Depends(client, "worker")]) -> AsyncIterator[str]:
    yield f"call of {of}"
    TOLD.append("hung up")


async def plainly() -> int:
    return 3


def by_thread() -> Iterator[str]:
    TOLD.append("thread's made")
    yield threading.current_thread().name
    TOLD.append("thread's closed")


async def ask(
    message: Message,
    on: Annotated[str, Depends(call)],
    count: Annotated[int, Depends(plainly)],
    thread: Annotated[str, Depends(by_thread, "thread")],
) -> None:
    TOLD.append((message.body, on, count, thread))


def test_coroutines_share_one_event_loop_with_what_they_are_given(
    world: MemoryWorld, jms: Context, told: list[Any]
) -> None:
    jms.create_producer().send(ORDERS, "a")
    worker = Worker(world.factory())
    worker.handler(ORDERS, concurrency=2)(ask)
    worker.handler("other")(ask)
    run(jms, worker)
    (_, loop), (_, at_end) = told.pop(0), told.pop()
    assert loop is at_end
    assert told == ["thread's made", ("a", "call of client", 3, "jbm-loop"), "hung up", "thread's closed"]


def test_a_lifespan_is_around_all_messages_and_all_that_is_provided(
    world: MemoryWorld, jms: Context, told: list[Any]
) -> None:
    worker = Worker(world.factory())

    @worker.lifespan
    def files() -> Iterator[None]:
        told.append("files")
        yield
        told.append("files closed")

    @worker.lifespan
    async def sessions(of: Worker) -> AsyncIterator[None]:
        of.state.session = asyncio.get_running_loop()
        yield
        told.append("session closed")

    @worker.handler(ORDERS)
    async def work(message: Message, on: Annotated[str, Depends(client, "worker")]) -> None:
        told.append(worker.state.session is asyncio.get_running_loop())

    jms.create_producer().send(ORDERS, "a")
    for _ in range(2):  # it is run anew by each start
        run(jms, worker)
        assert [each for each in told if not isinstance(each, tuple)] == [
            "files",
            True,
            "session closed",
            "files closed",
        ]
        assert [each[0] for each in told if isinstance(each, tuple)] == ["client made", "client closed"]
        assert told[-3][0] == "client closed"
        told.clear()
        jms.create_producer().send(ORDERS, "b")


def test_a_worker_does_not_start_when_a_lifespan_fails(world: MemoryWorld, jms: Context, told: list[Any]) -> None:
    worker = Worker(world.factory())
    worker.handler(ORDERS)(work)

    @worker.lifespan
    def first() -> Iterator[None]:
        yield
        told.append("cleaned up")

    @worker.lifespan
    def second() -> Iterator[None]:
        raise ConnectionError("no database")
        yield

    with pytest.raises(ConnectionError, match="no database"):
        worker.start()
    assert told == ["cleaned up"]
    assert worker.connection is None


async def of_async(message: Message, of: Annotated[str, Depends(client)]) -> None: ...
def of_sync(message: Message, of: Annotated[str, Depends(client)]) -> None: ...


def of_message(message: Message) -> str:
    return ""


def short(of: Annotated[str, Depends(of_message)]) -> str:
    return of


def early(message: Message, of: Annotated[str, Depends(of_message, "worker")]) -> None: ...
def longer(message: Message, of: Annotated[str, Depends(short, "thread")]) -> None: ...
def wrong(message: Message, of: Annotated[str, Depends(short, "request")]) -> None: ...


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (of_sync, "its provider client is async, and it is not"),
        (early, "its parameter message: there is no message for a provider of scope 'worker'"),
        (longer, "its parameter of: scope 'message' ends before the 'thread' of what needs it"),
        (wrong, "its parameter of: scope is 'request': it is one of message, thread, worker"),
    ],
)
def test_a_provider_that_cannot_be_is_refused_when_its_handler_is_registered(
    world: MemoryWorld, handler: Callable[..., None], why: str
) -> None:
    worker = Worker(world.factory())
    worker.handler(ORDERS)(of_async)
    with pytest.raises(InvalidTypeError) as refused:
        worker.handler(ORDERS)(handler)
    assert why in str(refused.value)


def test_a_lifespan_without_a_yield_is_refused(world: MemoryWorld) -> None:
    with pytest.raises(InvalidTypeError, match="it has no yield; write what is made, a yield"):
        Worker(world.factory()).lifespan(settings)
