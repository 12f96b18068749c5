"""A worker's lanes: how much they take at once, and how a transacted one comes back after an outage."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Context, Message, Queue, Session, Worker
from jbm_kafka.core.statistics import Health
from jbm_kafka.errors import (
    ConnectionFailedError,
    IllegalStateError,
    InvalidTypeError,
    JMSError,
    JMSSecurityError,
    TransactionInDoubtError,
)
from jbm_kafka.jms.base.handler_threads import HandlerThreads
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.receiving.handler_settlement import Settlement
from jbm_kafka.testing.memory_world import MemoryWorld
from jbm_kafka.worker import lanes, message_worker
from jbm_kafka.worker.gated_receiving import at_gate
from jbm_kafka.worker.lanes import PAUSE_MAX_S, SessionLane
from tests.support.waiting import wait_until

ORDERS, BILLS, LETTERS = Queue("orders"), Queue("bills"), Queue("DLQ")
SOON_S = 30.0
AWAY = ConnectionFailedError("no answer from Kafka")


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as world:
        yield world


@pytest.fixture
def jms(world: MemoryWorld) -> Iterator[Context]:
    settings = {"#": AddressSettings(partitions=1), ORDERS.name: AddressSettings(max_delivery_attempts=1)}
    with world.factory(address_settings=settings).create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        jms.create_consumer(ORDERS).close()  # which makes it
        yield jms


class Outage:
    """A transacted lane whose first commit ends nobody knows how, and whose next consumers cannot be made so often."""

    def __init__(self, connection: Connection, *errors: Exception) -> None:
        self._connection = connection
        self._errors = list(errors)
        self._is_first = True
        self.handled: list[str] = []
        self.paused_s: list[float] = []
        self.health: list[Health] = []
        """Whenever it paused."""
        self.failures: list[Exception] = []
        self.in_pause: Callable[[], object] = lambda: None
        self.lane = SessionLane(
            "bills",
            connection,
            self._consumer,
            self._handle,
            self.failures.append,
            rest=self._rest,
            door=functools.partial(at_gate, None),
        )
        self.lane.start()

    def _consumer(self, session: Session) -> MessageConsumer:
        if not self._is_first and self._errors:
            raise self._errors.pop(0)
        return session.create_consumer(BILLS, prefetch=1)

    def _handle(self, message: Message, settlement: Settlement, session: Session) -> None:
        if self._is_first:
            self._is_first = False
            raise TransactionInDoubtError("no answer within 60 s")
        settlement.accept(message)
        self.handled.append(message.body)

    def _rest(self, closing: threading.Event, pause_s: float) -> None:
        self.paused_s.append(pause_s)
        self.health.append(self._connection.health(None))
        self.in_pause()


@pytest.fixture
def connection(world: MemoryWorld, jms: Context) -> Iterator[Connection]:
    jms.create_producer().send(BILLS, "a")
    with world.factory().create_connection() as connection:
        connection.start()
        yield connection


def test_a_transacted_handler_receives_again_however_long_nobody_answered(connection: Connection) -> None:
    """It opened a session once, and was dead when that failed, in a process that went on."""
    outage = Outage(connection, *[AWAY] * 8, IllegalStateError("the subscription has a consumer still"))
    wait_until(lambda: outage.handled == ["a"], about="the message", timeout_s=SOON_S)
    assert outage.paused_s == [0.5, 1, 2, 4, 8, 16, PAUSE_MAX_S, PAUSE_MAX_S, PAUSE_MAX_S]
    [told] = set(outage.health)
    assert (told.is_alive, told.is_ready) == (True, False)
    assert "bills: its transacted handler has yet to receive again, after: no answer within 60 s" in told.reasons
    wait_until(lambda: connection.health(None).is_ready, about="a lane that is back", timeout_s=SOON_S)
    outage.lane.close()
    assert outage.lane.join(SOON_S) == 0
    assert not outage.failures


@pytest.mark.parametrize("error", [JMSSecurityError("not authorised"), ZeroDivisionError("an error of ours")])
def test_what_trying_again_cannot_mend_is_told(connection: Connection, error: Exception) -> None:
    outage = Outage(connection, AWAY, error)
    wait_until(lambda: outage.failures == [error], about="the error", timeout_s=SOON_S)
    assert len(outage.paused_s) == 1


def test_a_lane_that_waits_to_receive_again_ends_when_it_is_told_to(connection: Connection) -> None:
    """At once, and it counts as no handler that runs."""
    outage = Outage(connection, *[AWAY] * 1_000)
    outage.in_pause = outage.lane.close
    wait_until(lambda: connection.health(None).is_ready and outage.paused_s, about="the end", timeout_s=SOON_S)
    assert outage.lane.join(0.0) == 0
    assert len(outage.paused_s) == 1


@pytest.mark.parametrize("way", ["threads", "loop", "transacted"])
def test_a_worker_takes_as_many_as_it_handles_and_the_others_are_for_others(
    world: MemoryWorld, jms: Context, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    """Of ACK-8: nothing waits behind a long handler, and nobody is told to acknowledge before receiving."""
    worker, may_end, bodies = Worker(world.factory()), threading.Event(), list[str]()

    def handle(message: Message, *session: Session) -> None:
        bodies.append(message.body)
        if message.body != "short":  # which makes its consumer ask for two at once, where it may
            may_end.wait(SOON_S)

    async def coroutine(message: Message) -> None:
        await asyncio.to_thread(handle, message)

    worker.handler(ORDERS, transacted=way == "transacted")(coroutine if way == "loop" else handle)
    worker.start()
    jms.create_producer().send(ORDERS, "short")
    wait_until(lambda: not list(jms.create_browser(ORDERS, include="all")), about="the short one", timeout_s=SOON_S)
    for number in range(2):
        jms.create_producer().send(ORDERS, f"{number}")
    wait_until(lambda: len(bodies) == 2, about="a long one", timeout_s=SOON_S)
    world.wait_idle()
    other = jms.create_consumer(ORDERS).receive(0)
    may_end.set()
    assert worker.stop()
    assert other is not None
    assert bodies == ["short", "0"]
    assert other.body == "1"
    assert not [record for record in caplog.records if "prefetch" in record.getMessage()]


def test_stopping_waits_no_longer_for_a_coroutine_that_blocks_its_loop(
    world: MemoryWorld, jms: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited until the handler returned, whatever drain_s was."""
    monkeypatch.setattr(lanes, "CANCELLED_S", 0.05)
    jms.create_producer().send(ORDERS, "long")
    has_begun, may_end = threading.Event(), threading.Event()
    worker = Worker(world.factory(), drain_s=0.05)

    @worker.handler(ORDERS)
    async def ship(message: Message) -> None:
        has_begun.set()
        may_end.wait(SOON_S)

    worker.start()
    assert has_begun.wait(SOON_S)
    assert not worker.stop()
    assert not may_end.is_set()
    may_end.set()


