"""How a handler is run: on threads with a session each, on threads of one consumer, or on an event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from jbm_kafka.core.jms_errors import InvalidTypeError, TransactionInDoubtError, may_pass
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.handler_settlement import Settlement
from jbm_kafka.jms.handler_threads import Failed, HandlerThreads
from jbm_kafka.jms.handling import AsyncHandling, HandlerFailures, Handling, Middleware
from jbm_kafka.jms.message import Message
from jbm_kafka.jms.modes import AcknowledgeMode
from jbm_kafka.jms.one_by_one import OneByOne
from jbm_kafka.jms.session import Session
from jbm_kafka.worker.handlers import HandlerSpec
from jbm_kafka.worker.in_transaction import InTransaction

log = logging.getLogger(__name__)

CANCELLED_S = 1.0
"""How long coroutines have to end after they were cancelled."""
PAUSE_MIN_S, PAUSE_MAX_S = 0.5, 30.0
"""Between tries to receive again: the first pause, which doubles, and the longest."""


class Lane(Protocol):
    """Some of one handler's concurrency."""

    def start(self) -> None:
        """Handle messages from now on; the connection is started."""

    def close(self) -> None:
        """Receive no more."""

    def join(self, deadline_s: float) -> int:
        """Wait for handlers until then, by the monotonic clock; how many still run."""


def lanes_of(
    spec: HandlerSpec,
    connection: Connection,
    around: Sequence[Middleware],
    failures: HandlerFailures,
    settle: OneByOne,
    failed: Failed,
) -> list[Lane]:
    """The lanes of one handler, with their consumers. `failed` hears, maybe more than once, why one is at its end."""
    if spec.is_async:
        return [LoopLane(spec, connection, around, failures, settle, failed)]
    core = connection._core
    handling = Handling(spec.function, around, failures, core.counts.handlers, core.defaults.tracing)
    name = spec.source.name
    if spec.is_transacted:
        consumer_of = partial(spec.consumer, prefetch=1)
        return [TransactedLane(name, connection, consumer_of, handling.run, failed) for _ in range(spec.concurrency)]
    # Nothing is prefetched beyond that: behind a long handler it would wait while other processes are idle.
    consumer = spec.consumer(connection.create_session(AcknowledgeMode.INDIVIDUAL), spec.concurrency)
    return [HandlerThreads(consumer, partial(_handle, handling, settle), spec.concurrency, name, failed)]


def _handle(handling: Handling, settle: OneByOne, message: Message) -> None:
    handling.run(message, settle)


class TransactedLane:
    """One thread, with transactions of one message each.

    A commit whose outcome nobody knows ends the session: only that says what became of the transaction. Then another
    one is opened, as often as it takes; the connection's health says so meanwhile.
    """

    def __init__(
        self,
        name: str,
        connection: Connection,
        consumer_of: Callable[[Session], MessageConsumer],
        handle: Callable[[Message, Settlement, Session], None],
        failed: Failed,
        rest: Callable[[threading.Event, float], object] = threading.Event.wait,
    ) -> None:
        """`handle` raises TransactionInDoubtError for such a commit. `rest` waits for the event, so long at most."""
        self._name = name
        self._connection = connection
        self._consumer_of = consumer_of
        self._run = handle
        self._failed = failed
        self._rest = rest
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._is_away = False
        """Its session has ended, and it has no other yet: nothing is handled."""
        self._threads = self._open()[1]

    def start(self) -> None:
        self._threads.start()

    def close(self) -> None:
        self._closing.set()
        with self._lock:
            threads = self._threads
        threads.close()

    def join(self, deadline_s: float) -> int:
        return 0 if self._is_away else self._threads.join(deadline_s)

    def _open(self) -> tuple[Session, HandlerThreads]:
        session = self._connection.create_session(AcknowledgeMode.TRANSACTED)
        try:
            consumer = self._consumer_of(session)
        except BaseException:
            _end(session.close)
            raise
        handle = partial(self._handle, session, InTransaction(session))
        return session, HandlerThreads(consumer, handle, 1, self._name, self._failed)

    def _handle(self, session: Session, settlement: InTransaction, message: Message) -> None:
        try:
            self._run(message, settlement, session)
        except TransactionInDoubtError as error:
            hindrances = self._connection._core.hindrances
            self._is_away = True
            hindrances.begin(self, f"{self._name}: its transacted handler has yet to receive again, after: {error}")
            _end(self._threads.close)
            _end(session.close)
            self._open_again()
            hindrances.end(self)

    def _open_again(self) -> None:
        """On the last session's thread, which ends then."""
        pause_s = PAUSE_MIN_S
        while not self._closing.is_set():
            try:
                session, threads = self._open()
            except Exception as error:
                if not may_pass(error) or self._connection.is_closed:
                    if not self._closing.is_set():
                        self._failed(error)
                    return
                log.warning("%s: its transacted handler cannot receive; again in %g s: %s", self._name, pause_s, error)
                self._rest(self._closing, pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)
                continue
            with self._lock:
                is_late = self._closing.is_set()
                if not is_late:
                    self._threads, self._is_away = threads, False
                    threads.start()
            if is_late:
                _end(session.close)
            return


def _end(close: Callable[[], None]) -> None:
    """What it can say no more comes again, and what comes after it is no worse for that."""
    try:
        close()
    except Exception as error:
        log.warning("the session of a transacted handler is left: %s", error)


class LoopLane:
    """Coroutines on an event loop of the handler's own."""

    def __init__(
        self,
        spec: HandlerSpec,
        connection: Connection,
        around: Sequence[Middleware],
        failures: HandlerFailures,
        settle: OneByOne,
        failed: Failed,
    ) -> None:
        core = connection._core
        self._handling = AsyncHandling(
            spec.function, around, failures, core.counts.handlers, core.defaults.tracing, self._beside
        )
        self._settle = settle
        self._loop = asyncio.new_event_loop()
        self._room = threading.Semaphore(spec.concurrency - 1)
        """For one more, beside the message that is there."""
        self._tasks: set[asyncio.Task[None]] = set()
        """The loop's thread alone."""
        consumer = spec.consumer(connection.create_session(AcknowledgeMode.INDIVIDUAL), spec.concurrency)
        self._receiving = HandlerThreads(consumer, self._begin, 1, spec.source.name, failed)
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
        ending = asyncio.run_coroutine_threadsafe(self._end(left_s), self._loop)
        ending.add_done_callback(lambda _: self._loop.call_soon_threadsafe(self._loop.stop))
        try:
            left = ending.result(left_s + 2 * CANCELLED_S)
        except TimeoutError:  # a handler blocks the loop, on which nothing else runs until it returns
            return max(len(self._tasks), 1)
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
        error = None if task.cancelled() else task.exception()
        if isinstance(error, InvalidTypeError):
            self._loop.run_in_executor(None, self._give_up, error)
            return
        self._room.release()
        if error is not None:
            log.error("the other handlers go on", exc_info=error)

    def _give_up(self, error: InvalidTypeError) -> None:
        """A call of the handler runs nothing."""
        self._receiving.fail(error)
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
