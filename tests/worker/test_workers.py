"""Workers: handlers by decorator, run on threads and on event loops."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jbm_kafka import (
    AcknowledgeMode,
    AddressSettings,
    ConnectionFactory,
    Context,
    Message,
    Queue,
    Reject,
    Retry,
    Session,
    TextMessage,
    Topic,
    Worker,
)
from jbm_kafka.core.open_files import FILES_OF_PROCESS
from jbm_kafka.errors import IllegalStateError, InvalidSettingError
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.few_files import files_at_most
from tests.support.waiting import wait_until

ORDERS, LETTERS, ANSWERS, OUT = Queue("orders"), Queue("DLQ"), Queue("answers"), Queue("out")
UNITS, EACH = 8, 6
SOON_S = 30.0
WAYS = ["threads", "loop", "transacted"]


@pytest.fixture
def jms(world: MemoryWorld) -> Iterator[Context]:
    settings = {"#": AddressSettings(partitions=2, max_delivery_attempts=3)}
    with world.factory(address_settings=settings).create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        for queue in (ORDERS, ANSWERS, OUT):
            jms.create_consumer(queue).close()  # which makes it
        yield jms


def handled_by(way: str, worker: Worker, work: Callable[[Message], Any], *, concurrency: int = 8) -> None:
    """Registers `work` as a handler of this kind."""
    if way == "threads":
        worker.handler(ORDERS, concurrency=concurrency)(work)
    elif way == "loop":

        async def coroutine(message: Message) -> Any:
            return await asyncio.to_thread(work, message)

        worker.handler(ORDERS, concurrency=concurrency)(coroutine)
    else:
        worker.handler(ORDERS, concurrency=concurrency, transacted=True)(lambda message, session: work(message))


def run_until(worker: Worker, is_done: Callable[[], bool]) -> None:
    worker.start()
    try:
        wait_until(is_done, about="the handlers", timeout_s=SOON_S)
    finally:
        assert worker.stop()


def left(jms: Context, queue: Queue) -> list[str]:
    return [str(message.body) for message in jms.create_browser(queue, include="all")]


@pytest.mark.parametrize("way", WAYS)
def test_units_are_handled_beside_each_other_and_each_in_order(world: MemoryWorld, jms: Context, way: str) -> None:
    """UNIT-18, UNIT-2: of a unit one at a time, at any concurrency."""
    for number in range(EACH):
        for unit in range(UNITS):
            jms.create_producer().send(ORDERS, f"{number}", unit_of_order=f"u{unit}")
    seen: dict[str | None, list[int]] = defaultdict(list)
    working, at_once = Counter[str | None](), list[int]()

    def work(message: Message) -> None:
        working[message.unit_of_order] += 1
        at_once.append(working[message.unit_of_order])
        seen[message.unit_of_order].append(int(message.body))
        working[message.unit_of_order] -= 1

    worker = Worker(world.factory())
    handled_by(way, worker, work)
    run_until(worker, lambda: sum(map(len, seen.values())) == UNITS * EACH)
    assert seen == {f"u{unit}": list(range(EACH)) for unit in range(UNITS)}
    assert set(at_once) == {1}
    assert left(jms, ORDERS) == []


@pytest.mark.parametrize("way", ["threads", "loop"])
def test_so_many_are_handled_at_once(world: MemoryWorld, jms: Context, way: str) -> None:
    for unit in range(4):
        jms.create_producer().send(ORDERS, "a", unit_of_order=f"u{unit}")
    together = threading.Barrier(4)  # broken, if one of them waits for another to end
    worker = Worker(world.factory())
    met = list[int]()
    if way == "threads":
        worker.handler(ORDERS, concurrency=4)(lambda message: met.append(together.wait(SOON_S)))
    else:

        @worker.handler(ORDERS, concurrency=4)
        async def meet(message: Message) -> None:
            met.append(await asyncio.get_running_loop().run_in_executor(pool, together.wait, SOON_S))

    with ThreadPoolExecutor(4) as pool:
        run_until(worker, lambda: len(met) == 4)


@pytest.mark.parametrize("way", WAYS)
def test_a_handler_that_raises_fails_an_attempt(world: MemoryWorld, jms: Context, way: str) -> None:
    """REDELIVER-1, REDELIVER-3: what it was is in the letter."""
    jms.create_producer().send(ORDERS, "bad")
    seen = list[int]()

    def work(message: Message) -> None:
        seen.append(message.delivery_count)
        raise ValueError("no such customer")

    worker = Worker(world.factory())
    handled_by(way, worker, work)
    run_until(worker, lambda: len(left(jms, LETTERS)) == 1)
    assert seen == [1, 2, 3]
    letter = jms.create_consumer(LETTERS).receive(SOON_S)
    assert letter is not None
    assert letter.properties["_JBM_LAST_ERROR"] == "ValueError: no such customer"


class _Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class _AsksForTheText(logging.Handler):
    """As a formatter of JSON does; what it raises goes on to whoever logs."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = "" if record.exc_info is None else str(record.exc_info[1])
        self.lines.append(f"{record.getMessage()}{text}")


