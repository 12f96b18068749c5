"""Consumers and browsers that are awaited. No thread waits for a consumer: its task sleeps on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Self, SupportsFloat, TypeVar

from jbm_kafka.aio.loop_bed import on_this_loop
from jbm_kafka.aio.made import Same
from jbm_kafka.aio.task_pool import TaskPool
from jbm_kafka.client.call_lane import CallLane, Threads
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.wrong_values import wrong_type
from jbm_kafka.jms.base.arguments import check_arguments, check_callable, check_kind, checked_timeout_s
from jbm_kafka.jms.base.never_run import is_async
from jbm_kafka.jms.base.one_process import refuse_pickle
from jbm_kafka.jms.browser import Include, QueueBrowser
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.receiving.handling import AsyncHandling
from jbm_kafka.jms.settling.one_by_one import OneByOne
from jbm_kafka.ports.deliveries import Delivery

T = TypeVar("T")
R = TypeVar("R")

IN_A_ROW = 64
"""So many messages come without a wait, then other tasks of the loop have a turn."""
BROWSED_AT_ONCE = 100


class AioMessageConsumer:
    """As `jbm_kafka.MessageConsumer`, awaited. Made by `session.create_consumer` and its kin.

    Receive: receive, receive_nowait, receive_body; or iterate it with `async for`. Cancelled, a receive has taken
    nothing: no message is lost, and none is acknowledged that nobody saw. Be called instead: run.
    """

    __reduce__ = refuse_pickle
    __slots__ = ("_in_a_row", "_inner", "_lane", "_threads")

    destination = Same[Queue | Topic]()
    selector = Same[str | None]()
    prefetch = Same[int]()
    is_closed = Same[bool]()

    def __init__(self, inner: MessageConsumer, lane: CallLane, threads: Threads) -> None:
        self._inner = inner
        self._lane = lane
        self._threads = threads
        self._in_a_row = 0

    async def receive(self, timeout: SupportsFloat | None = None) -> Message | None:
        """The next message; None when `timeout` seconds passed, or the consumer was closed meanwhile. Timeouts and
        errors as of `jbm_kafka.MessageConsumer.receive`.
        """
        return await self._receive(timeout, self._inner._inbox.present)

    async def receive_nowait(self) -> Message | None:
        """The next message that is in the queue now, or None; as `receive(0)`."""
        return await self.receive(0)

    async def receive_body(self, kind: type[T], timeout: SupportsFloat | None = None) -> T | None:
        """The body of the next message as `kind`; as `jbm_kafka.MessageConsumer.receive_body`."""
        check_kind(kind)
        return await self._receive(timeout, lambda delivery: self._inner._inbox.present_body(delivery, kind))

    async def _receive(self, timeout: SupportsFloat | None, present: Callable[[Delivery], R]) -> R | None:
        timeout_s = None if timeout is None else checked_timeout_s(timeout)
        await self._lane.idle()
        self._in_a_row += 1
        if self._in_a_row >= IN_A_ROW:
            self._in_a_row = 0
            await asyncio.sleep(0)
        inner = self._inner
        return await on_this_loop(inner._receiving(timeout_s, present), inner._session.filled, self._lane, "receive()")

    def __aiter__(self) -> Self:
        """Receives until closed; acknowledges nothing beyond what the session's mode does by itself."""
        return self

    async def __anext__(self) -> Message:
        message = None
        if not self._inner._inbox.is_over:
            try:
                message = await self.receive()
            except IllegalStateError:
                if not self._inner._inbox.is_over:
                    raise
        if message is None:
            self._inner._session.connection.check_process()
            raise StopAsyncIteration
        return message

    async def run(self, handler: Callable[[Message], Awaitable[object]], *, concurrency: int = 1) -> None:
        """Await `handler(message)` for each message, so many at once, until the consumer is closed; as of
        `jbm_kafka.MessageConsumer.run`. Cancelled, the handlers are cancelled too, and their messages come again.

        Raises:
            InvalidTypeError: it is no `async def` that can be called with one message.
            IllegalStateError, InvalidSettingError: as of `jbm_kafka.MessageConsumer.run`.
        """
        check_callable("handler", handler)
        if not is_async(handler):
            raise wrong_type("handler", handler, "it would block the event loop; write: async def handler(message): …")
        check_arguments("handler", handler, "message")
        failures, connection = self._inner._begin_run(concurrency), self._inner._session.connection
        counted, tracing, lane = connection.counts.handlers, connection.defaults.tracing, CallLane(self._threads)
        handling = AsyncHandling(handler, (), failures, counted, tracing, lambda call: lane.do(call, "the answer"))
        settlement = OneByOne(connection)
        pool = TaskPool(
            self.receive,
            lambda: self._inner._inbox.is_over,
            lambda message: handling.run(message, settlement),
            concurrency,
        )
        try:
            await pool.run()
        finally:
            failures.end()

    async def close(self) -> None:
        """See `jbm_kafka.MessageConsumer.close`; a receive of another task ends."""
        await CallLane(self._threads).do(self._inner.close, "close()")

    def __repr__(self) -> str:
        return f"<aio {self._inner!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await CallLane(self._threads).do(partial(self._inner.__exit__, kind, error, trace), "close()")


class AioQueueBrowser:
    """As `jbm_kafka.QueueBrowser`, iterated with `async for`. Made by `session.create_browser`."""

    __reduce__ = refuse_pickle
    __slots__ = ("_inner", "_threads")

    queue = Same[Queue]()
    include = Same[Include]()
    selector = Same[str | None]()
    is_closed = Same[bool]()

    def __init__(self, inner: QueueBrowser, threads: Threads) -> None:
        self._inner = inner
        self._threads = threads

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Looks anew."""
        messages, lane = iter(self._inner), CallLane(self._threads)
        while some := await lane.do(lambda: list(islice(messages, BROWSED_AT_ONCE)), "browsing"):
            for message in some:
                yield message

    async def close(self) -> None:
        """No further iteration."""
        self._inner.close()

    def __repr__(self) -> str:
        return f"<aio {self._inner!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._inner.close()
