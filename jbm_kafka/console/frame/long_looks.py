"""Looks into the cluster that may take long: one for all browsers that ask the same, and meanwhile how far it is.

A page answers at once, whatever a look costs: with what was found, or with how far it is, and asks again (decision
131).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Generic, TypeVar

from jbm_kafka.core.jms_errors import IllegalStateError, JMSError

T = TypeVar("T")

PATIENCE_S = 1.2
"""A page that has nothing by then says how far it is."""
AT_ONCE = 6
"""More wait in line: they share one interpreter with those who answer."""
ASKED_AGAIN_S = 4.0
"""A page that was told how far it is asks again within that: so long the answer of a long look stays good."""
KEPT_S = 30.0
"""A page that is renewed while somebody looks may show an answer that is older by so much, until there is another."""
LEFT_S = 20.0
"""A look that no page has asked for since then is given up."""


class LookLeftError(JMSError):
    """Nobody waits for it any more."""


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """The answer of a look."""

    answer: T
    age_s: float
    """The time since it was complete."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """It is still being looked."""

    words: str
    """How far it is, as it says itself; empty: it says nothing."""
    for_s: float
    before: int
    """Looks that are done before it begins; 0: it has begun."""


@dataclass(slots=True, eq=False)
class _Look:
    key: Hashable
    ask: Callable[[], Any]
    fresh_s: float
    asked_at: float
    wanted_at: float
    answer: Future[Any] = field(default_factory=Future)
    begun_at: float | None = None
    words: str = ""
    waiters: int = 0
    """Requests that wait for it however long it takes."""

    def is_left(self) -> bool:
        """Return True if nobody has asked for it lately."""
        return self.waiters == 0 and monotonic() - self.wanted_at > LEFT_S


@dataclass(frozen=True, slots=True)
class _Known:
    at: float
    good_until: float
    answer: Future[Any]


_here = threading.local()


def tell_progress(words: str) -> None:
    """Say how far the look is that this thread does; of a thread that does none nothing happens.

    Raises:
        LookLeftError: nobody asks for it any more.
    """
    look: _Look | None = getattr(_here, "look", None)
    if look is None:
        return
    if look.is_left():
        raise LookLeftError("nobody looks any more")
    look.words = words


class LongLooks:
    """Does looks on threads of its own. Any thread, any event loop."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._line: deque[_Look] = deque()
        self._current: dict[Hashable, _Look] = {}
        """Those that wait or go on and whose answer will be up to date."""
        self._known: dict[Hashable, _Known] = {}
        self._threads = self._idle = 0
        self._is_closed = False

    async def get(
        self,
        key: Hashable,
        fresh_s: float,
        ask: Callable[[], T],
        *,
        patience_s: float | None = None,
        may_be_old: bool = False,
    ) -> Found[T] | UnderWay:
        """Return what is known and fresh, else what `ask` gives.

        Args:
            key: who asks the same gets the same answer.
            fresh_s: so old an answer may be. One that took longer to get stays good for as long as it took.
            ask: is called on another thread, and may call `tell_progress`.
            patience_s: after so long the answer is how far it is; None: wait for it.
            may_be_old: then rather the last answer, if it is not much too old.

        Raises:
            Exception: what `ask` raised.
            IllegalStateError: the console ends.
        """
        with self._changed:
            known = self._known.get(key)
            if known is not None and monotonic() < known.good_until:
                return Found(known.answer.result(), monotonic() - known.at)
            look = self._wanted(key, fresh_s, ask)
            look.waiters += patience_s is None
        try:
            there = asyncio.wrap_future(look.answer)
            there.add_done_callback(_seen)
            done, _ = await asyncio.wait([there], timeout=patience_s)
        finally:
            with self._changed:
                look.waiters -= patience_s is None
        if done:
            return Found(there.result(), 0.0)
        if may_be_old and known is not None and known.answer.exception() is None:
            return Found(known.answer.result(), monotonic() - known.at)
        return self._under_way(look)

    def forget(self) -> None:
        """All answers are old, also those that are being looked for now."""
        with self._changed:
            self._known.clear()
            self._current.clear()

    def close(self) -> None:
        """Begin no more looks; those that go on end where they next say how far they are."""
        with self._changed:
            self._is_closed = True
            left, self._line = self._line, deque()
            for each in {*left, *self._current.values()}:
                each.waiters, each.wanted_at = 0, float("-inf")
            self._changed.notify_all()
        for each in left:
            each.answer.set_exception(_ends())

    def _wanted(self, key: Hashable, fresh_s: float, ask: Callable[[], Any]) -> _Look:
        now = monotonic()
        look = self._current.get(key)
        if look is None or look.answer.done():
            if self._is_closed:
                raise _ends()
            look = self._current[key] = _Look(key, ask, fresh_s, now, now)
            self._line.append(look)
            if self._idle < len(self._line) and self._threads < AT_ONCE:
                self._threads += 1
                # A daemon: a process that ends waits for no look.
                threading.Thread(target=self._run, name="jbm-console-look", daemon=True).start()
            self._changed.notify()
        look.wanted_at = now
        return look

    def _under_way(self, look: _Look) -> UnderWay:
        with self._changed:
            before = self._line.index(look) + 1 if look in self._line else 0
        return UnderWay(look.words, monotonic() - look.asked_at, before)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: self._line or self._is_closed)
                self._idle -= 1
                if self._is_closed:
                    return
                look = self._line.popleft()
                look.begun_at = monotonic()
            self._do(look)

    def _do(self, look: _Look) -> None:
        _here.look = look
        answer, error = None, None
        try:
            if look.is_left():
                raise LookLeftError("nobody looks any more")
            answer = look.ask()
        except Exception as raised:
            error = raised
        finally:
            _here.look = None
        now = monotonic()
        took_s = now - look.asked_at
        with self._changed:
            if self._current.get(look.key) is look:
                del self._current[look.key]
                if not isinstance(error, LookLeftError):
                    good_s = look.fresh_s if error is None else 0.0
                    if took_s >= PATIENCE_S:
                        good_s = max(good_s, ASKED_AGAIN_S, 0.0 if error else took_s)
                    self._known[look.key] = _Known(now, now + good_s, look.answer)
                for old in [key for key, each in self._known.items() if each.good_until + KEPT_S < now]:
                    del self._known[old]
            if error is None:
                look.answer.set_result(answer)
            else:
                look.answer.set_exception(error)


def _seen(answer: asyncio.Future[Any]) -> None:
    """Take an error that comes when nobody waits any more, or asyncio would log it: who asks again gets it."""
    if not answer.cancelled():
        answer.exception()


def _ends() -> IllegalStateError:
    return IllegalStateError("the console ends")