@pytest.mark.parametrize("way", WAYS)
def test_a_log_that_cannot_show_the_error_kept_the_message_in_hand_for_ever(
    world: MemoryWorld, jms: Context, way: str
) -> None:
    """REDELIVER-1: the attempt is over before anybody has a line of it."""
    jms.create_producer().send(ORDERS, "bad")
    seen = list[int]()

    def work(message: Message) -> None:
        seen.append(message.delivery_count)
        raise _Silent

    worker, asks, log = Worker(world.factory()), _AsksForTheText(), logging.getLogger("jbm_kafka")
    handled_by(way, worker, work)
    log.addHandler(asks)
    try:
        run_until(worker, lambda: len(left(jms, LETTERS)) == 1)
    finally:
        log.removeHandler(asks)
    assert seen == [1, 2, 3]
    assert any("its handler raised" in line for line in asks.lines), "the line is told without its traceback"


@pytest.mark.parametrize("way", WAYS)
def test_reject_gives_up_and_retry_waits(world: MemoryWorld, jms: Context, way: str) -> None:
    """REDELIVER-3, REDELIVER-2."""
    jms.create_producer().send(ORDERS, "bad")
    jms.create_producer().send(ORDERS, "later")
    seen = list[str]()

    def work(message: Message) -> None:
        seen.append(message.body)
        if message.body == "bad":
            raise Reject("no such customer")
        if message.delivery_count == 1:
            raise Retry(delay_ms=60_000)

    worker = Worker(world.factory())
    handled_by(way, worker, work)
    worker.start()
    wait_until(lambda: len(seen) == 2 and len(left(jms, LETTERS)) == 1, about="both", timeout_s=SOON_S)
    world.clock.advance(60_000)
    wait_until(lambda: len(seen) == 3, about="the second attempt", timeout_s=SOON_S)
    assert worker.stop()
    assert sorted(seen) == ["bad", "later", "later"]
    letter = jms.create_consumer(LETTERS).receive(SOON_S)
    assert letter is not None
    told = letter.properties["_JBM_DEAD_LETTER_REASON"], letter.properties["_JBM_LAST_ERROR"]
    assert told == ("rejected", "no such customer")


def test_a_rejection_that_tells_nothing_is_one_all_the_same(world: MemoryWorld, jms: Context) -> None:
    """REDELIVER-3: what its reason lacked was raised instead, and its message stayed with the handler for ever."""

    class NoSuchCustomer(Reject):
        def __init__(self) -> None: ...

    class Later(Retry):
        def __init__(self) -> None: ...

    def work(message: Message) -> None:
        raise NoSuchCustomer if message.delivery_count == 2 else Later

    jms.create_producer().send(ORDERS, "bad")
    worker = Worker(world.factory())
    worker.handler(ORDERS)(work)
    run_until(worker, lambda: left(jms, LETTERS) == ["bad"])
    letter = jms.create_consumer(LETTERS).receive(SOON_S)
    assert letter is not None
    assert letter.properties["_JBM_LAST_ERROR"] == "rejected"


