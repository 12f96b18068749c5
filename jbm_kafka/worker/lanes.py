"""How a handler is run: on threads with a session each, on threads of one consumer, or on an event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from jbm_kafka.core.jms_errors import TransactionInDoubtError
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.handler_threads import HandlerThreads
from jbm_kafka.jms.handling import AsyncHandling, HandlerFailures, Handling, Middleware
from jbm_kafka.jms.message import Message
from jbm_kafka.jms.modes import AcknowledgeMode
from jbm_kafka.jms.one_by_one import OneByOne
from jbm_kafka.worker.handlers import HandlerSpec
from jbm_kafka.worker.in_transaction import InTransaction

CANCELLED_S = 1.0
"""How long coroutines have to end after they were cancelled."""


class Lane(Protocol):
    """Some of one handler's concurrency."""

    def start(self) -> None:
        """Handle messages from now on; the connection is started."""

    def close(self) -> None:
        """Receive no more."""

    def join(self, deadline_s: float) -> int:
        """Wait for handlers until then, by the monotonic clock; how many still run."""


def lanes_of(
    spec: HandlerSpec, connection: Connection, around: Sequence[Middleware], failures: HandlerFailures, settle: OneByOne
) -> list[Lane]:
    """The lanes of one handler, with their consumers."""
    if spec.is_async:
        return [LoopLane(spec, connection, around, failures, settle)]
    core = connection._core
    handling = Handling(spec.function, around, failures, core.counts.handlers, core.defaults.tracing)
    if spec.is_transacted:
        return [TransactedLane(spec, connection, handling) for _ in range(spec.concurrency)]
    # Nothing is prefetched beyond that: behind a long handler it would wait while other processes are idle.
    consumer = spec.consumer(connection.create_session(AcknowledgeMode.INDIVIDUAL), spec.concurrency)
    return [HandlerThreads(consumer, partial(_handle, handling, settle), spec.concurrency, spec.source.name)]


def _handle(handling: Handling, settle: OneByOne, message: Message) -> None:
    handling.run(message, settle)


class TransactedLane:
    """One thread, with transactions of one message each."""

    def __init__(self, spec: HandlerSpec, connection: Connection, handling: Handling) -> None:
        self._spec = spec
        self._connection = connection
        self._handling = handling
        self._lock = threading.Lock()
        self._is_closed = False
        self._in_doubt = 0
        """Threads that were left, of sessions that end with a commit whose end nobody knows."""
        self._open()

    def start(self) -> None:
        self._threads.start()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._threads.close()

    def join(self, deadline_s: float) -> int:
        return self._threads.join(deadline_s)

    def _open(self) -> None:
        session = self._session = self._connection.create_session(AcknowledgeMode.TRANSACTED)
        consumer = self._spec.consumer(session, 1)
        self._settlement = InTransaction(session)
        self._threads = HandlerThreads(consumer, self._handle, 1, self._spec.source.name)

    def _handle(self, message: Message) -> None:
        session = self._session
        try:
            self._handling.run(message, self._settlement, session)
        except TransactionInDoubtError:
            # Only the session's end says what became of the transaction: what was not committed comes again.
            with self._lock:
                self._threads.close()
                session.close()
                if not self._is_closed:
                    self._open()
                    self._threads.start()


class LoopLane:
    """Coroutines on an event loop of the handler's own."""

    def __init__(
        self,
        spec: HandlerSpec,
        connection: Connection,
        around: Sequence[Middleware],
        failures: HandlerFailures,
        settle: OneByOne,
    ) -> None:
        core = connection._core
        self._handling = AsyncHandling(
            spec.function, around, failures, core.counts.handlers, core.defaults.tracing, self._beside
        )
        self._settle = settle
        self._loop = asyncio.new_event_loop()
        self._room = threading.Semaphore(spec.concurrency)
        self._tasks: set[asyncio.Task[None]] = set()
        """The loop's thread alone."""
        consumer = spec.consumer(connection.create_session(AcknowledgeMode.INDIVIDUAL), spec.concurrency)
        self._receiving = HandlerThreads(consumer, self._begin, 1, spec.source.name)
        self._thread = threading.Thread(target=self._run, name=f"jbm-loop-{spec.source.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._receiving.start()

    def close(self) -> None:
        self._receiving.close()

    def join(self, deadline_s: float) -> int:
        if not self._thread.is_alive():
            return 0
        self._receiving.join(deadline_s)
        left_s = max(0.0, deadline_s - time.monotonic())
        left = asyncio.run_coroutine_threadsafe(self._end(left_s), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CANCELLED_S)
        return left

    def _begin(self, message: Message) -> None:
        """On the receiving thread, which has room for one more when it comes back."""
        self._loop.call_soon_threadsafe(self._spawn, message)
        self._room.acquire()

    def _spawn(self, message: Message) -> None:
        task = self._loop.create_task(self._handling.run(message, self._settle))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.release()

    async def _end(self, timeout_s: float) -> int:
        """Cancelled, a message comes again."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)
        left = list(self._tasks)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=CANCELLED_S)
        return len(left)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _beside(self, call: Callable[[], None]) -> Awaitable[None]:
        return self._loop.run_in_executor(None, call)
