"""How a handler is run: on threads with a session each, on threads of one consumer, or on an event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, Protocol

from jbm_kafka.core.jms_errors import InvalidTypeError, TransactionInDoubtError, may_pass
from jbm_kafka.jms.base.handler_threads import AtAnEnd, HandlerThreads, Receiving, Work
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.receiving.handler_settlement import Settlement
from jbm_kafka.jms.receiving.handling import AsyncHandling, Handler, HandlerFailures, Handling, Middleware
from jbm_kafka.jms.session import Session
from jbm_kafka.jms.settling.one_by_one import OneByOne
from jbm_kafka.ports.clock import Clock
from jbm_kafka.worker.batch_handling import BatchHandling, LoopCall
from jbm_kafka.worker.batch_receiving import Batch, batches
from jbm_kafka.worker.dependencies import Kept
from jbm_kafka.worker.gated_receiving import GatedConsumer, NotedSettlement, at_gate
from jbm_kafka.worker.gates import HandlerGate, WorkerGates
from jbm_kafka.worker.handler_loop import CANCELLED_S, HandlerLoop
from jbm_kafka.worker.handlers import BatchTerms, HandlerSpec
from jbm_kafka.worker.in_transaction import InTransaction

Door = Callable[[MessageConsumer, Callable[[Work], None]], tuple[Receiving[Work], Callable[[Work], None]]]
log = logging.getLogger(__name__)

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
    failed: AtAnEnd,
    kept: Kept,
    loop: HandlerLoop | None,
    gates: WorkerGates,
) -> list[Lane]:
    """The lanes of one handler, with their consumers. `failed` hears, maybe more than once, why one is at its end."""
    gate = gates.gate(spec.name, spec.source, spec.limits)
    call = gates.timed(spec.name, spec.source, spec.limits, spec.call(kept), is_async=spec.is_async)
    if spec.batch is not None:
        return batch_lanes(spec, spec.batch, call, connection, failures, failed, kept, loop, gates.clock, gate)
    if spec.is_async:
        assert loop is not None
        return [LoopLane(spec, call, connection, around, failures, settle, failed, loop, gate)]
    core = connection._core
    handling = Handling(call, around, failures, core.counts.handlers, core.defaults.tracing)
    name = spec.source.name
    if spec.is_transacted:
        consumer_of = partial(spec.consumer, prefetch=1)
        run = handling.run if gate is None else partial(_run_noted, handling, gate)
        door = partial(at_gate, gate)
        at_end, count = kept.end_thread, range(spec.concurrency)
        return [SessionLane(name, connection, consumer_of, run, failed, at_end, door=door) for _ in count]
    # Nothing is prefetched beyond that: behind a long handler it would wait while other processes are idle.
    consumer = spec.consumer(connection.create_session(AcknowledgeMode.INDIVIDUAL), spec.concurrency)
    noted: Settlement = settle if gate is None else NotedSettlement(settle, gate)
    receiving, handle = at_gate(gate, consumer, partial(_handle, handling, noted))
    return [HandlerThreads(receiving, handle, spec.concurrency, name, failed, kept.end_thread)]


def batch_lanes(
    spec: HandlerSpec,
    terms: BatchTerms,
    call: Handler,
    connection: Connection,
    failures: HandlerFailures,
    failed: AtAnEnd,
    kept: Kept,
    loop: HandlerLoop | None,
    clock: Clock,
    gate: HandlerGate | None,
) -> list[Lane]:
    """The lanes of a handler of batches: each has one batch at a time, in a session of its own."""
    on_loop = None
    if spec.is_async:
        assert loop is not None
        call = on_loop = LoopCall(call, loop.loop)
    seconds = connection._core.counts.handlers
    handling = BatchHandling(call, failures, seconds, gate, retries_invalid=spec.retries_invalid)
    consumer_of, door = partial(spec.consumer, prefetch=terms.size), partial(batches, terms, clock, gate)
    mode = AcknowledgeMode.TRANSACTED if spec.is_transacted else AcknowledgeMode.CLIENT
    return [
        SessionLane(
            *(spec.source.name, connection, consumer_of, partial(_run_batch, handling), failed, kept.end_thread),
            mode=mode,
            door=door,
            at_deadline=_nothing if on_loop is None else on_loop.cancel,
        )
        for _ in range(spec.concurrency)
    ]


def _handle(handling: Handling, settle: Settlement, message: Message) -> None:
    handling.run(message, settle)


def _run_noted(
    handling: Handling, gate: HandlerGate, message: Message, settlement: Settlement, session: Session
) -> None:
    handling.run(message, NotedSettlement(settlement, gate), session)


def _run_batch(handling: BatchHandling, batch: Batch, settlement: Settlement, session: Session) -> None:
    handling.run(batch, session)


def _nothing() -> None:
    """At the deadline of a plain function: nobody can end it."""


class SessionLane(Generic[Work]):
    """One thread with a session of its own: transactions of one message each, or batches.

    A commit whose outcome nobody knows ends the session: only that says what became of the transaction. Then another
    one is opened, as often as it takes; the connection's health says so meanwhile.
    """

    def __init__(
        self,
        name: str,
        connection: Connection,
        consumer_of: Callable[[Session], MessageConsumer],
        handle: Callable[[Work, Settlement, Session], None],
        failed: AtAnEnd,
        at_end: Callable[[], object] = lambda: None,
        rest: Callable[[threading.Event, float], object] = threading.Event.wait,
        *,
        door: Door[Work],
        mode: AcknowledgeMode = AcknowledgeMode.TRANSACTED,
        at_deadline: Callable[[], object] = _nothing,
    ) -> None:
        """`handle` raises TransactionInDoubtError for such a commit. `rest` waits for the event, so long at most.

        `door`: what is received by the consumer, and handled. `at_deadline` has a call end that runs still.
        """
        self._name = name
        self._connection = connection
        self._consumer_of = consumer_of
        self._run = handle
        self._failed = failed
        self._at_end = at_end
        self._rest = rest
        self._door = door
        self._mode = mode
        self._at_deadline = at_deadline
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
        if self._is_away or not self._threads.join(deadline_s):
            return 0
        self._at_deadline()
        self._threads.join(time.monotonic() + (0 if self._at_deadline is _nothing else CANCELLED_S))
        return 1

    def _open(self) -> tuple[Session, HandlerThreads[Work]]:
        session = self._connection.create_session(self._mode)
        try:
            consumer = self._consumer_of(session)
        except BaseException:
            _end(session.close)
            raise
        receiving, handle = self._door(consumer, partial(self._handle, session, InTransaction(session)))
        return session, HandlerThreads(receiving, handle, 1, self._name, self._failed, self._at_end)

    def _handle(self, session: Session, settlement: InTransaction, work: Work) -> None:
        try:
            self._run(work, settlement, session)
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
    """Close it; messages of which it can say no more come again, and what comes after it is no worse for that."""
    try:
        close()
    except Exception as error:
        log.warning("the session of a transacted handler is left: %s", error)


class LoopLane:
    """The coroutines of one handler, on the worker's event loop."""

    def __init__(
        self,
        spec: HandlerSpec,
        call: Handler,
        connection: Connection,
        around: Sequence[Middleware],
        failures: HandlerFailures,
        settle: OneByOne,
        failed: AtAnEnd,
        loop: HandlerLoop,
        gate: HandlerGate | None,
    ) -> None:
        core = connection._core
        self._handling = AsyncHandling(
            call, around, failures, core.counts.handlers, core.defaults.tracing, self._beside
        )
        self._settle: Settlement = settle if gate is None else NotedSettlement(settle, gate)
        self._of_worker = loop
        self._loop = loop.loop
        self._room = threading.Semaphore(spec.concurrency - 1)
        """For one more, beside the message that is there."""
        self._tasks: set[asyncio.Task[None]] = set()
        """The loop's thread alone."""
        consumer = spec.consumer(connection.create_session(AcknowledgeMode.INDIVIDUAL), spec.concurrency)
        self._gated = None if gate is None else GatedConsumer(consumer, gate)
        self._receiving = HandlerThreads(self._gated or consumer, self._begin, 1, spec.source.name, failed)

    def start(self) -> None:
        self._receiving.start()

    def close(self) -> None:
        self._receiving.close()

    def join(self, deadline_s: float) -> int:
        self._receiving.join(deadline_s)
        left_s = max(0.0, deadline_s - time.monotonic())
        ending = asyncio.run_coroutine_threadsafe(self._end(left_s), self._loop)
        try:
            return ending.result(left_s + 2 * CANCELLED_S)
        except TimeoutError:  # a handler blocks the loop, on which nothing else runs until it returns
            self._of_worker.give_up()
            return max(len(self._tasks), 1)

    def _begin(self, message: Message) -> None:
        """On the receiving thread, which has room for one more when it comes back."""
        self._loop.call_soon_threadsafe(self._spawn, message)
        self._room.acquire()

    def _spawn(self, message: Message) -> None:
        run = self._handling.run(message, self._settle)
        task = self._loop.create_task(run if self._gated is None else self._gated.run(message, run))
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

    def _beside(self, call: Callable[[], None]) -> Awaitable[None]:
        return self._loop.run_in_executor(None, call)