async def work(message: Message) -> None: ...


class Shop:
    async def __call__(self, message: Message) -> None: ...


@functools.wraps(work)
def wrapped(message: Message) -> Any:
    return work(message)


async def awaits_nothing(message: Message) -> Any:
    return work(message)


def forgets(message: Message, call_next: Callable[[Message], Any]) -> None:
    call_next(message).close()


@pytest.mark.parametrize("handler", [functools.partial(work), Shop(), functools.partial(Shop())])
def test_an_async_handler_in_a_shell_is_awaited(world: MemoryWorld, jms: Context, handler: Callable[..., Any]) -> None:
    """Some were taken for plain functions, and each message for a failure."""
    jms.create_producer().send(ORDERS, "a")
    worker = Worker(world.factory())
    worker.handler(ORDERS)(handler)
    worker.start()
    wait_until(lambda: not list(jms.create_browser(ORDERS, include="all")), about="the message", timeout_s=SOON_S)
    assert worker.stop()
    assert not list(jms.create_browser(LETTERS))


@pytest.mark.parametrize(
    ("handler", "around", "says"),
    [
        (wrapped, [], "the handler returned <coroutine object work .*nobody runs it"),
        (awaits_nothing, [], "the handler returned <coroutine object work .*nobody runs it"),
        (work, [forgets], "middleware is None"),
    ],
)
@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_handler_that_runs_nothing_ends_its_worker_and_its_message_is_no_letter(
    world: MemoryWorld,
    jms: Context,
    monkeypatch: pytest.MonkeyPatch,
    handler: Callable[..., Any],
    around: list[Any],
    says: str,
    concurrency: int,
) -> None:
    """Each message was a dead letter, or, where an async one forgot to await, was acknowledged."""
    monkeypatch.setattr(message_worker, "LOOK_S", 0.01)
    jms.create_producer().send(ORDERS, "a")
    worker = Worker(world.factory())
    worker.handler(ORDERS, concurrency=concurrency)(handler)
    for each in around:
        worker.around(each)
    with pytest.raises(InvalidTypeError, match=says):
        worker.run()
    again = jms.create_consumer(ORDERS).receive(0)
    assert again is not None, "a counted attempt, the only one that it has"
    assert again.redelivered
    assert not list(jms.create_browser(LETTERS))