@pytest.mark.parametrize("way", WAYS)
def test_what_a_handler_returns_is_the_answer(world: MemoryWorld, jms: Context, way: str) -> None:
    for number in range(3):
        jms.create_producer().send(ORDERS, f"{number}", reply_to=ANSWERS, correlation_id=f"c{number}")
    jms.create_producer().send(ORDERS, "nobody asks")
    worker = Worker(world.factory())
    handled_by(way, worker, lambda message: f"done {message.body}")
    run_until(worker, lambda: len(left(jms, ANSWERS)) == 3 and not left(jms, ORDERS))
    consumer = jms.create_consumer(ANSWERS)
    answers = [message for _ in range(3) if (message := consumer.receive(SOON_S)) is not None]
    assert sorted((message.correlation_id, message.body) for message in answers) == [
        (f"c{number}", f"done {number}") for number in range(3)
    ]


def test_a_transacted_handler_that_fails_sends_nothing(world: MemoryWorld, jms: Context) -> None:
    """ACK-7: what it sent and the acknowledgement are one."""
    jms.create_producer().send(ORDERS, "a")
    jms.create_producer().send(ORDERS, "never")
    attempts = list[str]()
    worker = Worker(world.factory())

    @worker.handler("orders", transacted=True)
    def pay(message: Message, session: Session) -> None:
        attempts.append(message.body)
        session.create_producer(OUT).send(f"out {message.body} {message.delivery_count}")
        if message.body == "never":
            raise Reject("no")
        if message.delivery_count == 1:
            raise ValueError("once")

    run_until(worker, lambda: len(attempts) == 3 and left(jms, OUT) == ["out a 2"] and left(jms, LETTERS) == ["never"])


def test_middleware_stands_around_in_the_order_given(world: MemoryWorld, jms: Context) -> None:
    jms.create_producer().send(ORDERS, "a", reply_to=ANSWERS)
    worker, seen = Worker(world.factory()), list[str]()

    def named(name: str) -> Callable[..., Any]:
        def middleware(message: Message, call_next: Callable[[Message], Any]) -> Any:
            seen.append(name)
            return f"{name}({call_next(message)})"

        return middleware

    for name in ("outer", "inner"):
        worker.around(named(name))
    worker.handler(ORDERS)(lambda message: message.body)
    run_until(worker, lambda: left(jms, ANSWERS) == ["outer(inner(a))"])
    assert seen == ["outer", "inner"]


def test_a_handler_that_outlives_the_drain_is_left_and_its_message_comes_again(
    world: MemoryWorld, jms: Context, caplog: pytest.LogCaptureFixture
) -> None:
    jms.create_producer().send(ORDERS, "long")
    begun, may_end = threading.Event(), threading.Event()
    worker = Worker(world.factory(), drain_s=0.1)

    @worker.handler(ORDERS)
    def ship(message: Message) -> None:
        begun.set()
        may_end.wait(SOON_S)

    worker.start()
    assert begun.wait(SOON_S)
    assert not worker.stop()
    assert "1 handler runs still after 0.1 s (drain_s)" in caplog.text
    again = jms.create_consumer(ORDERS).receive(SOON_S)
    may_end.set()
    assert again is not None
    assert (again.body, again.redelivered) == ("long", True)


