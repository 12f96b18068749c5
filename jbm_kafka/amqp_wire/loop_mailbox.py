"""How other threads reach the event loop, which alone touches connections: by one wake-up for many calls."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

log = logging.getLogger(__name__)

Call = Callable[[], object]
T = TypeVar("T")


class LoopMailbox:
    """Any thread posts."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Call] = deque()
        self._is_ringing = False

    def post(self, call: Call) -> None:
        """Have it called on the loop, in the order of the posts."""
        self._calls.append(call)
        if not self._is_ringing:
            try:
                self._is_ringing = True
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                pass  # the loop is closed, and nobody is left to be told
            except BaseException:  # Ctrl-C: perhaps it does not ring, and whoever posts next would rely on it
                self._is_ringing = False
                with suppress(RuntimeError):  # a ring too many finds nothing; without it others have relied on this one
                    self._loop.call_soon_threadsafe(self._deliver)
                raise

    def _deliver(self) -> None:
        self._is_ringing = False  # before the calls: what is posted meanwhile rings again
        for _ in range(len(self._calls)):
            call = self._calls.popleft()
            try:
                call()
            except Exception:
                log.exception("a call that was posted to the AMQP server failed")


def answer(future: asyncio.Future[T], result: T) -> None:
    """On the loop: whoever waits for it has it, unless nobody does any more."""
    if not future.done():
        future.set_result(result)


class LinkBed:
    """Implements `Bed` for a link: the group worker wakes what sends its messages on, and nobody ever gets up."""

    __slots__ = ("_is_awake", "_mailbox", "_rise")

    def __init__(self, mailbox: LoopMailbox, rise: Call) -> None:
        self._mailbox = mailbox
        self._rise = rise
        self._is_awake = False

    def locked(self) -> bool:
        return not self._is_awake

    def release(self) -> None:
        self._is_awake = True
        self._mailbox.post(self._wake)

    def _wake(self) -> None:
        self._is_awake = False  # before it looks
        self._rise()
