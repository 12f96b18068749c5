"""Looks that take long: one for all browsers, what is known meanwhile, and when one is given up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Iterator
from typing import TypeVar

import pytest

from jbm_kafka.console.frame import long_looks
from jbm_kafka.console.frame.long_looks import Found, LongLooks, LookLeftError, UnderWay, tell_progress
from jbm_kafka.core.jms_errors import IllegalStateError
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


def got(found: Awaitable[Found[T] | UnderWay]) -> T | UnderWay:
    async def get() -> Found[T] | UnderWay:
        return await found

    known = asyncio.run(get())
    return known.answer if isinstance(known, Found) else known


def test_fifty_that_ask_at_once_are_one_look(looks: LongLooks) -> None:
    slow = SlowLook()

    async def let_go() -> None:
        slow.go_on.set()

    async def ask_all() -> list[Found[int] | UnderWay | None]:
        return await asyncio.gather(*(looks.get("key", LONG_S, slow) for _ in range(50)), let_go())

    assert [each.answer for each in asyncio.run(ask_all()) if isinstance(each, Found)] == [1] * 50
    assert slow.asked == 1


def test_who_has_no_patience_hears_how_far_it_is_and_then_gets_the_same_look(
    looks: LongLooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONSOLE-1: a page of a look that takes long, and the one that asks again."""
    monkeypatch.setattr(long_looks, "PATIENCE_S", 0.0)
    slow = SlowLook()

    def words() -> str | None:
        first = got(looks.get("key", 0.0, slow, patience_s=0))
        assert isinstance(first, UnderWay)
        return first.words if not first.before else None

    assert wait_until(words, about="it has begun", timeout_s=WAIT_S) == "1 begun"
    slow.go_on.set()
    assert got(looks.get("key", 0.0, slow)) == 1
    assert slow.asked == 1


def test_an_answer_that_took_long_is_there_for_who_asks_again(
    looks: LongLooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CONSOLE-1: otherwise a page would begin anew each time, and never be there."""
    monkeypatch.setattr(long_looks, "PATIENCE_S", 0.0)
    slow, fast = SlowLook(), iter("ab")
    assert isinstance(got(looks.get("key", 0.0, slow, patience_s=0)), UnderWay)
    slow.go_on.set()
    assert slow.ended.wait(WAIT_S)
    wait_until(lambda: "key" in looks._known, about="the answer", timeout_s=WAIT_S)
    assert got(looks.get("key", 0.0, slow)) == 1
    monkeypatch.setattr(long_looks, "PATIENCE_S", LONG_S)
    assert [got(looks.get("other", 0.0, lambda: next(fast))) for _ in "ab"] == ["a", "b"]


def test_a_failure_is_told_to_who_asks_again_and_then_forgotten(
    looks: LongLooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> str:
        raise KeyError

    monkeypatch.setattr(long_looks, "PATIENCE_S", 0.0)
    for ask in (fail, lambda: "a"):
        with pytest.raises(KeyError):
            got(looks.get("key", LONG_S, ask))
    monkeypatch.setattr(long_looks, "PATIENCE_S", LONG_S)
    with pytest.raises(KeyError):
        got(looks.get("quick", LONG_S, fail))
    assert got(looks.get("quick", LONG_S, lambda: "a")) == "a"
    assert got(looks.get("quick", LONG_S, lambda: "b")) == "a"


def test_a_page_that_is_renewed_keeps_its_answer_until_there_is_another(looks: LongLooks) -> None:
    slow = SlowLook()
    assert got(looks.get("key", 0.0, lambda: 17)) == 17
    assert got(looks.get("key", 0.0, slow, patience_s=0, may_be_old=True)) == 17
    assert isinstance(got(looks.get("key", 0.0, slow, patience_s=0)), UnderWay)


def test_after_a_change_nobody_gets_what_was_looked_for_before(looks: LongLooks) -> None:
    """CONSOLE-1: also not of a look that went on meanwhile."""
    slow = SlowLook()
    assert isinstance(got(looks.get("key", LONG_S, slow, patience_s=0)), UnderWay)
    wait_until(lambda: slow.asked, about="it has begun", timeout_s=WAIT_S)
    looks.forget()
    assert got(looks.get("key", LONG_S, lambda: 17)) == 17
    slow.go_on.set()
    assert slow.ended.wait(WAIT_S)
    assert got(looks.get("key", LONG_S, slow)) == 17


def test_a_look_that_nobody_waits_for_is_given_up(looks: LongLooks, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, left = SlowLook(), list[str]()

    def look() -> int:
        try:
            return slow()
        except LookLeftError as error:
            left.append(str(error))
            raise

    assert isinstance(got(looks.get("key", 0.0, look, patience_s=0)), UnderWay)
    wait_until(lambda: slow.asked, about="it has begun", timeout_s=WAIT_S)
    monkeypatch.setattr(long_looks, "LEFT_S", 0.0)
    slow.go_on.set()
    wait_until(lambda: left, about="it is given up", timeout_s=WAIT_S)
    assert got(looks.get("key", 0.0, lambda: 17)) == 17


def test_more_than_go_on_at_once_wait_in_line(looks: LongLooks) -> None:
    slow = SlowLook()
    for number in range(long_looks.AT_ONCE):
        got(looks.get(number, 0.0, slow, patience_s=0))
    wait_until(lambda: slow.asked == long_looks.AT_ONCE, about="all threads look", timeout_s=WAIT_S)
    waiting = got(looks.get("one more", 0.0, slow, patience_s=0))
    assert isinstance(waiting, UnderWay)
    assert waiting.before == 1
    slow.go_on.set()
    assert got(looks.get("one more", 0.0, slow)) > long_looks.AT_ONCE  # type: ignore[operator]


def test_when_the_console_ends_nobody_waits_for_what_has_not_begun(looks: LongLooks) -> None:
    slow = SlowLook()
    for number in range(long_looks.AT_ONCE + 1):
        got(looks.get(number, 0.0, slow, patience_s=0))
    wait_until(lambda: slow.asked == long_looks.AT_ONCE, about="all threads look", timeout_s=WAIT_S)
    looks.close()
    with pytest.raises(IllegalStateError):
        got(looks.get("another", 0.0, slow))
    slow.go_on.set()
    assert slow.ended.wait(WAIT_S)


def test_old_answers_are_not_kept(looks: LongLooks, monkeypatch: pytest.MonkeyPatch) -> None:
    got(looks.get("old", 0.0, lambda: "a"))
    monkeypatch.setattr(long_looks, "KEPT_S", 0.0)
    got(looks.get("new", 0.0, lambda: "b"))
    assert "old" not in looks._known
