"""Handlers that run for longer than they may: a coroutine is cancelled, of a thread it is said.

Nobody can end a thread of Python. Its handler keeps its message, and so the message's unit, until it returns: what
comes after it in the unit must not be handled beside it. Only the end of the process ends it, if that is asked for.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from typing import Any

from jbm_kafka.client.connection_counts import HandlerLimitCounts
from jbm_kafka.core.destination import Destination
from jbm_kafka.worker.timers import Timer, Timers

log = logging.getLogger(__name__)

GRACE_MS = 1_000
"""How long a coroutine may take to end once it was cancelled, before it is told as hung."""


class Overdue:
    """The calls of one handler. Any thread."""

    def __init__(
        self,
        name: str,
        destination: Destination,
        timeout_ms: int,
        timers: Timers,
        counts: HandlerLimitCounts,
        hung: Callable[[], object],
    ) -> None:
        """`hung` hears of each call that does not end though it should."""
        self._name = name
        self._destination = destination
        self._timeout_ms = timeout_ms
        self._timers = timers
        self._counts = counts
        self._hung = hung

    def around(self, function: Callable[..., Any], *, is_async: bool) -> Callable[..., Any]:
        """The function, whose calls may take so long. A coroutine that is cancelled raises TimeoutError."""
        if is_async:
            return partial(self._awaited, function)
        return partial(self._called, function)

    def _called(self, function: Callable[..., Any], *values: Any) -> Any:
        call = _Call(threading.get_ident())
        call.timer = self._timers.after(self._timeout_ms, partial(self._tell, call))
        try:
            return function(*values)
        finally:
            self._end(call)

    async def _awaited(self, function: Callable[..., Any], *values: Any) -> Any:
        loop, call = asyncio.get_running_loop(), _Call(threading.get_ident())
        limit = asyncio.timeout(None)
        try:
            async with limit:
                expire = partial(self._expire, call, limit, loop)
                call.timer = self._timers.after(self._timeout_ms, expire)
                try:
                    called = function(*values)
                    return await called if isawaitable(called) else called
                finally:
                    self._end(call)
        except TimeoutError:
            if not limit.expired():
                raise
        raise TimeoutError(f"it ran for {self._timeout_ms / 1_000:g} s (timeout_s), and was cancelled")

    def _expire(self, call: _Call, limit: asyncio.Timeout, loop: asyncio.AbstractEventLoop) -> None:
        """On the thread of the timers."""
        with call.lock:
            if call.has_ended:
                return
            self._counts.add(self._destination, "handler_timeouts")
            call.timer = self._timers.after(GRACE_MS, partial(self._tell, call, was_cancelled=True))

        def cancel() -> None:
            if not call.has_ended:
                limit.reschedule(loop.time())

        loop.call_soon_threadsafe(cancel)

    def _tell(self, call: _Call, *, was_cancelled: bool = False) -> None:
        """On the thread of the timers."""
        with call.lock:
            if call.has_ended:
                return
            call.is_overdue = True
            self._counts.add(self._destination, "handlers_overdue")
            if not was_cancelled:
                self._counts.add(self._destination, "handler_timeouts")
        what = "was cancelled, and goes on or blocks its event loop, which is" if was_cancelled else "goes on,"
        log.warning(
            "%s: a call has run for %g s (timeout_s) and %s at %s; it keeps its message, and the message's unit, "
            "until it returns or its process ends",
            *(self._name, self._timeout_ms / 1_000, what, _place_of(call.thread)),
        )
        self._hung()

    def _end(self, call: _Call) -> None:
        with call.lock:
            call.has_ended = True
            if call.timer is not None:
                self._timers.cancel(call.timer)
            if call.is_overdue:
                self._counts.add(self._destination, "handlers_overdue", -1)


class _Call:
    """One call, from when it begins until it ends. Its lock guards it."""

    __slots__ = ("has_ended", "is_overdue", "lock", "thread", "timer")

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self.lock = threading.Lock()
        self.timer: Timer | None = None
        self.has_ended = False
        self.is_overdue = False


def _place_of(thread: int) -> str:
    """Where the thread is now, in the innermost function."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return "a place that is not known"
    found = traceback.extract_stack(frame, limit=1)[-1]
    return f"{found.filename}:{found.lineno} in {found.name}"
