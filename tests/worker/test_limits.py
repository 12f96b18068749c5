"""Limits of handlers: timeouts, rates, calls at once, pauses."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Context, Message, PauseOn, Queue, Reject, Session, Worker
from jbm_kafka.errors import InvalidSettingError, InvalidTypeError
from jbm_kafka.testing.memory_world import MemoryWorld
from jbm_kafka.worker.overdue import GRACE_MS
from tests.worker.limited_world import ORDERS, SOON_S, Limited, left, soon

LETTERS, BILLS = Queue("DLQ"), Queue("bills")
MakeLimited = Callable[..., Limited]
WAYS = ["threads", "loop", "transacted"]


@pytest.fixture
def jms(world: MemoryWorld) -> Iterator[Context]:
    settings = {"#": AddressSettings(partitions=2, max_delivery_attempts=5)}
    with world.factory(address_settings=settings).create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        for queue in (ORDERS, BILLS):
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


def send(jms: Context, *bodies: str, queue: Queue = ORDERS, unit: str | None = None) -> None:
    for body in bodies:
        jms.create_producer().send(queue, body, unit_of_order=unit)


def has(seen: list[str], count: int) -> bool:
    return len(seen) == count


def has_last(seen: list[str], last: str) -> bool:
    return seen[-1:] == [last]


def handled_by(way: str, worker: Worker, work: Any, **options: Any) -> None:
    """Registers `work`, which takes a message, as a handler of this kind."""
    if way == "loop":

        async def coroutine(message: Message) -> Any:
            return await asyncio.to_thread(work, message)

        worker.handler(ORDERS, **options)(coroutine)
    elif way == "threads":
        worker.handler(ORDERS, **options)(work)
    else:

        def in_transaction(message: Message, session: Session) -> Any:
            return work(message)

        worker.handler(ORDERS, transacted=True, **options)(in_transaction)


# -- timeouts ----------------------------------------------------------------------------------------------------------


def test_a_coroutine_that_takes_too_long_is_cancelled_and_failed(limit: MakeLimited, jms: Context) -> None:
    """HANDLER-1: with a reason, and what comes after it in its unit waits."""
    send(jms, "slow", "fast", unit="ann")
    limited, seen, cancelled = limit(), list[str](), threading.Event()

    @limited.worker.handler(ORDERS, timeout_s=30)
    async def ship(message: Message) -> None:
        seen.append(f"{message.body} {message.delivery_count}")
        if message.body == "slow":
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

    limited.start()
    for count in range(1, 6):
        soon(partial(has_last, seen, f"slow {count}"))
        limited.advance(29_999)
        assert not cancelled.is_set()
        limited.advance(1)
        assert cancelled.wait(SOON_S)
        cancelled.clear()
    soon(lambda: seen[-1:] == ["fast 1"])
    letter = jms.create_consumer(LETTERS).receive(SOON_S)
    assert letter is not None
    assert letter.properties["_JBM_LAST_ERROR"] == "TimeoutError: it ran for 30 s (timeout_s), and was cancelled"
    assert (limited.counted().handler_timeouts, limited.counted().handlers_overdue) == (5, 0)
    assert limited.worker.stop()
    assert seen == [*(f"slow {count}" for count in range(1, 6)), "fast 1"]


def test_a_timeout_of_its_own_is_a_coroutines_own_failure(limit: MakeLimited, jms: Context) -> None:
    send(jms, "a")
    limited, seen = limit(), list[int]()

    @limited.worker.handler(ORDERS, timeout_s=30)
    async def ship(message: Message) -> None:
        seen.append(message.delivery_count)
        raise TimeoutError("the shop does not answer")

    limited.start()
    letter = jms.create_consumer(LETTERS).receive(SOON_S)
    assert letter is not None
    assert letter.properties["_JBM_LAST_ERROR"] == "TimeoutError: the shop does not answer"
    assert limited.counted().handler_timeouts == 0
    assert limited.worker.stop()


def test_a_coroutine_that_ends_well_though_it_was_cancelled_has_done_its_work(limit: MakeLimited, jms: Context) -> None:
    send(jms, "a")
    limited, begun, ended = limit(), threading.Event(), threading.Event()

    @limited.worker.handler(ORDERS, timeout_s=30)
    async def ship(message: Message) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()

    limited.start()
    assert begun.wait(SOON_S)
    limited.advance(30_000)
    assert ended.wait(SOON_S)
    assert limited.worker.stop()
    assert left(jms, ORDERS) == left(jms, LETTERS) == []


@pytest.mark.parametrize("way", ["threads", "transacted"])
def test_a_function_that_takes_too_long_keeps_its_unit(
    limit: MakeLimited, jms: Context, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """HANDLER-1: one warning and a count; other units go on, and what it returns in the end counts."""
    send(jms, "slow", "next", unit="ann")
    send(jms, "other", unit="bob")
    limited, seen, may_end = limit(), list[str](), threading.Event()

    def work(message: Message) -> None:
        seen.append(message.body)
        if message.body == "slow":
            may_end.wait(SOON_S)
            seen.append("slow ended")

    handled_by(way, limited.worker, work, concurrency=2, timeout_s=30)
    limited.start()
    soon(lambda: sorted(seen) == ["other", "slow"])
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            limited.advance(30_000)
    lines = [record.getMessage() for record in caplog.records if "timeout_s" in record.getMessage()]
    assert len(lines) == 1, lines
    assert "orders: " in lines[0]
    assert "has run for 30 s (timeout_s) and goes on, at " in lines[0]
    assert (limited.counted().handler_timeouts, limited.counted().handlers_overdue) == (1, 1)
    assert sorted(seen) == ["other", "slow"], "nothing of the unit beside it"
    may_end.set()
    soon(lambda: len(seen) == 4)
    assert [each for each in seen if each != "other"] == ["slow", "slow ended", "next"]
    assert limited.counted().handlers_overdue == 0
    assert limited.worker.stop()
    assert left(jms, ORDERS) == left(jms, LETTERS) == []


def test_a_coroutine_that_does_not_heed_its_cancelling_is_overdue(limit: MakeLimited, jms: Context) -> None:
    send(jms, "a")
    limited, seen, may_end = limit(), list[str](), threading.Event()

    @limited.worker.handler(ORDERS, timeout_s=30)
    async def ship(message: Message) -> None:
        seen.append("begun")
        may_end.wait(SOON_S)  # it blocks the event loop

    limited.start()
    soon(lambda: seen)
    limited.advance(30_000)
    assert (limited.counted().handler_timeouts, limited.counted().handlers_overdue) == (1, 0)
    limited.advance(GRACE_MS)
    assert (limited.counted().handler_timeouts, limited.counted().handlers_overdue) == (1, 1)
    may_end.set()
    soon(lambda: limited.counted().handlers_overdue == 0)
    assert limited.worker.stop()


# -- rates -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_rate_is_kept_whatever_is_there(limit: MakeLimited, jms: Context, way: str) -> None:
    """HANDLER-3: what waits for it is not received."""
    send(jms, *"abcdef")
    limited, seen = limit(), list[str]()
    handled_by(way, limited.worker, lambda message: seen.append(message.body), rate="10/s", concurrency=3)
    limited.start()
    for count in range(1, 7):
        soon(partial(has, seen, count))
        soon(lambda: limited.in_hand == 0, "what waits for the rate is in no hand")
        limited.advance(99)
        assert len(seen) == count
        limited.advance(1)
    assert limited.worker.stop()
    assert sorted(seen) == list("abcdef")


def test_what_waits_for_its_rate_is_not_counted_as_received_when_the_worker_stops(
    limit: MakeLimited, jms: Context
) -> None:
    send(jms, "a", "b")
    limited, seen = limit(), list[str]()
    handled_by("threads", limited.worker, lambda message: seen.append(message.body), rate="1/h", concurrency=4)
    limited.start()
    soon(lambda: len(seen) == 1)
    assert limited.worker.stop()
    message = jms.create_consumer(ORDERS).receive(SOON_S)
    assert message is not None
    assert [*seen, message.body] in (["a", "b"], ["b", "a"])
    assert (message.delivery_count, message.redelivered) == (1, False)


def test_two_processes_share_a_total_rate_by_their_partitions(limit: MakeLimited, jms: Context) -> None:
    """HANDLER-3: each has the part of the partitions that it holds, also when the other has gone."""
    one, other = limit(number=0), limit(number=1)
    clock = other.clock = other.worker._clock = one.clock
    times, seen = list[int](), dict[str, list[str]]({"one": [], "other": []})

    def work(name: str, message: Message) -> None:
        times.append(clock.monotonic_ms())
        seen[name].append(message.body)

    for name, process in (("one", one), ("other", other)):
        process.worker.handler(ORDERS, rate_total="20/s", concurrency=2)(partial(work, name))
        process.start()
    soon(lambda: (one.partitions, other.partitions) == (1, 1), "a partition for each")
    for number in range(60):
        send(jms, f"{number}", unit=f"u{number}")

    def goes_on(*processes: Limited, until: int) -> bool:
        clock.advance(10)
        for process in processes:
            process.look()
        return len(times) >= until

    soon(lambda: goes_on(one, other, until=30))
    assert min(map(len, seen.values())) > 0, "both"
    assert other.worker.stop()
    soon(lambda: one.partitions == 2)
    soon(lambda: goes_on(one, until=60))
    assert one.worker.stop()
    assert sorted(seen["one"] + seen["other"]) == sorted(map(str, range(60)))
    assert max(sum(begin <= each < begin + 1_000 for each in times) for begin in times) <= 20


def test_a_total_rate_needs_messages_that_are_divided(world: MemoryWorld) -> None:
    worker = Worker(world.factory())
    with pytest.raises(InvalidSettingError, match="rate_total is '1/s': each process has all messages"):
        worker.handler("topic:news", rate_total="1/s")(print)
    worker.handler("topic:news", rate_total="1/s", subscription="a", shared=True)(lambda message: None)


# -- calls at once -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_so_many_calls_of_all_handlers_run_at_once(limit: MakeLimited, jms: Context, way: str) -> None:
    """HANDLER-2: an idle handler takes nobody's place."""
    limited, lock, now, most, seen = limit(max_in_flight=2), threading.Lock(), [0], [0], list[str]()
    may_end = threading.Semaphore(0)

    def work(message: Message) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        may_end.acquire(timeout=SOON_S)
        with lock:
            now[0] -= 1
            seen.append(message.body)

    handled_by(way, limited.worker, work, concurrency=4)
    limited.worker.handler(BILLS, concurrency=4)(work)
    limited.worker.handler("idle", concurrency=4)(work)
    limited.start()
    send(jms, *"abcd")
    send(jms, *"efgh", queue=BILLS)
    for count in range(1, 9):
        soon(lambda: now[0] == min(2, 8 - len(seen)))
        may_end.release()
        soon(partial(has, seen, count))
    assert most == [2]
    assert limited.worker.stop()
    assert left(jms, ORDERS) == left(jms, BILLS) == []


