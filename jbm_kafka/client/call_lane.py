"""Calls that may wait for Kafka, made beside the event loop: those of one session in order, one at a time."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

CALLS_MAX = 16
"""How many calls of one connection wait for Kafka at the same time; others wait for a thread."""


class Threads(Protocol):
    """Runs calls beside the loop."""

    def submit(self, call: Callable[[], None], /) -> object: ...


class OwnThread:
    """A thread for each call: to connect and to close waits for no other call's thread."""

    def __init__(self, *, ends_with_process: bool = False) -> None:
        """`ends_with_process`: else the process ends after the call."""
        self._is_daemon = ends_with_process

    def submit(self, call: Callable[[], None], /) -> None:
        threading.Thread(target=call, name="jbm-call", daemon=self._is_daemon).start()


def pool_of_threads() -> Threads:
    """Return those of one connection; they begin when they are needed."""
    return ThreadPoolExecutor(CALLS_MAX, thread_name_prefix="jbm-calls")


class _Entry:
    """One call: until it begins it can be withdrawn."""

    __slots__ = ("answer", "call", "gives_result", "is_left", "loop", "outcome", "undo")

    def __init__(self, call: Callable[[], Any], *, gives_result: bool, undo: Callable[[Any], object] | None) -> None:
        self.call = call
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Any] = self.loop.create_future()
        self.gives_result = gives_result
        """False: what ends the wait, unless by an error, is another report than the call's return."""
        self.undo = undo
        self.is_left = False
        """Nobody waits any more for the call, which has begun."""
        self.outcome: tuple[Any, BaseException | None] | None = None
        """The value that it returned or the error that it raised; None: that is not known yet."""

    def end(self, result: object, error: BaseException | None) -> bool:
        """End the entry with its result; return True if somebody still waits for that. The caller holds the lock."""
        self.outcome = result, error
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self.loop.call_soon_threadsafe(_set, self.answer, result, error)
        return not self.is_left

    def take_back(self) -> None:
        """Undo what it did, which nobody has."""
        assert self.outcome is not None
        result, error = self.outcome
        if error is None and self.undo is not None:
            with suppress(Exception):
                self.undo(result)


class CallLane:
    """One call at a time, in the order in which they were asked for. Of any event loop."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._entries: deque[_Entry] = deque()
        self._is_running = False

    async def do(
        self,
        call: Callable[[], T],
        about: str,
        *,
        once_begun: str = "it goes on",
        undo: Callable[[T], object] | None = None,
    ) -> T:
        """Return what the call returns or raises. Cancelled, the error has a note that says what is known of the call.

        Args:
            about: what is called, for people.
            once_begun: what is known of a call that had begun when it was cancelled.
            undo: called with the result of such a call, which nobody has.
        """
        result: T = await self._end(self._begin(_Entry(call, gives_result=True, undo=undo)), about, once_begun)
        return result

    async def do_reported(
        self, call: Callable[[Callable[[T, Exception | None], None]], object], about: str, *, once_begun: str
    ) -> T:
        """Return what the call reports to the function that it gets, on any thread, after it returned or before."""

        def report(result: T, error: Exception | None) -> None:
            with self._lock:
                entry.end(result, error)

        entry = _Entry(lambda: call(report), gives_result=False, undo=None)
        result: T = await self._end(self._begin(entry), about, once_begun)
        return result

    async def idle(self) -> None:
        """Return when every call before this one has ended."""
        if self._is_running:
            await self.do(_nothing, "the call before")

    def _begin(self, entry: _Entry) -> _Entry:
        with self._lock:
            self._entries.append(entry)
            must_start, self._is_running = not self._is_running, True
        if must_start:
            self._threads.submit(self._work)
        return entry

    async def _end(self, entry: _Entry, about: str, once_begun: str) -> Any:
        try:
            return await entry.answer
        except asyncio.CancelledError as cancelled:
            cancelled.add_note(f"{about}: {self._leave(entry, once_begun)}")
            raise

    def _leave(self, entry: _Entry, once_begun: str) -> str:
        """Nobody waits for it any more; returns what is known of it. If it has not begun it never will."""
        with self._lock:
            if entry in self._entries:
                self._entries.remove(entry)
                return "it was not begun"
            entry.is_left = True
            if entry.outcome is None:
                return once_begun
        if entry.undo is not None:
            self._threads.submit(entry.take_back)
        error = entry.outcome[1]
        return "it was done" if error is None else f"it failed: {error}"

    def _work(self) -> None:
        """Run the calls one after another on this thread, and end when there are none.

        A call that raises does not stop the next ones. A result that nobody waits for any more is taken back.
        """
        while True:
            with self._lock:
                if not self._entries:
                    self._is_running = False
                    return
                entry = self._entries.popleft()
            result, error = None, None
            try:
                result = entry.call()
            except BaseException as raised:
                error = raised
            if error is None and not entry.gives_result:
                continue
            with self._lock:
                is_wanted = entry.end(result, error)
            if not is_wanted:
                entry.take_back()


def _set(answer: asyncio.Future[object], result: object, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


def _nothing() -> None:
    """Do nothing: it is called to know that all before has ended."""
