"""Looks into the cluster that may take long: one for all browsers that ask the same, and meanwhile how far it is.

A page answers at once, whatever a look costs: with what was found, or with how far it is, and asks again (decision
131).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any, Generic, TypeVar

from jbm_kafka.amqp.turns import Turns
from jbm_kafka.client.quick_switches import QUICK_SWITCHES
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError, ResourceAllocationError

T = TypeVar("T")

PATIENCE_S = 1.2
"""A page that has nothing by then says how far it is."""
AT_ONCE, OF_ONE = 6, 3
"""So many go on at once, and so many of one viewer: they share one interpreter with those who answer. Viewers that wait
take turns."""
LINE_MAX = 500
"""More do not wait: the first of the viewer with most of them is refused."""
ASKED_AGAIN_S = 4.0
"""A page that was told how far it is asks again within that: so long the answer of a long look stays good."""
KEPT_S = 30.0
"""A page that is renewed while somebody looks may show an answer that is older by so much, until there is another."""
KEPT_MAX = 100
"""Answers that are kept at once: with a message's body, or a page of 500, one may have a megabyte."""
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
    """Looks that wait as it does; 0: it has begun."""


@dataclass(slots=True, eq=False)
class _Look:
    key: Hashable
    ask: Callable[[], Any]
    fresh_s: float
    ended: threading.Event
    """Set when the console ends."""
    asked_at: float
    wanted_at: float
    answer: Future[Any] = field(default_factory=Future)
    has_begun: bool = False
    words: str = ""
    lines: set[str] = field(default_factory=set)
    """The viewers in whose lines it has stood: whoever joins it waits no longer than for a look of his own."""

    def check_wanted(self) -> None:
        """Raises LookLeftError when nobody has asked for it lately."""
        if self.ended.is_set() or monotonic() - self.wanted_at > LEFT_S:
            raise LookLeftError("nobody looks any more")


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
    if look is not None:
        look.check_wanted()
        look.words = words


class LongLooks:
    """Does looks on threads of its own. Any thread, any event loop."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._turns: Turns[tuple[str, _Look]] = Turns(AT_ONCE, OF_ONE, LINE_MAX)
        self._ready: deque[tuple[str, _Look]] = deque()
        """Those whose turn it is, until a thread takes them."""
        self._current: dict[Hashable, _Look] = {}
        """Those that wait or go on and whose answer will be up to date."""
        self._known: dict[Hashable, _Known] = {}
        self._threads = self._idle = 0
        self._ended = threading.Event()

    async def get(
        self,
        whose: str,
        key: Hashable,
        fresh_s: float,
        ask: Callable[[], T],
        *,
        patience_s: float = PATIENCE_S,
        may_be_old: bool = False,
    ) -> Found[T] | UnderWay:
        """Return what is known and fresh, else what `ask` gives.

        Args:
            whose: the viewer, who has his turns among the others'.
            key: who asks the same gets the same answer.
            fresh_s: so old an answer may be. One that took longer to get stays good for as long as it took.
            ask: is called on another thread, and may call `tell_progress`.
            patience_s: after so long the answer is how far it is.
            may_be_old: then rather the last answer than how far it is, if it is not much too old.

        Raises:
            Exception: what `ask` raised.
            ResourceAllocationError: too many wait.
            IllegalStateError: the console ends.
        """
        while True:
            with self._changed:
                known = self._known.get(key)
                if known is not None and monotonic() < known.good_until:
                    return Found(known.answer.result(), monotonic() - known.at)
                look = self._wanted(whose, key, fresh_s, ask)
            there = asyncio.wrap_future(look.answer)
            there.add_done_callback(_seen)
            done, _ = await asyncio.wait([there], timeout=patience_s)
            if not done:
                break
            if not isinstance(there.exception(), LookLeftError):
                return Found(there.result(), 0.0)
            # It was given up just when it was asked for again: a new one is not.
        if may_be_old and known is not None and known.answer.exception() is None:
            return Found(known.answer.result(), monotonic() - known.at)
        with self._changed:
            before = 0 if look.has_begun else self._turns.waiting
        return UnderWay(look.words, monotonic() - look.asked_at, before)

    async def wait(
        self,
        whose: str,
        key: Hashable,
        fresh_s: float,
        ask: Callable[[], T],
        *,
        is_gone: Callable[[], Awaitable[bool]],
    ) -> Found[T]:
        """Return the same, however long it takes.

        Raises:
            Exception: what `get` raises.
            LookLeftError: who asks `is_gone` meanwhile.
        """
        while isinstance(found := await self.get(whose, key, fresh_s, ask), UnderWay):
            if await is_gone():
                raise LookLeftError("who asked does not wait any more")
        return found

    def forget(self) -> None:
        """All answers are old, also those that are being looked for now; what has not begun will look anew anyway."""
        with self._changed:
            self._known.clear()
            self._current = {key: look for key, look in self._current.items() if not look.has_begun}

    def close(self) -> None:
        """Begin no more looks; those that go on end where they next say how far they are."""
        with self._changed:
            self._ended.set()
            self._changed.notify_all()

    def _wanted(self, whose: str, key: Hashable, fresh_s: float, ask: Callable[[], Any]) -> _Look:
        now = monotonic()
        look = self._current.get(key)
        if self._ended.is_set():
            raise IllegalStateError("the console ends")
        if look is None or look.answer.done():
            look = self._current[key] = _Look(key, ask, fresh_s, self._ended, now, now)
        look.wanted_at = now
        if not look.has_begun and whose not in look.lines:
            look.lines.add(whose)
            lost = self._turns.arrive(whose, (whose, look))
            if lost is not None:
                self._refuse(*lost)
            self._begin()
        return look

    def _refuse(self, whose: str, look: _Look) -> None:
        look.lines.discard(whose)
        if not look.lines:
            if self._current.get(look.key) is look:
                del self._current[look.key]
            look.answer.set_exception(ResourceAllocationError("too many looks wait here; look again later"))

    def _begin(self) -> None:
        for whose, look in self._turns.begin():
            look.has_begun = True
            for other in look.lines:
                self._turns.withdraw(other, (other, look))
            self._ready.append((whose, look))
            if self._idle < len(self._ready) and self._threads < AT_ONCE:
                self._threads += 1
                # A daemon: a process that ends waits for no look.
                threading.Thread(target=self._run, name="jbm-console-look", daemon=True).start()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: self._ready or self._ended.is_set())
                self._idle -= 1
                if not self._ready:
                    return
                whose, look = self._ready.popleft()
            try:
                QUICK_SWITCHES.during(partial(self._do, look))
            finally:
                with self._changed:
                    self._turns.end(whose)
                    self._begin()

    def _do(self, look: _Look) -> None:
        _here.look = look
        answer: Any = None
        error: BaseException | None = None
        try:
            look.check_wanted()
            answer = look.ask()
        except BaseException as raised:  # as a panic of a library in Rust: the thread goes on, and somebody waits
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
                self._drop_old(now)
            if error is None:
                look.answer.set_result(answer)
            else:
                look.answer.set_exception(error)

    def _drop_old(self, now: float) -> None:
        by_age = sorted(self._known, key=lambda each: self._known[each].good_until)
        for at, key in enumerate(by_age):
            if at < len(by_age) - KEPT_MAX or self._known[key].good_until + KEPT_S < now:
                del self._known[key]


def _seen(answer: asyncio.Future[Any]) -> None:
    """Take an error that comes when nobody waits any more, or asyncio would log it: who asks again gets it."""
    if not answer.cancelled():
        answer.exception()
