"""Batches: many messages in one call, in unit order, acknowledged together."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from jbm_kafka import (
    AcknowledgeMode,
    AddressSettings,
    Context,
    Depends,
    Failed,
    Header,
    Message,
    PauseOn,
    Queue,
    Reject,
    Retry,
    Session,
    Worker,
)
from jbm_kafka.errors import InvalidSettingError, InvalidTypeError
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.worker.limited_world import ORDERS, SOON_S, Limited, left, soon

LETTERS, OUT = Queue("DLQ"), Queue("out")
MakeLimited = Callable[..., Limited]
WAYS = ["plain", "async", "transacted"]
ATTEMPTS = 3


@dataclass(frozen=True)
class Order:
    book: str
    count: int


@pytest.fixture
def jms(world: MemoryWorld) -> Iterator[Context]:
    settings = {"#": AddressSettings(partitions=2, max_delivery_attempts=ATTEMPTS)}
    with world.factory(address_settings=settings).create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        for queue in (ORDERS, OUT):
            jms.create_consumer(queue).close()  # which makes it
        yield jms


@pytest.fixture
def limit(world: MemoryWorld) -> Iterator[MakeLimited]:
    with ExitStack() as ending:

        def make(**arguments: Any) -> Limited:
            limited = Limited(world, **arguments)
            ending.callback(limited.end)
            return limited

        yield make


def send(jms: Context, *bodies: str, unit: str | None = "ann") -> None:
    for body in bodies:
        jms.create_producer().send(ORDERS, body, unit_of_order=unit)


def batched_by(way: str, worker: Worker, work: Callable[[list[Message]], Any], **options: Any) -> None:
    """Registers `work` as a handler of batches of this kind."""
    if way == "plain":
        worker.batch(ORDERS, **options)(work)
    elif way == "async":

        async def coroutine(messages: list[Message]) -> Any:
            return await asyncio.to_thread(work, messages)

        worker.batch(ORDERS, **options)(coroutine)
    else:

        def in_transaction(messages: list[Message], session: Session) -> Any:
            return work(messages)

        worker.batch(ORDERS, transacted=True, **options)(in_transaction)


def bodies_of(messages: list[Message]) -> list[str]:
    return [message.body for message in messages]


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_has_what_is_there_each_unit_in_order(limit: MakeLimited, jms: Context, way: str) -> None:
    """HANDLER-5: several of one unit may be in it."""
    for number in range(5):
        for unit in range(4):
            send(jms, f"{number}", unit=f"u{unit}")
    limited, sizes, seen = limit(), list[int](), defaultdict[str | None, list[int]](list)

    def work(messages: list[Message]) -> None:
        sizes.append(len(messages))
        for message in messages:
            seen[message.unit_of_order].append(int(message.body))

    batched_by(way, limited.worker, work, size=20, wait_ms=200)
    limited.start()
    soon(lambda: sizes)
    assert limited.worker.stop()
    assert sizes == [20]
    assert seen == {f"u{unit}": list(range(5)) for unit in range(4)}
    assert left(jms, ORDERS) == []


def test_the_first_waits_so_long_for_others(limit: MakeLimited, jms: Context) -> None:
    """HANDLER-5."""
    limited, seen = limit(), list[list[str]]()
    batched_by("plain", limited.worker, lambda messages: seen.append(bodies_of(messages)), size=10, wait_ms=200)
    limited.start()
    send(jms, "a")
    soon(lambda: limited.in_hand == 1)
    limited.advance(199)
    send(jms, "b")
    soon(lambda: limited.in_hand == 2)
    assert seen == []
    limited.advance(1)
    soon(lambda: seen)
    assert seen == [["a", "b"]]


def test_without_a_wait_it_has_what_is_there(limit: MakeLimited, jms: Context) -> None:
    limited, seen = limit(), list[str]()
    batched_by("plain", limited.worker, lambda messages: seen.extend(bodies_of(messages)), size=10, wait_ms=0)
    limited.start()
    send(jms, *"abc")
    soon(lambda: len(seen) == 3)
    assert limited.worker.stop()
    assert seen == list("abc")


@pytest.mark.parametrize("way", WAYS)
def test_what_failed_comes_again_with_what_is_behind_it_in_its_unit(limit: MakeLimited, jms: Context, way: str) -> None:
    """HANDLER-6: uncounted; the others are acknowledged."""
    send(jms, *"abcd", unit="ann")
    send(jms, *"xyz", unit="bob")
    limited, seen = limit(), list[list[tuple[str, int]]]()

    def work(messages: list[Message]) -> None:
        seen.append(sorted((message.body, message.delivery_count) for message in messages))
        if len(seen) == 1:
            raise Failed([message for message in messages if message.body in "bc"])

    batched_by(way, limited.worker, work, size=7, wait_ms=200)
    limited.start()
    soon(lambda: len(seen) == 1)
    soon(lambda: limited.in_hand == 3, "the others are acknowledged, and these come again")
    assert sorted(left(jms, ORDERS)) == ["b", "c", "d"]
    limited.advance(200)
    soon(lambda: len(seen) == 2)
    assert limited.worker.stop()
    assert seen[0] == [(body, 1) for body in "abcdxyz"]
    assert [body for body, _ in seen[1]] == ["b", "c", "d"]
    assert dict(seen[1])["b"] == 2
    assert left(jms, ORDERS) == left(jms, LETTERS) == []


def test_what_is_behind_a_failed_one_counts_no_attempt(limit: MakeLimited, jms: Context) -> None:
    """HANDLER-6: the one that fails again and again is given up, and what was behind it goes well."""
    send(jms, *"abc", unit="ann")
    limited, seen = limit(), list[str]()

    def work(messages: list[Message]) -> None:
        bad = [message for message in messages if message.body == "a"]
        if bad:
            raise Failed(bad, "no such book")
        seen.extend(bodies_of(messages))

    limited.worker.batch(ORDERS, size=3, wait_ms=0)(work)
    limited.start()
    soon(lambda: sorted(seen) == ["b", "c"])
    letter = jms.create_consumer(LETTERS).receive(SOON_S)
    assert letter is not None
    assert letter.body == "a"
    assert letter.properties["_JBM_LAST_ERROR"] == "Failed: no such book"
    assert limited.worker.stop()
    assert seen == ["b", "c"]


@pytest.mark.parametrize("way", WAYS)
def test_any_other_exception_fails_all(limit: MakeLimited, jms: Context, way: str) -> None:
    """HANDLER-6."""
    send(jms, *"ab", unit="ann")
    send(jms, *"xy", unit="bob")
    limited, seen = limit(), list[list[tuple[str, int]]]()

    def work(messages: list[Message]) -> None:
        seen.append(sorted((message.body, message.delivery_count) for message in messages))
        raise ValueError("the database is away")

    batched_by(way, limited.worker, work, size=4, wait_ms=0)
    limited.start()
    soon(lambda: len(left(jms, LETTERS)) == 4)
    assert limited.worker.stop()
    counts = [count for rows in seen for body, count in rows if body == "a"]
    assert counts == [1, 2, 3]
    assert left(jms, ORDERS) == []


@pytest.mark.parametrize("way", WAYS)
def test_reject_and_retry_are_said_of_all(limit: MakeLimited, jms: Context, way: str) -> None:
    send(jms, *"ab", unit="ann")
    limited, seen = limit(), list[str]()

    def work(messages: list[Message]) -> None:
        seen.extend(bodies_of(messages))
        raise Reject("no such shop") if "a" in bodies_of(messages) else Retry(delay_ms=60_000)

    batched_by(way, limited.worker, work, size=2, wait_ms=200)
    limited.start()
    soon(lambda: len(left(jms, LETTERS)) == 2)
    send(jms, *"cd", unit="ann")
    soon(lambda: seen == list("abcd"))
    soon(lambda: limited.in_hand == 0)
    assert limited.worker.stop()
    assert left(jms, ORDERS) == ["c", "d"]


def test_a_failed_message_of_elsewhere_fails_all(limit: MakeLimited, jms: Context) -> None:
    send(jms, *"ab")
    limited, calls = limit(), list[int]()

    def work(messages: list[Message]) -> None:
        calls.append(len(messages))
        raise Failed([Message()])

    limited.worker.batch(ORDERS, size=2, wait_ms=0)(work)
    limited.start()
    soon(lambda: len(left(jms, LETTERS)) == 2)
    assert left(jms, ORDERS) == []


def test_what_failed_is_messages() -> None:
    with pytest.raises(InvalidTypeError, match="messages is 'a': they are messages of the batch"):
        Failed(["a"])  # type: ignore[list-item]
    with pytest.raises(InvalidTypeError, match=r"messages is .*: they are .*; write Failed\(\[message\]\) for one"):
        Failed(Message())  # type: ignore[arg-type]


def test_a_transaction_has_the_sends_and_all_of_the_batch(limit: MakeLimited, jms: Context) -> None:
    """HANDLER-5: a failed part is out of it, and what was sent is in it."""
    send(jms, *"abc")
    limited, calls = limit(), list[int]()

    def work(messages: list[Message], session: Session) -> None:
        calls.append(len(messages))
        session.create_producer(OUT).send(f"{len(messages)}")
        if len(calls) == 1:
            raise Failed(messages[2:])
        if len(calls) == 2:
            raise ValueError("rolled back")

    limited.worker.batch(ORDERS, size=3, wait_ms=0, transacted=True)(work)
    limited.start()
    soon(lambda: left(jms, ORDERS) == [])
    assert limited.worker.stop()
    sent = left(jms, OUT)
    assert len(sent) == len(calls) - 1, "all but that of the call that raised"


# -- arguments ---------------------------------------------------------------------------------------------------------


def test_bodies_are_read_and_one_that_does_not_fit_is_rejected_alone(limit: MakeLimited, jms: Context) -> None:
    """HANDLER-6: what is behind it in its unit comes again, uncounted."""
    producer = jms.create_producer()
    for unit, bodies in (("ann", [Order("Emma", 1), "none", Order("Emma", 3)]), ("bob", [Order("Dune", 4)])):
        for body in bodies:
            producer.send(ORDERS, json=body, unit_of_order=unit)
    limited, seen = limit(), list[tuple[Order, int]]()

    @limited.worker.batch(ORDERS, size=4, wait_ms=0)
    def work(orders: list[Order], messages: list[Message]) -> None:
        seen.extend((order, message.delivery_count) for order, message in zip(orders, messages, strict=True))

    limited.start()
    soon(lambda: len(seen) == 3)
    letter = jms.create_consumer(LETTERS).receive(SOON_S)
    assert letter is not None
    assert str(letter.properties["_JBM_LAST_ERROR"]).startswith("the body is no Order: ")
    assert limited.worker.stop()
    assert [order.count for order, _ in seen if order.book == "Emma"] == [1, 3]
    assert left(jms, ORDERS) == []


def test_a_body_that_does_not_fit_may_be_retried(limit: MakeLimited, jms: Context) -> None:
    jms.create_producer().send(ORDERS, json="none")
    limited = limit()

    @limited.worker.batch(ORDERS, size=4, wait_ms=0, on_invalid="retry")
    def work(orders: list[Order]) -> None:
        raise AssertionError("nothing fits")

    limited.start()
    soon(lambda: len(left(jms, LETTERS)) == 1)
    assert limited.counted().returned == ATTEMPTS - 1


events: list[str] = []


def ledger() -> Iterator[list[str]]:
    events.append("made")
    yield events
    events.append("cleaned up")


def test_providers_are_made_once_for_a_batch(limit: MakeLimited, jms: Context) -> None:
    events.clear()
    send(jms, *"abc")
    limited = limit()

    @limited.worker.batch(ORDERS, size=3, wait_ms=200)
    def work(bodies: list[str], ledger: Annotated[list[str], Depends(ledger)]) -> None:
        ledger.extend(bodies)

    limited.start()
    soon(lambda: len(events) == 5)
    assert limited.worker.stop()
    assert events == ["made", "a", "b", "c", "cleaned up"]


def one_body(order: Order) -> None: ...
def a_header(messages: list[Message], region: Annotated[str, Header]) -> None: ...
def not_a_session(messages: list[Message], session: Session) -> None: ...
def of_a_message(message: Message) -> str:
    return str(message.body)


def by_a_message(messages: list[Message], it: Annotated[str, Depends(of_a_message)]) -> None: ...
def none_at_all() -> None: ...


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (one_body, "order: a batch has several messages"),
        (a_header, "region: a header is one message's"),
        (not_a_session, "session: a Session is a transaction's"),
        (by_a_message, "message: a batch has several messages"),
        (none_at_all, "messages"),
    ],
)
def test_signatures_that_cannot_work_are_refused(world: MemoryWorld, function: Callable[..., Any], text: str) -> None:
    with pytest.raises(InvalidTypeError, match=text):
        Worker(world.factory()).batch(ORDERS, size=2, wait_ms=0)(function)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"size": 0, "wait_ms": 0}, "size is 0: it is an int of messages from 1 to 10000"),
        ({"size": 1, "wait_ms": -1}, "wait_ms is -1: it is an int of milliseconds"),
        ({"size": 1, "wait_ms": 60_001}, "wait_ms is 60001"),
    ],
)
def test_sizes_that_cannot_be_are_refused(world: MemoryWorld, options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidSettingError, match=text):
        Worker(world.factory()).batch(ORDERS, **options)


def test_batches_at_once_share_their_source(world: MemoryWorld) -> None:
    with pytest.raises(InvalidSettingError, match="batches at once share topic:news"):
        Worker(world.factory()).batch("topic:news", size=2, wait_ms=0, concurrency=2)(lambda messages: None)


# -- limits and ends ---------------------------------------------------------------------------------------------------


def test_batches_have_limits(limit: MakeLimited, jms: Context) -> None:
    """HANDLER-3, HANDLER-4: a call is one of them."""
    send(jms, *"abcdef")
    limited, seen = limit(), list[int]()

    def work(messages: list[Message]) -> None:
        seen.append(len(messages))
        if len(seen) < 3:
            raise ConnectionError("away")

    limited.worker.batch(ORDERS, size=6, wait_ms=0, rate="1/s", pause_on=PauseOn(2, 30))(work)
    limited.start()
    soon(lambda: len(seen) == 1)
    limited.advance(999)
    assert len(seen) == 1
    limited.advance(1)
    soon(lambda: limited.hindrances)
    assert len(seen) == 2
    limited.advance(30_000)
    soon(lambda: len(seen) >= 3)
    soon(lambda: not limited.hindrances)


def test_a_coroutine_that_takes_too_long_fails_its_batch(limit: MakeLimited, jms: Context) -> None:
    """HANDLER-1."""
    send(jms, *"ab")
    limited, seen = limit(), list[int]()

    @limited.worker.batch(ORDERS, size=2, wait_ms=200, timeout_s=30)
    async def work(messages: list[Message]) -> None:
        seen.append(len(messages))
        if len(seen) == 1:
            await asyncio.Event().wait()

    limited.start()
    soon(lambda: seen)
    limited.advance(30_000)
    soon(lambda: (limited.in_hand == 2 and len(seen) == 2) or limited.counted().returned >= 2)
    limited.advance(200)
    soon(lambda: left(jms, ORDERS) == [])
    assert limited.counted().handler_timeouts == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_worker_that_stops_waits_for_a_batch(limit: MakeLimited, jms: Context, way: str) -> None:
    send(jms, *"abc")
    limited, begun, may_end = limit(), threading.Event(), threading.Event()

    def work(messages: list[Message]) -> None:
        begun.set()
        may_end.wait(SOON_S)

    batched_by(way, limited.worker, work, size=3, wait_ms=0)
    limited.start()
    assert begun.wait(SOON_S)
    threading.Timer(0.01, may_end.set).start()
    assert limited.worker.stop()


def test_a_coroutine_that_is_left_when_the_worker_stops_comes_again(limit: MakeLimited, jms: Context) -> None:
    send(jms, "a")
    limited, seen = limit(drain_s=0.1), list[str]()

    @limited.worker.batch(ORDERS, size=1, wait_ms=0)
    async def work(messages: list[Message]) -> None:
        seen.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("ended")

    limited.start()
    soon(lambda: seen)
    assert not limited.worker.stop()
    assert seen == ["begun", "ended"]
    message = jms.create_consumer(ORDERS).receive(SOON_S)
    assert message is not None
    assert message.redelivered


def test_a_batch_that_may_not_begin_goes_back_as_it_came(limit: MakeLimited, jms: Context) -> None:
    """HANDLER-2: stopping takes it out of the hand, uncounted."""
    limited, seen = limit(max_in_flight=1), list[int]()
    begun, may_end = threading.Event(), threading.Event()

    def other(message: Message) -> None:
        begun.set()
        may_end.wait(SOON_S)

    limited.worker.handler(OUT)(other)
    limited.worker.batch(ORDERS, size=2, wait_ms=0)(lambda messages: seen.append(len(messages)))
    limited.start()
    jms.create_producer().send(OUT, "x")
    assert begun.wait(SOON_S)
    send(jms, *"ab")
    limited.worker.drain_s = 0.1
    assert not limited.worker.stop()
    may_end.set()
    assert seen == []
    message = jms.create_consumer(ORDERS).receive(SOON_S)
    assert message is not None
    assert (message.body, message.delivery_count) == ("a", 1)


def test_a_handler_whose_call_runs_nothing_is_at_its_end(limit: MakeLimited, jms: Context) -> None:
    send(jms, *"ab")
    limited = limit()

    async def coroutine(messages: list[Message]) -> None: ...

    def work(messages: list[Message]) -> Any:
        return coroutine(messages)

    limited.worker.batch(ORDERS, size=2, wait_ms=0)(work)
    limited.start()
    soon(lambda: any("a handler gets no message any more" in line for line in limited.hindrances))
    limited.end()
    assert left(jms, ORDERS) == ["a", "b"]
    assert left(jms, LETTERS) == []
