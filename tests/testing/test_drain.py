"""Tests of applications: a worker is drained to a fixed point, in milliseconds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jbm_kafka import AddressSettings, Message, Queue, Reject, Retry, Session, Worker
from jbm_kafka.admin import Admin
from jbm_kafka.errors import IllegalStateError, JMSError
from jbm_kafka.testing.memory_world import MemoryWorld

HOUR_MS = 3_600_000
SOON_S = 30.0
SETTINGS = {
    "#": AddressSettings(max_delivery_attempts=3, redelivery_delay_ms=0, partitions=2),
    "slow": AddressSettings(max_delivery_attempts=3, redelivery_delay_ms=HOUR_MS),
    "kept": AddressSettings(max_delivery_attempts=1, on_dead_letter="hold"),
}


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as made:
        yield made


def worker_of(**handlers: Callable[..., Any]) -> Worker:
    """A worker with a handler of each queue."""
    worker = Worker("localhost:9092", address_settings=SETTINGS, kafka={"client.id": "shop"})
    for queue, handler in handlers.items():
        worker.handler(queue, concurrency=2)(handler)
    return worker


def bodies(messages: list[Message]) -> list[Any]:
    return [message.body for message in messages]


def two_hops(way: str) -> Worker:
    """Orders go to parcels, and parcels to shipped; the first attempt of each parcel fails."""
    worker = Worker("localhost:9092", address_settings=SETTINGS)

    def pack(message: Message, session: Session) -> None:
        session.create_producer(Queue("parcels")).send(message.body, unit_of_order=message.unit_of_order)

    def pack_plainly(message: Message) -> None:
        assert worker.connection is not None
        with worker.connection.create_session() as session:
            pack(message, session)

    async def pack_async(message: Message) -> None:
        await asyncio.to_thread(pack_plainly, message)

    def ship(message: Message, session: Session) -> None:
        if message.delivery_count == 1:
            raise Retry(delay_ms=HOUR_MS)
        session.create_producer(Queue("shipped")).send(message.body, unit_of_order=message.unit_of_order)

    ways: dict[str, Callable[..., Any]] = {"threads": pack_plainly, "loop": pack_async, "transacted": pack}
    worker.handler("orders", concurrency=2, transacted=way == "transacted")(ways[way])
    worker.handler("parcels", concurrency=2, transacted=True)(ship)
    return worker


@pytest.mark.parametrize(("way", "rounds"), [("threads", 100), ("loop", 50), ("transacted", 50)])
def test_two_hops_with_retries_are_done_when_drain_returns(world: MemoryWorld, way: str, rounds: int) -> None:
    """`wait_idle` leaves out what handlers have in hand: between a receive and the send that follows it returned."""
    world.start(two_hops(way))
    for number in range(rounds):
        both = [f"{number} a", f"{number} b"]
        for body in both:
            world.send("orders", body, unit_of_order="ann")
        world.drain()
        assert bodies(world.sent("parcels"))[2 * number :] == both
        assert len(world.sent("shipped")) == 2 * number
        world.drain(advance_ms=2 * HOUR_MS)
        assert bodies(world.sent("shipped"))[2 * number :] == both


HOPS = 300


def test_a_message_that_goes_to_and_fro_is_found_wherever_it_is(world: MemoryWorld) -> None:
    """Two queues are read one after the other: it may leave the second for the first, which was read already."""
    worker = Worker("localhost:9092", address_settings=SETTINGS)

    def pass_on(message: Message) -> None:
        number, there = int(message.body), {"ping": "pong", "pong": "ping"}[str(message.destination).partition(":")[2]]
        if number < HOPS:
            world.send(there, str(number + 1))

    worker.handler("ping")(pass_on)
    worker.handler("pong")(pass_on)
    world.start(worker)
    world.send("ping", "1")
    world.drain()
    assert len(world.sent("ping")) + len(world.sent("pong")) == HOPS


def failing(message: Message) -> None:
    raise ValueError(message.body)


@pytest.mark.parametrize("round_", range(10))
def test_what_fails_for_good_is_a_dead_letter_when_drain_returns(world: MemoryWorld, round_: int) -> None:
    def refused(message: Message) -> None:
        raise Reject("no such book")

    letters: list[str] = []
    world.start(worker_of(orders=failing, books=refused, DLQ=lambda message: letters.append(message.body)))
    world.send("orders", "a")
    world.send("books", "b")
    world.drain()
    told = {
        message.body: (letter.reason, letter.attempts, letter.last_error) for letter, message in world.dead_letters()
    }
    assert told == {"a": ("max-delivery-attempts", 3, "ValueError: a"), "b": ("rejected", 1, "no such book")}
    assert sorted(letters) == ["a", "b"]  # the letters have a handler, too: a hop like any other


def test_a_delay_ends_when_the_test_says_so_and_not_before(world: MemoryWorld) -> None:
    attempts: list[int] = []

    def slow(message: Message) -> None:
        attempts.append(message.delivery_count)
        failing(message)

    world.start(worker_of(slow=slow))
    world.send("slow", "a")
    begun_ms = world.clock.now_ms()
    world.drain()
    assert (attempts, world.clock.now_ms()) == ([1], begun_ms)
    world.drain(advance_ms=HOUR_MS - 1)
    assert (attempts, world.clock.now_ms()) == ([1], begun_ms)  # no timer ends by then: the clock stands
    world.drain(advance_ms=10 * HOUR_MS)
    assert (attempts, world.clock.now_ms()) == ([1, 2, 3], begun_ms + 2 * HOUR_MS)  # and no further than the last one
    assert [message.body for _, message in world.dead_letters()] == ["a"]


def test_a_message_that_is_to_be_delivered_later_waits_for_the_clock(world: MemoryWorld) -> None:
    seen: list[str] = []
    world.start(worker_of(orders=lambda message: seen.append(message.body)))
    world.send("orders", "later", delivery_delay_ms=HOUR_MS)
    world.drain()
    assert seen == []
    world.drain(advance_ms=HOUR_MS)
    assert seen == ["later"]


def test_a_handler_that_hangs_is_named(world: MemoryWorld) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def pack_for_ever(message: Message) -> None:
        has_begun.set()
        may_end.wait()

    world.start(worker_of(orders=pack_for_ever, books=print))
    world.send("orders", "a")
    assert has_begun.wait(SOON_S)
    try:
        with pytest.raises(
            JMSError, match=r"^drain: still at work after 0\.2 s, .*pack_for_ever of queue:orders has 1"
        ):
            world.drain(timeout_s=0.2)
    finally:
        may_end.set()
    world.drain()


def test_handlers_that_never_come_to_an_end_are_told(world: MemoryWorld) -> None:
    worker = Worker("localhost:9092", address_settings=SETTINGS)
    worker.handler("orders", transacted=True)(
        lambda message, session: session.create_producer(Queue("orders")).send(message.body)
    )
    world.start(worker)
    world.send("orders", "a")
    with pytest.raises(JMSError, match=r"still at work after 0\.2 s, in which [0-9]+ messages .* queue:orders"):
        world.drain(timeout_s=0.2)


def test_what_is_paused_is_told_with_who_paused_it(world: MemoryWorld) -> None:
    seen: list[str] = []
    world.start(worker_of(orders=lambda message: seen.append(message.body)))
    with Admin(world.url) as admin:
        admin.pause("orders", "receiving", by="ann")
        world.send("orders", "a")
        with pytest.raises(JMSError, match="what is still there: queue:orders: 1 wait: receiving is paused by ann"):
            world.drain()
        world.drain(may_stay=True)
        assert seen == []
        admin.resume("orders")
    world.drain()
    assert seen == ["a"]


def test_what_is_on_hold_or_chosen_by_no_handler_is_told(world: MemoryWorld) -> None:
    worker = worker_of(kept=failing)
    worker.handler("books", selector="region = 'EU'")(print)
    world.start(worker)
    world.send("books", "a", properties={"region": "US"})
    with pytest.raises(JMSError, match="queue:books: 1 that no handler's selector chooses"):
        world.drain()
    world.send("kept", "a", unit_of_order="ann")
    world.send("kept", "b", unit_of_order="ann")
    with pytest.raises(JMSError, match="queue:kept: 1 on hold, until an operator lets them go"):
        world.drain(advance_ms=HOUR_MS)
    world.drain(may_stay=True)
    assert len(world.sent("kept")) == 2


def test_what_was_rolled_back_was_not_sent(world: MemoryWorld) -> None:
    worker = Worker("localhost:9092", address_settings=SETTINGS)

    def pack(message: Message, session: Session) -> None:
        session.create_producer(Queue("parcels")).send(f"attempt {message.delivery_count}")
        if message.delivery_count < 3:
            raise ValueError

    worker.handler("orders", transacted=True)(pack)
    world.start(worker)
    world.send("orders", "a")
    world.drain()
    assert bodies(world.sent("parcels")) == ["attempt 3"]
    assert world.dead_letters() == []


def test_a_handler_of_a_subscription_is_drained_too(world: MemoryWorld) -> None:
    seen: list[str] = []
    worker = Worker("localhost:9092", address_settings=SETTINGS)
    worker.handler("topic:news")(lambda message: seen.append(message.body))
    worker.handler("topic:news", subscription="all", shared=True)(lambda message: seen.append(message.body))
    world.start(worker)
    world.send("topic:news", "a")
    world.drain()
    assert seen == ["a", "a"]
    assert bodies(world.sent("topic:news")) == ["a"]


def test_a_call_of_a_handler_that_runs_nothing_is_raised(world: MemoryWorld) -> None:
    async def pack(message: Message) -> None:
        return None

    def forgotten(message: Message) -> Any:
        return pack(message)

    world.start(worker_of(orders=forgotten))
    world.send("orders", "a")
    with pytest.raises(JMSError, match="the handler"):
        world.drain()


def test_a_worker_works_again_where_it_did_when_the_world_is_closed() -> None:
    worker = worker_of(orders=print)
    before = worker._factory
    with MemoryWorld() as world:
        assert world.start(worker) is worker
        with pytest.raises(IllegalStateError, match=r"stop\(\) it first"):
            world.start(worker)
    assert (worker.connection, worker._factory) == (None, before)
    with MemoryWorld() as world:
        with pytest.raises(IllegalStateError, match=r"does not run; start it in the world: world\.start\(worker\)"):
            world.drain(worker)
        with pytest.raises(IllegalStateError, match="no worker was started"):
            world.drain()
        with pytest.raises(JMSError, match="no handler"):
            world.start(Worker(world.url))
        with MemoryWorld() as other, pytest.raises(IllegalStateError, match="runs elsewhere"):
            world.drain(other.start(worker))


def test_a_worker_that_was_stopped_does_not_run(world: MemoryWorld) -> None:
    worker = world.start(worker_of(orders=print))
    assert worker.stop()
    world.send("orders", "a")
    assert bodies(world.sent(Queue("orders"))) == ["a"]
    with pytest.raises(IllegalStateError, match="does not run"):
        world.drain()
