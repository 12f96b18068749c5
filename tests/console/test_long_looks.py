"""Looks that take long: one for all browsers, what is known meanwhile, and when one is given up."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest

from jbm_kafka.admin import Admin
from jbm_kafka.console import app
from jbm_kafka.console.frame import long_looks
from jbm_kafka.console.frame.long_looks import Found, LongLooks, LookLeftError, UnderWay, tell_progress
from jbm_kafka.console.serving import ConsoleAddress, ConsoleServer
from jbm_kafka.core.jms_errors import IllegalStateError, ResourceAllocationError
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.waiting import wait_until

T = TypeVar("T")
LONG_S = 1_000.0
WAIT_S = 30


@pytest.fixture
def looks() -> Iterator[LongLooks]:
    made = LongLooks()
    yield made
    made.close()


class SlowLook:
    """Answers with the number of times that it was asked, once it is let go."""

    def __init__(self) -> None:
        self.asked, self.go_on, self.ended = 0, threading.Event(), threading.Event()

    def __call__(self) -> int:
        self.asked += 1
        tell_progress(f"{self.asked} begun")
        try:
            assert self.go_on.wait(WAIT_S)
            tell_progress("nearly there")
        finally:
            self.ended.set()
        return self.asked


def got(looks: LongLooks, key: object, fresh_s: float, ask: Callable[[], T], whose: str = "ann") -> T:
    """The answer, however long it takes."""
    return asyncio.run(looks.wait(whose, key, fresh_s, ask, is_gone=never)).answer


async def never() -> bool:
    return False


def page(
    looks: LongLooks,
    key: object,
    fresh_s: float,
    ask: Callable[[], T],
    whose: str = "ann",
    *,
    may_be_old: bool = False,
) -> T | UnderWay:
    """What a page that has no patience shows."""
    found = asyncio.run(looks.get(whose, key, fresh_s, ask, patience_s=0, may_be_old=may_be_old))
    return found.answer if isinstance(found, Found) else found


def test_fifty_that_ask_at_once_are_one_look(looks: LongLooks) -> None:
    slow = SlowLook()

    async def let_go() -> None:
        slow.go_on.set()

    async def ask_all() -> list[Found[int] | None]:
        asked = [looks.wait("ann", "key", LONG_S, slow, is_gone=never) for _ in range(50)]
        return await asyncio.gather(*asked, let_go())

    assert [each.answer for each in asyncio.run(ask_all()) if isinstance(each, Found)] == [1] * 50
    assert slow.asked == 1


def test_who_has_no_patience_hears_how_far_it_is_and_then_gets_the_same_look(
    looks: LongLooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONSOLE-1: a page of a look that takes long, and the one that asks again."""
    monkeypatch.setattr(long_looks, "PATIENCE_S", 0.0)
    slow = SlowLook()

    def words() -> str | None:
        first = page(looks, "key", 0.0, slow)
        assert isinstance(first, UnderWay)
        return first.words if not first.before else None

    assert wait_until(words, about="it has begun", timeout_s=WAIT_S) == "1 begun"
    slow.go_on.set()
    assert got(looks, "key", 0.0, slow) == 1
    assert slow.asked == 1


