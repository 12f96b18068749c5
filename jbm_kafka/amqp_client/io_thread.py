"""The thread of one provider: its event loop alone touches the protocol engine."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from jbm_kafka.amqp_wire import engine_objects
from jbm_kafka.amqp_wire.loop_mailbox import LoopMailbox

log = logging.getLogger(__name__)

T = TypeVar("T")
JOIN_S = 10.0
LET_GO_S = 0.5


class Io(Protocol):
    """An event loop and what runs it, as a provider uses them."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop, which alone touches the protocol engine."""

    @property
    def mailbox(self) -> LoopMailbox:
        """Return the mailbox by which other threads reach the loop."""

    @property
    def is_alive(self) -> bool:
        """Return True while the loop runs."""

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Have it done, and return what it returned. Not on the loop."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Have it done beside, on the loop. The caller is on the loop."""

    def stop(self) -> None:
        """End it."""


class IoThread:
    """Runs what is given to it."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.mailbox = LoopMailbox(self.loop)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._thread = threading.Thread(target=self._serve, name="jbm-amqp-client", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Have it done, and return what it returned. Any other thread."""
        done: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return done.result()
        except BaseException:  # Ctrl-C too: nobody waits for it any more
            done.cancel()
            raise

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Have it done beside, on the loop. The caller is on the loop."""
        task = self.loop.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            log.exception("AMQP: an error of ours")

    @property
    def is_alive(self) -> bool:
        """Return True while the thread runs."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End it."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(JOIN_S)

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        engine_objects.own()
        self.loop.call_later(LET_GO_S, self._let_go)
        try:
            self.loop.run_forever()
        finally:
            engine_objects.disown()
            self.loop.close()

    def _let_go(self) -> None:
        engine_objects.let_go()
        self.loop.call_later(LET_GO_S, self._let_go)