def test_a_coroutine_that_outlives_the_drain_is_cancelled(world: MemoryWorld, jms: Context) -> None:
    jms.create_producer().send(ORDERS, "long")
    begun, cancelled = threading.Event(), threading.Event()
    worker = Worker(world.factory(), drain_s=0.1)

    @worker.handler(ORDERS)
    async def ship(message: Message) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    worker.start()
    assert begun.wait(SOON_S)
    assert not worker.stop()
    assert cancelled.is_set()
    again = jms.create_consumer(ORDERS).receive(SOON_S)
    assert again is not None


def test_a_topic_is_handled_by_a_subscription(world: MemoryWorld, jms: Context) -> None:
    seen, heard = list[str](), list[str]()
    worker = Worker(world.factory())
    worker.handler("topic:prices", subscription="audit", shared=True, concurrency=3)(lambda m: seen.append(m.body))
    worker.handler("topic:prices", concurrency=3)(lambda m: heard.append(m.body))
    worker.start()
    for number in range(9):
        jms.create_producer().send(Topic("prices"), f"{number}")
    wait_until(lambda: len(seen) == 9 == len(heard), about="all, once each", timeout_s=SOON_S)
    assert worker.stop()
    assert sorted(seen) == sorted(heard) == [f"{number}" for number in range(9)]


def test_a_worker_runs_again_after_it_was_stopped(world: MemoryWorld, jms: Context) -> None:
    worker, seen = Worker(world.factory()), list[str]()
    worker.handler(ORDERS, selector="region = 'EU'")(lambda message: seen.append(message.body))
    for number in range(2):
        jms.create_producer().send(ORDERS, f"{number}", properties={"region": "EU"})
        run_until(worker, lambda: len(seen) == number + 1)  # noqa: B023
    assert worker.stop(), "nothing to stop"


