"""One batch through its handler: it is called, and what it raises decides what becomes of which message.

A handler that returns has acknowledged all of them, in a transaction together with what it sent. `Failed` names those
that come again, each with what is behind it in its unit; the others are acknowledged. `Retry`, `Reject` and any other
exception are said of all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any, Protocol

from jbm_kafka.client.connection_counts import HandlerSeconds
from jbm_kafka.core.failure_text import one_line_of
from jbm_kafka.core.jms_errors import InvalidTypeError, JMSError, TransactionInDoubtError
from jbm_kafka.jms.base.never_run import unrun
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.receiving.handling import HandlerFailures
from jbm_kafka.jms.receiving.outcomes import Failed, Reject, Retry
from jbm_kafka.jms.session import Session
from jbm_kafka.jms.settling.acknowledge import fail
from jbm_kafka.worker.batch_receiving import Batch, put_all_back
from jbm_kafka.worker.handler_arguments import Misfits

_REMEDY = "make it async def, or run it to its end: asyncio.run(…)"


class Noting(Protocol):
    """A gate."""

    def succeeded(self) -> None:
        """A call went well."""

    def failed(self) -> None:
        """A call failed."""


class BatchHandling:
    """The batches of one handler. Any number of threads, each with a session of its own."""

    def __init__(
        self,
        function: Callable[..., Any],
        failures: HandlerFailures,
        seconds: HandlerSeconds,
        gate: Noting | None,
        *,
        retries_invalid: bool,
    ) -> None:
        self._function = function
        self._failures = failures
        self._seconds = seconds
        self._gate = gate
        self._retries_invalid = retries_invalid

    def run(self, batch: Batch, session: Session) -> None:
        """One batch, which is all that the CLIENT or TRANSACTED session has.

        Raises:
            InvalidTypeError: a call of the handler runs nothing.
            TransactionInDoubtError: how its transaction ended is not known.
        """
        fault: InvalidTypeError | None = None
        misfits: dict[Message, str] = {}
        try:
            try:
                fault = self._call(batch, session, misfits)
            except BaseException as error:
                self._decide(batch, session, error, misfits)
                if not isinstance(error, Exception):
                    raise  # the caller's thread ends
            else:
                if fault is None:
                    self._settle(batch, session, (), misfits)
                else:
                    put_all_back(batch, were_seen=True)
                    session._roll_back(delay_ms=None, rejected=None)  # what was sent, that is: nothing is left here
        except TransactionInDoubtError as error:
            self._failures.unsettled(error)
            raise
        except JMSError as error:
            self._failures.unsettled(error)
        if fault is not None:
            raise fault

    def _call(self, batch: Batch, session: Session, misfits: dict[Message, str]) -> InvalidTypeError | None:
        """Call the handler with what fits it, if anything does; the rest is noted."""
        more = (session,) if session._core.is_transacted else ()
        begun_s = time.perf_counter()
        try:
            return unrun("the handler", self._function(batch, *more), _REMEDY)
        except Misfits as found:
            misfits.update(found.messages)
            fitting = _before(misfits, batch)
            return unrun("the handler", self._function(fitting, *more), _REMEDY) if fitting else None
        finally:
            self._seconds.note(batch[0].destination, begun_s)

    def _decide(self, batch: Batch, session: Session, error: BaseException, misfits: Mapping[Message, str]) -> None:
        """Within the `except` of the error, which the letters tell."""
        if isinstance(error, Failed):
            known = set(batch)
            if all(message in known for message in error.messages):
                for message in error.messages:
                    self._failures.failed(message, error)
                self._settle(batch, session, error.messages, misfits)
                return
        delay_ms, rejected = None, None
        if isinstance(error, Reject):
            reason = getattr(error, "reason", None)
            rejected = (one_line_of(reason) if isinstance(reason, str) else "") or "rejected"
        elif isinstance(error, Retry):
            delay_ms = getattr(error, "delay_ms", None)
        elif not isinstance(error, asyncio.CancelledError):
            self._failures.failed(batch[0], error)
        session._roll_back(delay_ms=delay_ms, rejected=rejected)
        if rejected is None and self._gate is not None:
            self._gate.failed()

    def _settle(
        self, batch: Batch, session: Session, failed: tuple[Message, ...], misfits: Mapping[Message, str]
    ) -> None:
        """The failed come again, what does not fit is rejected, and the others are acknowledged, together."""
        for message in batch if failed or misfits else ():
            if message in failed:
                fail(message)
            elif message in misfits:
                fail(message, rejected=None if self._retries_invalid else misfits[message])
        if session._core.is_transacted:
            session.commit()
        else:
            session.acknowledge()
        if self._gate is not None and len(failed) < len(batch):
            self._gate.succeeded()
        elif self._gate is not None:
            self._gate.failed()


class LoopCall:
    """A coroutine function as handler, called from other threads on an event loop."""

    def __init__(self, function: Callable[..., Any], loop: asyncio.AbstractEventLoop) -> None:
        self._function = function
        self._loop = loop
        self._running: set[asyncio.Task[Any]] = set()
        """The loop's thread alone."""

    def __call__(self, *values: Any) -> Any:
        """Run it to its end; what it returns. CancelledError: it was cancelled, and has ended."""
        try:
            return asyncio.run_coroutine_threadsafe(self._await(values), self._loop).result()
        except futures.CancelledError:
            raise asyncio.CancelledError from None

    async def _await(self, values: tuple[Any, ...]) -> Any:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            return await self._function(*values)
        finally:
            self._running.discard(task)

    def cancel(self) -> None:
        """Have those end that run."""
        self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._running])


def _before(misfits: Mapping[Message, str], batch: Batch) -> Batch:
    """Return what fits, and is behind none of its unit that does not: that goes back with it."""
    units, fitting = set[tuple[int, str]](), Batch()
    for message in batch:
        unit = message.unit_of_order
        place = None if unit is None or message.kafka is None else (message.kafka.partition, unit)
        if message in misfits:
            if place is not None:
                units.add(place)
        elif place not in units:
            fitting.append(message)
    return fitting
