"""Functions that are called by messages, with typed arguments, in a world whose clock is the test's."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Depends, Queue, Reject, Retry, Worker
from jbm_kafka.errors import IllegalStateError, InvalidTypeError, RequestTimeoutError, TaskFailedError
from jbm_kafka.testing.memory_world import MemoryWorld

SOON_S = 20.0


class Book(BaseModel):
    title: str
    count: int = 1


def worker_with(**settings: AddressSettings) -> Worker:
    return Worker(ConnectionFactory("memory://elsewhere", address_settings=settings))


def test_a_worker_calls_the_function_with_the_arguments_of_the_send(world: MemoryWorld) -> None:
    worker, seen = worker_with(), list[Any]()

    @worker.task("mails")
    def mail(to: str, book: Book, on: date, raw: bytes = b"", *, copies: list[int] | None = None) -> None:
        seen.append((to, book, on, raw, copies))

    world.start(worker)
    mail.send("joe", Book(title="Emma"), on=date(2026, 1, 2), raw=b"\xff", copies=[1, 2])
    world.drain(worker)
    mail.send(to="ann", book=Book(title="Ulysses", count=2), on=date(2026, 1, 3))
    world.drain(worker)
    assert seen == [
        ("joe", Book(title="Emma"), date(2026, 1, 2), b"\xff", [1, 2]),
        ("ann", Book(title="Ulysses", count=2), date(2026, 1, 3), b"", None),
    ]
    assert world.sent("mails")[1].json() == {
        "to": "ann", "book": {"title": "Ulysses", "count": 2}, "on": "2026-01-03"
    }  # fmt: skip


def test_a_call_is_the_plain_function(world: MemoryWorld) -> None:
    worker = worker_with()

    @worker.task("sums")
    def add(a: int, b: int = 2) -> int:
        """Adds."""
        return a + b

    assert add(1) == 3
    assert (add.__name__, add.__doc__, repr(add)) == ("add", "Adds.", "<Task add of queue:sums>")


def test_parameters_may_have_any_name(world: MemoryWorld) -> None:
    """As of a message, or of a Pydantic model."""
    worker, seen = worker_with(), list[Any]()

    @worker.task("mails")
    def mail(message: str, json: int, model_config: bool, self: str, options: str, at: str) -> None:
        seen.append((message, json, model_config, self, options, at))

    world.start(worker)
    mail.send(message="m", json=1, model_config=True, self="s", options="o", at="a")
    world.drain(worker)
    assert seen == [("m", 1, True, "s", "o", "a")]


def test_options_say_how_a_call_is_sent(world: MemoryWorld) -> None:
    worker, seen = worker_with(), list[str]()

    @worker.task("mails")
    def mail(to: str) -> None:
        seen.append(to)

    world.start(worker)
    sent = mail.options(
        unit_of_order="joe", delay=timedelta(hours=1), time_to_live=timedelta(days=1), priority=7,
        properties={"region": "EU"}, duplicate_id="once",
    ).send(to="joe")  # fmt: skip
    assert (sent.unit_of_order, sent.priority) == ("joe", 7)
    assert world.sent("mails")[0].properties == {"region": "EU", "jbm_task": "mail"}
    assert sent.expiration - sent.timestamp == 86_400_000
    mail.options(unit_of_order="joe", duplicate_id="once").send(to="again")
    world.drain(worker)
    assert seen == []
    world.drain(worker, advance_ms=3_600_000)
    assert seen == ["joe"]


def test_a_call_is_scheduled_for_an_instant(world: MemoryWorld) -> None:
    worker, seen = worker_with(), list[str]()

    @worker.task("mails")
    def mail(to: str) -> None:
        seen.append(to)

    world.start(worker)
    at = datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) + timedelta(hours=2)
    mail.schedule(at, to="joe")
    world.drain(worker, advance_ms=7_100_000)
    assert seen == []
    world.drain(worker, advance_ms=7_300_000)
    assert seen == ["joe"]
    with pytest.raises(ValueError, match="no time zone"):
        mail.schedule(datetime(2030, 1, 1), to="joe")  # noqa: DTZ001 - what is refused


def test_several_tasks_share_a_queue_and_one_that_is_unknown_is_a_letter(world: MemoryWorld) -> None:
    worker, seen = worker_with(), list[str]()

    @worker.task("shop")
    def mail(to: str) -> None:
        seen.append(f"mail to {to}")

    @worker.task("shop", name="post")
    def letter(to: str) -> None:
        seen.append(f"letter to {to}")

    newer = worker_with()

    @newer.task("shop")
    def fax(to: str) -> None:
        raise NotImplementedError

    world.start(worker)
    with world.factory().create_sender() as sender:
        fax.options(via=sender).send("joe")
    mail.send("joe")
    letter.send("ann")
    world.drain(worker)
    assert sorted(seen) == ["letter to ann", "mail to joe"]
    ((letter_of_fax, _),) = world.dead_letters()
    assert "no task 'fax' of queue shop in this worker, which has mail, post" in (letter_of_fax.last_error or "")


def test_what_is_no_argument_of_it_is_a_letter_that_says_so(world: MemoryWorld) -> None:
    worker = worker_with()

    @worker.task("mails")
    def mail(to: str, count: int) -> None:
        raise NotImplementedError

    world.start(worker)
    world.send("mails", '{"to": "joe", "count": "many", "more": 1}', properties={"jbm_task": "mail"})
    world.drain(worker)
    ((letter, _),) = world.dead_letters()
    assert "the body has no arguments of mail: count: Input should be a valid integer" in (letter.last_error or "")
    assert "more: Extra inputs are not permitted" in (letter.last_error or "")


def test_a_wrong_argument_is_refused_where_it_is_sent(world: MemoryWorld) -> None:
    worker = worker_with()

    @worker.task("mails")
    def mail(to: str, count: int = 1) -> None:
        raise NotImplementedError

    world.start(worker)
    with pytest.raises(InvalidTypeError, match=r"mail\(to, count\): count: Input should be a valid integer"):
        mail.send("joe", count="many")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="missing a required argument: 'to'"):
        mail.send()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'delay'"):
        mail.send("joe", delay=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="delay is 5: it is a timedelta"):
        mail.options(delay=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="via is 5"):
        mail.options(via=5)  # type: ignore[arg-type]
    assert world.sent("mails") == []


def test_a_call_is_part_of_a_sessions_transaction(world: MemoryWorld) -> None:
    worker, seen = worker_with(), list[str]()

    @worker.task("mails")
    def mail(to: str) -> None:
        seen.append(to)

    world.start(worker)
    with world.factory().create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.TRANSACTED)
        mail.options(via=session).send("nobody")
        session.rollback()
        mail.options(via=session).send("joe")
        session.commit()
    world.drain(worker)
    assert seen == ["joe"]
    with pytest.raises(ValueError, match=r"via is .*: ask\(\) sends by itself"):
        mail.options(via=session).ask("joe")


def test_who_asks_has_the_result_by_its_type(world: MemoryWorld) -> None:
    worker = worker_with()

    @worker.task("books")
    def find(title: str) -> Book | None:
        return Book(title=title, count=3) if title == "Emma" else None

    @worker.task("books")
    def forget(title: str) -> None:
        """Nothing is a result, too."""

    world.start(worker)
    found, missing, nothing = find.ask("Emma"), find.ask(title="Ulysses"), forget.ask("Emma")
    assert found.get(timeout=SOON_S) == Book(title="Emma", count=3)
    assert found.get(timeout=0) == Book(title="Emma", count=3)
    assert missing.get(timeout=SOON_S) is None
    nothing.get(timeout=SOON_S)


def test_coroutines_are_tasks_too(world: MemoryWorld) -> None:
    worker = worker_with(books=AddressSettings(max_delivery_attempts=1))

    @worker.task("books", concurrency=4)
    async def double(count: int) -> int:
        await asyncio.to_thread(int)
        if count < 0:
            raise ValueError("too few")
        return 2 * count

    world.start(worker)
    asked = [double.ask(count) for count in range(8)]
    assert [result.get(timeout=SOON_S) for result in asked] == list(range(0, 16, 2))
    with pytest.raises(TaskFailedError, match="task 'double' failed: ValueError: too few"):
        double.ask(-1).get(timeout=SOON_S)
    assert asyncio.run(double(2)) == 4


def test_an_error_is_raised_where_it_was_asked_once_nobody_tries_again(world: MemoryWorld) -> None:
    worker, attempts = worker_with(books=AddressSettings(max_delivery_attempts=3)), list[str]()

    @worker.task("books")
    def lend(title: str) -> str:
        attempts.append(title)
        if title == "rare":
            raise Reject("not to be lent")
        if title == "soon" and len(attempts) < 3:
            raise Retry
        if title == "never":
            raise KeyError(title)
        return title

    world.start(worker)
    assert lend.ask("soon").get(timeout=SOON_S) == "soon"
    assert attempts == ["soon", "soon", "soon"]
    with pytest.raises(TaskFailedError, match=r"task 'lend' failed: not to be lent$"):
        lend.ask("rare").get(timeout=SOON_S)
    attempts.clear()
    with pytest.raises(TaskFailedError, match=r"task 'lend' failed: KeyError: 'never'$"):
        lend.ask("never").get(timeout=SOON_S)
    assert attempts == ["never"] * 3


def test_a_result_that_does_not_come_in_time_may_come_yet(world: MemoryWorld) -> None:
    worker, goes_on = worker_with(), threading.Event()

    @worker.task("books")
    def find(title: str) -> str:
        goes_on.wait(SOON_S)
        return title

    world.start(worker)
    result = find.ask("Emma")
    with pytest.raises(RequestTimeoutError, match="task 'find': no result within 0 s; it was sent"):
        result.get(timeout=0)
    goes_on.set()
    assert result.get(timeout=SOON_S) == "Emma"


def print_it(text: str = "") -> None:
    raise NotImplementedError


def test_a_program_that_only_sends_has_a_connection_that_stop_closes(world: MemoryWorld) -> None:
    sends, works, seen = Worker(world.factory()), worker_with(), list[str]()

    @sends.task("mails")
    def mail(to: str) -> None:
        raise NotImplementedError

    @works.task("mails", name="mail")
    def carry_out(to: str) -> None:
        seen.append(to)

    mail.send("joe")
    result = mail.ask("ann")
    assert sends.connection is None
    world.drain(world.start(works))
    result.get(timeout=SOON_S)
    assert sends.stop()
    works.stop()
    closed = mail.ask("bob")
    sends.stop()
    with pytest.raises(IllegalStateError, match="the connection was closed before the result came"):
        closed.get(timeout=SOON_S)
    assert sorted(seen) == ["ann", "joe"]


def test_what_cannot_travel_is_refused_when_it_is_said() -> None:
    worker = worker_with()

    def many(*names: str) -> None:
        raise NotImplementedError

    def by_place(name: str, /) -> None:
        raise NotImplementedError

    def of_a_type(lock: threading.Thread) -> None:
        raise NotImplementedError

    def of_a_provider(name: str, prices: Annotated[object, Depends(dict)] = None) -> None:
        raise NotImplementedError

    def of_a_default(name: str, prices: object = Depends(dict)) -> None:
        raise NotImplementedError

    for provided in (of_a_provider, of_a_default):
        with pytest.raises(TypeError, match="prices: a call brings all arguments, so there is no Depends"):
            worker.task("mails")(provided)
    for function, why in ((many, "names: arguments travel by name"), (by_place, "name: arguments"), (of_a_type, "Pyd")):
        with pytest.raises(TypeError, match=why):
            worker.task("mails")(function)
    with pytest.raises(TypeError, match="it has no name"):
        worker.task("mails")(lambda: None)
    worker.handler("orders")(lambda message: None)
    with pytest.raises(IllegalStateError, match="has a handler"):
        worker.task(Queue("orders"))(print_it)