# -- pauses ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_a_handler_pauses_after_failures_in_a_row(
    limit: MakeLimited, jms: Context, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """HANDLER-4: it receives nothing, health and counts tell, and then it tries one message at a time."""
    limited, seen, is_down = limit(), list[str](), [True]

    def work(message: Message) -> None:
        seen.append(message.body)
        if is_down[0]:
            raise ConnectionError("the shop is down")

    handled_by(way, limited.worker, work, concurrency=3, pause_on=PauseOn(failures=3, for_s=30))
    send(jms, *"abcdefgh")
    with caplog.at_level(logging.INFO):
        limited.start()
        soon(lambda: limited.hindrances)
        (told,) = limited.hindrances
        assert "it receives nothing for 30 s: 3 failures in a row (pause_on)" in told
        assert (limited.counted().handler_pauses, limited.counted().handlers_paused) == (1, 1)
        soon(lambda: limited.in_hand == 0, "nothing is in a hand")
        begun = len(seen)
        assert 3 <= begun <= 5, "those beside the third"
        limited.advance(29_999)
        assert len(seen) == begun
        limited.advance(1)
        soon(lambda: limited.counted().handler_pauses == 2, "one more fails, and it pauses again")
        assert len(seen) == begun + 1
        is_down[0] = False
        limited.advance(30_000)
        soon(lambda: left(jms, ORDERS) == [])
    assert limited.hindrances == []
    assert (limited.counted().handler_pauses, limited.counted().handlers_paused) == (2, 0)
    assert left(jms, LETTERS) == []
    lines = [record.getMessage() for record in caplog.records if "orders: " in record.getMessage()]
    assert any("the last by ConnectionError: the shop is down" in line for line in lines)
    assert any("its pause is over" in line for line in lines)
    assert any("one went well" in line for line in lines)
    assert limited.worker.stop()


