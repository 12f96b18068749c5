"""One message through a handler: it is called, what it returns is answered, and what it raises decides.

A handler that returns has acknowledged its message. `Retry` gives it back, `Reject` gives it up, and any other
exception is a failed attempt: it comes again by its queue's settings. Of a handler whose call runs nothing the message
goes back as it came, and whoever called hears of the error: the next message would fare no better.
"""

from __future__ import annotations

import threading
import time
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Sequence
from functools import partial, reduce
from inspect import isawaitable
from typing import Any

from jbm_kafka.client.connection_counts import HandlerSeconds
from jbm_kafka.core.failure_text import one_line_of
from jbm_kafka.core.jms_errors import InvalidTypeError, JMSError, TransactionInDoubtError
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.core.wrong_values import wrong_type
from jbm_kafka.jms.base.exception_listener import ExceptionListener
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.base.never_run import unrun
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.receiving.handler_settlement import Settlement, TracedSettlement
from jbm_kafka.jms.receiving.listener_failures import what_follows
from jbm_kafka.jms.receiving.listener_lines import ListenerLines
from jbm_kafka.jms.receiving.outcomes import Reject, Retry
from jbm_kafka.jms.sends.tracing import Tracing

Handler = Callable[..., Any]
_REMEDY = "make it, and all that is around it, async def, or run it to its end: asyncio.run(…)"
Middleware = Callable[[Message, Callable[[Message], Any]], Any]
"""Called as (message, call_next); returns what `call_next(message)` returned, or something else."""


class HandlerFailures:
    """The log lines of one handler's failures. Any thread."""

    def __init__(self, settings_of: Callable[[str], ResolvedSettings], notify: ExceptionListener) -> None:
        self._lines = ListenerLines("handler")
        self._settings_of = settings_of
        self._notify = notify
        self._lock = threading.Lock()

    def failed(self, message: Message, error: BaseException) -> None:
        """The handler raised; its message comes again, or has used up its attempts."""
        destination = message.destination
        settings = self._settings_of("" if destination is None else destination.name)
        follows = what_follows(AcknowledgeMode.INDIVIDUAL, settings, message.delivery_count)
        with self._lock:
            now_ms = round(time.monotonic() * 1000)
            view = message.kafka
            place = None if view is None else (view.partition, view.offset)
            about = message.message_id, str(destination)
            self._lines.raised(*about, error, follows, now_ms, place, message.delivery_count)
            self._lines.tell_due(now_ms)

    def unsettled(self, error: JMSError) -> None:
        """Log that a message's outcome could not be recorded: it comes again, whatever the handler did."""
        self._notify(error)

    def end(self) -> None:
        """The handler gets no message any more."""
        with self._lock:
            self._lines.end(round(time.monotonic() * 1000))


class Handling:
    """A plain function as handler. Any number of threads."""

    def __init__(
        self,
        function: Handler,
        around: Sequence[Middleware],
        failures: HandlerFailures,
        seconds: HandlerSeconds,
        tracing: Tracing | None,
    ) -> None:
        self._tracing = tracing
        self._call: Callable[..., Any] = function
        self._around = list(reversed(around))
        self._failures = failures
        self._seconds = seconds

    def run(self, message: Message, settlement: Settlement, *more: object) -> None:
        """One message, with what else the handler gets.

        Raises:
            InvalidTypeError: a call of the handler runs nothing.
            TransactionInDoubtError: how its transaction ended is not known.
        """
        tracing = self._tracing
        if tracing is None:
            self._run(message, settlement, more)
            return
        with tracing.processing(message):
            self._run(message, TracedSettlement(settlement, tracing), more)

    def _run(self, message: Message, settlement: Settlement, more: Sequence[object]) -> None:
        call = partial(_call_with, self._call, more) if more else self._call
        fault: InvalidTypeError | None = None
        begun_s = time.perf_counter()
        try:
            try:
                try:
                    result = reduce(_wrapped, self._around, call)(message)
                finally:
                    self._seconds.note(message.destination, begun_s)
                fault = unrun("the handler", result, _REMEDY)
                if fault is None:
                    _answer(settlement, message, result)
            except BaseException as error:
                if self._tracing is not None:
                    self._tracing.failed(error)
                _decide(settlement, message, error, self._failures)
                if not isinstance(error, Exception):
                    raise  # the caller's thread ends
            else:
                _end(settlement, message, fault)
        except TransactionInDoubtError as error:
            self._failures.unsettled(error)
            raise
        except JMSError as error:
            self._failures.unsettled(error)
        if fault is not None:
            raise fault


