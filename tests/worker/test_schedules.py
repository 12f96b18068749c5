"""Functions that run at times of a line of cron, in a world whose clock is the test's."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest

from jbm_kafka import Header, Message, Queue, Worker
from jbm_kafka.admin import Admin
from jbm_kafka.core.cron.schedule import Missed
from jbm_kafka.errors import IllegalStateError, OrderError
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.waiting import wait_until

MINUTE = 60_000
DAY = 24 * 60 * MINUTE


def worker_of(seen: list[Any], line: str = "0 3 * * *", **options: Any) -> Worker:
    worker = Worker("memory://elsewhere")

    @worker.cron(line, queue="reports", **options)
    def nightly(due: datetime) -> None:
        seen.append(due.isoformat())

    return worker


def days_at_three(world: MemoryWorld, count: int) -> list[str]:
    """The next of them."""
    first = (world.clock.now_ms() // 1000 // 3600 // 24 * 24 + 3) * 3600
    first += 0 if first * 1000 > world.clock.now_ms() else 24 * 3600
    return [datetime.fromtimestamp(first + 86_400 * number, UTC).isoformat() for number in range(count)]


def test_a_run_comes_when_it_is_due_with_its_time(world: MemoryWorld) -> None:
    seen: list[str] = []
    wanted = days_at_three(world, 3)
    worker = world.start(worker_of(seen))
    world.drain(worker)
    assert seen == []
    world.drain(worker, advance_ms=3 * DAY)
    assert seen == wanted


def test_of_several_workers_one_has_the_run(world: MemoryWorld) -> None:
    """CRON-1."""
    seen: list[str] = []
    wanted = days_at_three(world, 20)
    workers = [world.start(worker_of(seen)) for _ in range(4)]
    world.drain(*workers, advance_ms=20 * DAY)
    assert seen == wanted
    assert len(world.sent("reports")) == 20


def test_their_own_threads_send_what_is_due_too(world: MemoryWorld) -> None:
    seen: list[str] = []
    wanted = days_at_three(world, 2)
    world.start(worker_of(seen))
    world.start(worker_of(seen))
    world.clock.advance(DAY)
    wait_until(lambda: seen == wanted[:1], about="the first run", timeout_s=20)
    world.clock.advance(DAY)
    wait_until(lambda: seen == wanted, about="the second run", timeout_s=20)


def test_what_fails_comes_again_as_any_message(world: MemoryWorld) -> None:
    worker, attempts = Worker("memory://elsewhere"), []

    @worker.cron("0 3 * * *", queue="reports", unit_of_order="nightly")
    def nightly(message: Message, due: Annotated[str, Header("jbm_due")]) -> None:
        attempts.append((message.delivery_count, message.unit_of_order, due.endswith("T03:00:00+00:00")))
        if len(attempts) < 3:
            raise ValueError("not yet")

    world.drain(world.start(worker), advance_ms=DAY)
    assert attempts == [(1, "nightly", True), (2, "nightly", True), (3, "nightly", True)]


def test_functions_share_a_queue_and_each_has_its_own_runs(world: MemoryWorld) -> None:
    worker, seen = Worker("memory://elsewhere"), []

    @worker.cron("0 3 * * *", queue="reports")
    def nightly() -> None:
        seen.append("nightly")

    @worker.cron("0 4 * * *", queue="reports", name="early")
    def morning(message: Message) -> None:
        seen.append(f"morning of {message.properties['jbm_task']}")

    world.drain(world.start(worker), advance_ms=DAY)
    assert sorted(seen) == ["morning of early", "nightly"]


def test_coroutines_have_runs_too(world: MemoryWorld) -> None:
    worker, seen = Worker("memory://elsewhere"), []

    @worker.cron("0 3 * * *", queue="reports")
    async def nightly() -> None:
        seen.append("nightly")

    world.drain(world.start(worker), advance_ms=DAY)
    assert seen == ["nightly"]


@pytest.mark.parametrize(("missed", "count"), [("once", 1), ("skip", 0), ("all", 5)])
def test_runs_that_were_missed_go_by_their_rule(world: MemoryWorld, missed: Missed, count: int) -> None:
    """CRON-3."""
    seen: list[str] = []
    wanted = days_at_three(world, 6)
    with world.factory().create_connection():  # else the world is gone with its worker
        world.start(worker_of(seen, missed=missed)).stop()
        world.clock.advance(5 * DAY)
        world.drain(world.start(worker_of(seen, missed=missed)))
        assert sorted(seen) == wanted[5 - count : 5]


def test_the_line_of_the_worker_that_started_last_holds_for_all_and_is_told(
    world: MemoryWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """CRON-2."""
    seen: list[str] = []
    caplog.set_level(logging.WARNING)
    old = world.start(worker_of(seen))
    new = world.start(worker_of(seen, "0 3 1 1 *"))
    assert "'0 3 1 1 *' UTC, missed once from now on; before, '0 3 * * *' UTC, missed once of process" in caplog.text
    caplog.clear()
    world.drain(old, new, advance_ms=2 * DAY if days_at_three(world, 2)[1][5:10] not in ("01-01", "01-02") else 0)
    assert seen == []
    assert "'0 3 1 1 *' UTC, missed once, as a later deployment (process" in caplog.text
    assert "and not '0 3 * * *' UTC, missed once, as this worker does" in caplog.text
    new.stop()
    world.start(worker_of(seen))
    world.drain(old, advance_ms=DAY)
    assert len(seen) == 1


def test_a_clock_that_goes_back_has_no_run_again(world: MemoryWorld, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    worker = world.start(worker_of(seen))
    world.drain(worker, advance_ms=2 * DAY)
    world.clock._now_ms -= 2 * DAY  # as somebody sets a machine's
    for _ in range(4):
        world.drain(worker)
        world.clock.advance(DAY // 2)
    assert len(seen) == 2
    assert "s ahead of this machine's clock, so it has none until then" in caplog.text
    assert "jbm-kafka cron resume reports nightly" in caplog.text
    world.clock.advance(DAY)
    world.drain(worker)
    assert len(seen) == 3


def test_where_nothing_can_be_sent_its_health_says_so_and_it_goes_on_when_that_is_over(world: MemoryWorld) -> None:
    seen: list[str] = []
    wanted = days_at_three(world, 1)
    worker = world.start(worker_of(seen))
    with Admin(world.url) as admin:
        admin.pause("reports", "sending", by="ann")
        world.clock.advance(DAY)
        connection = worker.connection
        assert connection is not None
        wait_until(
            lambda: "sending is paused by ann" in str(connection.health(None).reasons), about="why", timeout_s=20
        )
        assert seen == []
        admin.resume("reports", "sending")
    wait_until(lambda: seen == wanted, about="the run", timeout_s=20)
    wait_until(lambda: connection.health(None).is_ready, about="health", timeout_s=20)


def test_what_names_no_function_of_the_queue_is_a_letter_that_says_so(world: MemoryWorld) -> None:
    worker = world.start(worker_of([]))
    world.send("reports", "no name")
    with world.factory().create_sender() as sender:
        sender.send(Queue("reports"), "wrong name", properties={"jbm_task": "weekly"})
    world.drain(worker)
    reasons = sorted(letter.last_error or "" for letter, _ in world.dead_letters())
    assert "has no property 'jbm_task', and queue reports is one of tasks: nightly" in reasons[0]
    assert "no task 'weekly' of queue reports in this worker, which has nightly" in reasons[1]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"line": "0 25 * * *"}, r"line is '0 25 \* \* \*': it is five fields"),
        ({"tz": "Europe/Atlantis"}, "tz is 'Europe/Atlantis': this machine knows no time zone"),
        ({"tz": 7}, "tz is 7: it is the name of a time zone"),
        ({"missed": "never"}, "missed is 'never': it is 'once', 'skip' or 'all'"),
        ({"unit_of_order": ""}, "unit_of_order is ''"),
        ({"name": "two\nlines"}, "name is"),
        ({"name": 7}, "name is 7: it is a str"),
        ({"queue": 7}, "queue is 7: it is a queue's name"),
        ({"concurrency": 0}, "concurrency is 0"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_said(options: dict[str, Any], why: str) -> None:
    worker = Worker("memory://elsewhere")
    given = {"line": "0 3 * * *", "queue": "reports", **options}
    with pytest.raises((ValueError, OrderError), match=why):
        worker.cron(given.pop("line"), **given)(print_it)


def print_it() -> None:
    raise NotImplementedError


def handler_first(worker: Worker) -> None:
    worker.handler("reports")(lambda message: None)
    worker.cron("0 3 * * *", queue="reports")(print_it)


def handler_second(worker: Worker) -> None:
    worker.cron("0 3 * * *", queue="reports")(print_it)
    worker.handler("reports")(lambda message: None)
    worker.start()


def same_name(worker: Worker) -> None:
    worker.cron("0 3 * * *", queue="reports")(print_it)
    worker.cron("0 4 * * *", queue="reports")(print_it)


@pytest.mark.parametrize("what", [handler_first, handler_second, same_name])
def test_a_queue_has_a_handler_or_functions_of_different_names(what: Callable[[Worker], None]) -> None:
    with pytest.raises(IllegalStateError, match=r"handler|already"):
        what(Worker("memory://elsewhere"))


def test_of_a_queue_all_are_coroutines_or_none() -> None:
    worker = Worker("memory://elsewhere")
    worker.cron("0 3 * * *", queue="reports")(print_it)

    async def other() -> None:
        raise NotImplementedError

    with pytest.raises(TypeError, match="async"):
        worker.cron("0 3 * * *", queue="reports")(other)