def test_others_get_the_messages_of_a_handler_that_pauses(limit: MakeLimited, jms: Context) -> None:
    """HANDLER-4."""
    bad, good, seen = limit(number=0), limit(number=1), list[str]()

    def fail(message: Message) -> None:
        raise ConnectionError("the shop is down")

    bad.worker.handler(ORDERS, concurrency=2, pause_on="2 failures in a row for 1 h")(fail)
    good.worker.handler(ORDERS, concurrency=2)(lambda message: seen.append(message.body))
    bad.start()
    send(jms, *"abcdefgh")
    soon(lambda: bad.hindrances)
    good.start()
    soon(lambda: sorted(seen) == list("abcdefgh"))
    assert bad.worker.stop()
    assert good.worker.stop()


def test_a_reject_says_nothing_of_what_a_handler_needs(limit: MakeLimited, jms: Context) -> None:
    limited = limit()

    def work(message: Message) -> None:
        raise Reject("no such book")

    limited.worker.handler(ORDERS, pause_on=PauseOn(failures=1, for_s=30))(work)
    send(jms, *"abc")
    limited.start()
    soon(lambda: len(left(jms, LETTERS)) == 3)
    assert limited.hindrances == []
    assert limited.worker.stop()


# -- what cannot be ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"timeout_s": 0}, "timeout_s is 0: it is a number of seconds, more than 0"),
        ({"timeout_s": "1"}, "timeout_s is '1': it is a number of seconds"),
        ({"timeout_s": True}, "timeout_s is True: it is a number of seconds"),
        ({"timeout_s": float("nan")}, "timeout_s is nan"),
        ({"timeout_s": 2_592_001}, "a month at most"),
        ({"rate": "fast"}, "rate is 'fast': it is a count"),
        ({"rate": 5}, "rate is 5: it is a count"),
        ({"rate_total": "1/d"}, "rate_total is '1/d': it is a count"),
        ({"pause_on": "often"}, "pause_on is 'often': it is PauseOn"),
    ],
)
def test_limits_that_cannot_be_are_refused(world: MemoryWorld, options: dict[str, Any], text: str) -> None:
    with pytest.raises((InvalidSettingError, InvalidTypeError), match=text):
        Worker(world.factory()).handler(ORDERS, **options)(lambda message: None)


@pytest.mark.parametrize("count", [0, 1.5, True, "2"])
def test_calls_at_once_are_a_number(world: MemoryWorld, count: Any) -> None:
    with pytest.raises(InvalidSettingError, match="max_in_flight"):
        Worker(world.factory(), max_in_flight=count)