def test_a_transacted_handler_that_runs_nothing_has_sent_nothing(
    world: MemoryWorld, jms: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_worker, "LOOK_S", 0.01)
    jms.create_producer().send(ORDERS, "a")
    worker = Worker(world.factory())

    @worker.handler(ORDERS, transacted=True)
    def ship(message: Message, session: Session) -> Awaitable[None]:
        session.create_producer(Queue("sent")).send("b")
        return work(message)

    with pytest.raises(InvalidTypeError, match="nobody runs it"):
        worker.run()
    assert not list(jms.create_browser(Queue("sent")))
    again = jms.create_consumer(ORDERS).receive(0)
    assert again is not None, "a counted attempt, the only one that it has"


def test_async_middleware_around_a_plain_handler_is_refused(world: MemoryWorld) -> None:
    worker = Worker(world.factory())
    worker.handler(ORDERS)(print)

    @worker.around
    async def timed(message: Message, call_next: Callable[[Message], Any]) -> Any:
        return await call_next(message)

    with pytest.raises(InvalidTypeError, match="it is async, and the handler of queue:orders is not"):
        worker.start()


def test_a_worker_that_is_at_its_end_is_not_alive(world: MemoryWorld, jms: Context) -> None:
    """Where nobody runs it, who else would tell? It looked well, and handled nothing."""
    worker = Worker(world.factory())
    worker.handler(ORDERS)(wrapped)
    worker.start()
    connection = worker.connection
    assert connection is not None
    assert connection.health(None).is_alive
    jms.create_producer().send(ORDERS, "a")
    wait_until(lambda: not connection.health(None).is_alive, about="the end", timeout_s=SOON_S)
    assert connection.health(None).reasons[0].startswith("a handler gets no message any more: the handler returned ")
    assert worker.stop()


class Refused:
    """A consumer whose process lost its rights."""

    destination = ORDERS
    is_closed = False

    def receive(self) -> Message | None:
        raise JMSSecurityError("queue:orders: not authorised")

    def close(self) -> None:
        self.is_closed = True


def test_a_handler_whose_process_lost_its_rights_is_told_to_be_at_its_end() -> None:
    """It was refused again and again, in a process that looked well."""
    failures: list[Exception] = []
    threads = HandlerThreads(Refused(), print, 3, "orders", failures.append)
    threads.start()
    assert threads.join(SOON_S + time.monotonic()) == 0
    assert [str(error) for error in failures] == ["queue:orders: not authorised"]
    with pytest.raises(JMSSecurityError):
        HandlerThreads(Refused(), print, 1, "orders").run()


def test_a_consumer_runs_no_handler_that_runs_nothing(jms: Context) -> None:
    jms.create_producer().send(ORDERS, "a")
    with pytest.raises(JMSError, match="nobody runs it"):
        jms.create_consumer(ORDERS).run(wrapped, concurrency=2)
    again = jms.create_consumer(ORDERS).receive(0)
    assert again is not None, "a counted attempt, the only one that it has"