class AsyncHandling:
    """A coroutine function as handler, on one event loop. `beside` runs what may wait for Kafka, off the loop."""

    def __init__(
        self,
        function: Handler,
        around: Sequence[Middleware],
        failures: HandlerFailures,
        seconds: HandlerSeconds,
        tracing: Tracing | None,
        beside: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        self._seconds = seconds
        self._tracing = tracing
        self._call: Callable[[Message], Any] = reduce(_wrapped, reversed(around), function)
        self._failures = failures
        self._beside = beside

    async def run(self, message: Message, settlement: Settlement) -> None:
        """One message. Cancelled, it comes again.

        Raises:
            InvalidTypeError: a call of the handler, or of what stands around it, runs nothing.
        """
        tracing = self._tracing
        if tracing is None:
            await self._run(message, settlement)
            return
        with tracing.processing(message):
            await self._run(message, TracedSettlement(settlement, tracing))

    async def _run(self, message: Message, settlement: Settlement) -> None:
        fault: InvalidTypeError | None = None
        begun_s = time.perf_counter()
        try:
            try:
                try:
                    called = self._call(message)
                    result = await called if isawaitable(called) else None
                finally:
                    self._seconds.note(message.destination, begun_s)
                fault = unrun("the handler", result) if isawaitable(called) else _not_awaited(called)
                if fault is None and result is not None and message.reply_to is not None:
                    await self._beside(partial(_answer, settlement, message, result))
            except BaseException as error:
                if self._tracing is not None:
                    self._tracing.failed(error)
                _decide(settlement, message, error, self._failures)
            else:
                _end(settlement, message, fault)
        except JMSError as error:
            self._failures.unsettled(error)
        if fault is not None:
            raise fault


def _wrapped(call_next: Callable[[Message], Any], middleware: Middleware) -> Callable[[Message], Any]:
    return lambda message: middleware(message, call_next)


def _call_with(function: Handler, more: Sequence[object], message: Message) -> Any:
    return function(message, *more)


def _answer(settlement: Settlement, message: Message, result: Any) -> None:
    if result is not None and message.reply_to is not None:
        settlement.answer(message.reply_to, result, message.correlation_id or message.message_id)


def _not_awaited(called: object) -> InvalidTypeError:
    return wrong_type("middleware", called, "around an async handler it returns what call_next(message) returned")


def _end(settlement: Settlement, message: Message, fault: InvalidTypeError | None) -> None:
    """The handler returned; `fault`: it ran nothing."""
    if fault is None:
        settlement.accept(message)
    else:
        settlement.put_back(message)


def _decide(settlement: Settlement, message: Message, error: BaseException, failures: HandlerFailures) -> None:
    """Within the `except` of the error, which its letter tells. An application's own `Reject` or `Retry` may lack what
    those have."""
    if isinstance(error, Reject):
        reason = getattr(error, "reason", None)
        settlement.reject(message, (one_line_of(reason) if isinstance(reason, str) else "") or "rejected")
    elif isinstance(error, Retry):
        settlement.retry(message, getattr(error, "delay_ms", None))
    elif isinstance(error, CancelledError):
        settlement.retry(message, None)
    else:
        failures.failed(message, error)
        settlement.retry(message, None)