def not_a_generator(message: Message) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("destination", "options", "function", "says"),
    [
        ("orders", {"concurrency": 0}, print, "concurrency"),
        ("orders", {"subscription": "audit"}, print, "no subscriptions"),
        ("topic:prices", {"shared": True}, print, "subscription="),
        ("topic:prices", {"transacted": True, "concurrency": 2}, print, "concurrency"),
        ("orders", {}, lambda: None, "message"),
        ("orders", {"transacted": True}, lambda message: None, "session"),
        ("orders", {"transacted": True}, test_a_handler_that_raises_fails_an_attempt, "handler"),
        ("orders", {}, not_a_generator, "yield"),
        (7, {}, print, "destination"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_said(
    destination: Any, options: dict[str, Any], function: Callable[..., Any], says: str
) -> None:
    with pytest.raises(InvalidSettingError, match=says):
        Worker("memory://refused").handler(destination, **options)(function)


def test_a_decorator_without_its_queue_is_refused_at_once() -> None:
    """`@worker.handler` without parentheses: it would be no handler, and nobody would hear of it."""
    worker: Any = Worker("memory://refused")
    for decorator, what in ((worker.handler, "destination"), (worker.task, "queue")):
        with pytest.raises(InvalidSettingError, match=f"{what} is <.*>: it is a queue's name"):
            decorator(print)


def test_a_coroutine_has_no_transaction() -> None:
    async def pay(message: Message, session: Session) -> None: ...

    with pytest.raises(InvalidSettingError, match="coroutine"):
        Worker("memory://refused").handler("orders", transacted=True)(pay)


def test_a_worker_that_runs_takes_no_more_handlers(world: MemoryWorld) -> None:
    worker = Worker(world.factory())
    with pytest.raises(IllegalStateError, match="no handler"):
        worker.start()
    worker.handler(ORDERS)(print)
    worker.start()
    with pytest.raises(IllegalStateError, match="runs"):
        worker.handler(ORDERS)(print)
    with pytest.raises(IllegalStateError, match="runs"):
        worker.start()
    assert worker.stop()
    with pytest.raises(InvalidSettingError, match="give it to the ConnectionFactory"):
        Worker(ConnectionFactory("memory://refused"), prefetch=1)


def test_a_consumer_runs_a_handler_until_it_is_closed(jms: Context) -> None:
    """UNIT-18: units beside each other, by one consumer."""
    for number in range(EACH):
        for unit in range(UNITS):
            jms.create_producer().send(ORDERS, f"{number}", unit_of_order=f"u{unit}")
    seen: dict[str | None, list[int]] = defaultdict(list)
    consumer = jms.create_consumer(ORDERS)

    def work(message: Message) -> None:
        seen[message.unit_of_order].append(int(message.body))
        if message.body == "0" and message.delivery_count == 1 and message.unit_of_order == "u3":
            seen["u3"].clear()
            raise Retry
        if sum(map(len, seen.values())) == UNITS * EACH:
            threading.Thread(target=consumer.close).start()

    consumer.run(work, concurrency=4)
    assert seen == {f"u{unit}": list(range(EACH)) for unit in range(UNITS)}
    with pytest.raises(IllegalStateError):
        consumer.run(work)


def test_only_individual_sessions_run_handlers(world: MemoryWorld) -> None:
    with world.factory().create_context() as jms, pytest.raises(IllegalStateError, match="INDIVIDUAL"):
        jms.create_consumer(ORDERS).run(print)


def test_an_interrupt_ends_a_run(jms: Context) -> None:
    """CONN-1: what was in hand comes again."""
    jms.create_producer().send(ORDERS, TextMessage("a"))

    def work(message: Message) -> None:
        raise KeyboardInterrupt

    consumer = jms.create_consumer(ORDERS)
    with pytest.raises(KeyboardInterrupt):
        consumer.run(work)
    again = jms.create_consumer(ORDERS).receive(SOON_S)
    assert again is not None
    assert again.delivery_count == 2


SIGNALLED = """
import signal, sys, threading
from jbm_kafka import ConnectionFactory, Queue, Worker

factory = ConnectionFactory("memory://signalled")
worker = Worker(factory)

@worker.handler("orders")
def ship(message):
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

with factory.create_connection() as connection, connection.create_session() as session:
    session.create_producer(Queue("orders")).send("one")
    sys.exit(worker.run())
"""


TWICE = """
import logging, os, signal, sys, threading
from jbm_kafka import ConnectionFactory, Queue, Worker

logging.basicConfig(level=logging.WARNING, format="%(message)s")
factory = ConnectionFactory("memory://twice")
worker = Worker(factory, drain_s=60)

@worker.handler("orders")
def ship(message):
    os.kill(os.getpid(), signal.SIGINT)
    while signal.getsignal(signal.SIGINT).__name__ != "_end_at_once":
        pass
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait()

with factory.create_connection() as connection, connection.create_session() as session:
    session.create_producer(Queue("orders")).send("one")
    sys.exit(worker.run())
"""


def test_a_second_interrupt_while_it_drains_ends_it_in_one_line() -> None:
    """It was a traceback."""
    ended = subprocess.run([sys.executable, "-c", TWICE], check=False, timeout=60, capture_output=True, text=True)
    assert ended.returncode == 128 + signal.SIGINT
    assert ended.stderr == "worker: asked once more, it ends at once; what its handlers work on comes again\n"


def test_a_worker_ends_also_when_another_thread_takes_the_signal() -> None:
    """The handler of the signal runs in the main thread, which slept on."""
    assert subprocess.run([sys.executable, "-c", SIGNALLED], check=False, timeout=60).returncode == 0


def test_a_limit_of_open_files_that_is_too_small_for_its_queues_is_named_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = Worker(ConnectionFactory("memory://few-files"))
    for queue in ("orders", "prices"):
        worker.handler(queue)(print)
    with files_at_most(FILES_OF_PROCESS):
        worker.start()
    worker.stop()
    few = [record.getMessage() for record in caplog.records if "files open" in record.getMessage()]
    assert len(few) == 1
    assert f"may have {FILES_OF_PROCESS} files open, and the queues of its 2 handlers may take 152" in few[0]