def test_an_answer_that_took_long_is_there_for_who_asks_again(
    looks: LongLooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONSOLE-1: otherwise a page would begin anew each time, and never be there."""
    monkeypatch.setattr(long_looks, "PATIENCE_S", 0.0)
    slow, fast = SlowLook(), iter("ab")
    assert isinstance(page(looks, "key", 0.0, slow), UnderWay)
    slow.go_on.set()
    assert slow.ended.wait(WAIT_S)
    wait_until(lambda: "key" in looks._known, about="the answer", timeout_s=WAIT_S)
    assert got(looks, "key", 0.0, slow) == 1
    monkeypatch.setattr(long_looks, "PATIENCE_S", LONG_S)
    assert [got(looks, "other", 0.0, lambda: next(fast)) for _ in "ab"] == ["a", "b"]


def test_a_failure_is_told_to_who_asks_again_and_then_forgotten(
    looks: LongLooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> str:
        raise KeyError

    monkeypatch.setattr(long_looks, "PATIENCE_S", 0.0)
    for ask in (fail, lambda: "a"):
        with pytest.raises(KeyError):
            got(looks, "key", LONG_S, ask)
    monkeypatch.setattr(long_looks, "PATIENCE_S", LONG_S)
    with pytest.raises(KeyError):
        got(looks, "quick", LONG_S, fail)
    assert got(looks, "quick", LONG_S, lambda: "a") == "a"
    assert got(looks, "quick", LONG_S, lambda: "b") == "a"


def test_a_page_that_is_renewed_keeps_its_answer_until_there_is_another(looks: LongLooks) -> None:
    slow = SlowLook()
    assert got(looks, "key", 0.0, lambda: 17) == 17
    assert page(looks, "key", 0.0, slow, may_be_old=True) == 17
    assert isinstance(page(looks, "key", 0.0, slow), UnderWay)


def test_after_a_change_nobody_gets_what_was_looked_for_before(looks: LongLooks) -> None:
    """CONSOLE-1: also not of a look that went on meanwhile."""
    slow = SlowLook()
    assert isinstance(page(looks, "key", LONG_S, slow), UnderWay)
    wait_until(lambda: slow.asked, about="it has begun", timeout_s=WAIT_S)
    looks.forget()
    assert got(looks, "key", LONG_S, lambda: 17) == 17
    slow.go_on.set()
    assert slow.ended.wait(WAIT_S)
    assert got(looks, "key", LONG_S, slow) == 17


def test_a_look_that_nobody_waits_for_is_given_up(looks: LongLooks, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, left = SlowLook(), list[str]()

    def look() -> int:
        try:
            return slow()
        except LookLeftError as error:
            left.append(str(error))
            raise

    assert isinstance(page(looks, "key", 0.0, look), UnderWay)
    wait_until(lambda: slow.asked, about="it has begun", timeout_s=WAIT_S)
    monkeypatch.setattr(long_looks, "LEFT_S", 0.0)
    slow.go_on.set()
    wait_until(lambda: left, about="it is given up", timeout_s=WAIT_S)
    monkeypatch.setattr(long_looks, "LEFT_S", LONG_S)
    assert got(looks, "key", 0.0, lambda: 17) == 17


def test_more_than_go_on_at_once_wait_in_line(looks: LongLooks) -> None:
    slow = SlowLook()
    for number in range(long_looks.AT_ONCE):
        page(looks, number, 0.0, slow, f"viewer {number}")
    wait_until(lambda: slow.asked == long_looks.AT_ONCE, about="all threads look", timeout_s=WAIT_S)
    waiting = page(looks, "one more", 0.0, slow)
    assert isinstance(waiting, UnderWay)
    assert waiting.before == 1
    slow.go_on.set()
    assert got(looks, "one more", 0.0, slow) > long_looks.AT_ONCE


def test_when_the_console_ends_nobody_waits_for_what_has_not_begun(looks: LongLooks) -> None:
    slow = SlowLook()
    for number in range(long_looks.AT_ONCE + 1):
        page(looks, number, 0.0, slow, f"viewer {number}")
    wait_until(lambda: slow.asked == long_looks.AT_ONCE, about="all threads look", timeout_s=WAIT_S)
    looks.close()
    with pytest.raises(IllegalStateError):
        got(looks, "another", 0.0, slow)
    slow.go_on.set()
    assert slow.ended.wait(WAIT_S)


def test_old_answers_are_not_kept(looks: LongLooks, monkeypatch: pytest.MonkeyPatch) -> None:
    got(looks, "old", 0.0, lambda: "a")
    monkeypatch.setattr(long_looks, "KEPT_S", 0.0)
    got(looks, "new", 0.0, lambda: "b")
    assert "old" not in looks._known


def test_answers_are_kept_up_to_a_number_and_the_last_to_be_old_longest(
    looks: LongLooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for ever other messages would otherwise fill the memory."""
    monkeypatch.setattr(long_looks, "KEPT_MAX", 3)
    got(looks, "lasting", LONG_S, lambda: "a")
    for number in range(20):
        got(looks, number, 1.0, lambda: "b")
    assert set(looks._known) == {"lasting", 18, 19}


def test_a_viewer_with_many_looks_leaves_threads_to_others(looks: LongLooks) -> None:
    """CONSOLE-1: also where another one has asked the same, and stands behind much else."""
    slow = SlowLook()
    for number in range(3 * long_looks.AT_ONCE):
        page(looks, number, 0.0, slow)
    wait_until(lambda: slow.asked, about="they have begun", timeout_s=WAIT_S)
    assert isinstance(page(looks, "shared", 0.0, lambda: 17), UnderWay)
    assert got(looks, "shared", 0.0, lambda: 18, "bob") == 17
    assert got(looks, "own", 0.0, lambda: 19, "bob") == 19
    assert slow.asked <= long_looks.OF_ONE
    slow.go_on.set()


def test_the_line_has_an_end_and_the_longest_part_of_it_gives_way(
    looks: LongLooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_looks, "LINE_MAX", 4)
    looks, slow = LongLooks(), SlowLook()
    for number in range(2 * long_looks.OF_ONE):
        page(looks, number, 0.0, slow)
    wait_until(lambda: slow.asked == long_looks.OF_ONE, about="they have begun", timeout_s=WAIT_S)

    async def ask_more() -> None:
        for number in range(2):
            await looks.get("ann", f"more {number}", 0.0, slow, patience_s=0)

    async def pushed() -> None:
        await asyncio.gather(looks.wait("ann", long_looks.OF_ONE, 0.0, slow, is_gone=never), ask_more())

    with pytest.raises(ResourceAllocationError, match="too many"):
        asyncio.run(pushed())
    assert got(looks, "key", 0.0, lambda: 17, "bob") == 17
    slow.go_on.set()
    assert got(looks, long_looks.OF_ONE, 0.0, lambda: 18) == 18
    looks.close()


def test_a_program_that_gives_up_lets_go_of_its_look(world: MemoryWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would keep a thread busy for nobody, for as long as the look takes."""
    begun, ended = threading.Event(), threading.Event()

    def slow(admin: Admin, *_: Any, **__: Any) -> Iterator[Any]:
        begun.set()
        yield from ()
        try:
            while True:
                tell_progress("on and on")
                ended.wait(0.01)
        finally:
            ended.set()

    monkeypatch.setattr(Admin, "browse", slow)
    monkeypatch.setattr(long_looks, "LEFT_S", 2.5)
    with ConsoleServer(app(world.url), ConsoleAddress(port=0)) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as program:
            program.sendall(b"GET /api/v1/queues/orders/units HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert begun.wait(WAIT_S)
            assert not ended.wait(long_looks.LEFT_S + 1), "who waits is waited for"
        assert ended.wait(WAIT_S)


def test_a_look_that_is_given_up_when_it_is_asked_for_again_begins_anew(looks: LongLooks) -> None:
    """Who comes back to a page hears nothing of that."""
    tries = iter((LookLeftError("nobody looks any more"), None))

    def look() -> int:
        error = next(tries)
        if error is not None:
            raise error
        return 17

    assert got(looks, "key", 0.0, look) == 17


def test_whatever_a_look_raises_its_thread_goes_on(looks: LongLooks) -> None:
    def panic() -> int:
        raise BaseExceptionGroup("as a library in Rust does", [KeyboardInterrupt()])

    for number in range(2 * long_looks.AT_ONCE):
        with pytest.raises(BaseExceptionGroup):
            got(looks, number, 0.0, panic)
    assert got(looks, "key", 0.0, lambda: 17) == 17


def test_a_look_that_was_forgotten_ends_with_the_console(looks: LongLooks) -> None:
    slow, left = SlowLook(), list[str]()

    def look() -> int:
        try:
            return slow()
        except LookLeftError as error:
            left.append(str(error))
            raise

    page(looks, "key", 0.0, look)
    wait_until(lambda: slow.asked, about="it has begun", timeout_s=WAIT_S)
    looks.forget()
    looks.close()
    slow.go_on.set()
    wait_until(lambda: left, about="it is given up", timeout_s=WAIT_S)
