"""Factories and connections for asyncio: they connect and close beside the event loop."""

from __future__ import annotations

from functools import partial
from types import TracebackType
from typing import Any, Self

from jbm_kafka.aio.aio_producer import AioSender
from jbm_kafka.aio.aio_session import AioContext, AioSession
from jbm_kafka.aio.made import ListenerOnLoop, Made, Same
from jbm_kafka.client.call_lane import CallLane, OwnThread, pool_of_threads
from jbm_kafka.core.statistics import Health, Statistics
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.base.one_process import refuse_pickle
from jbm_kafka.jms.connection import Connection, ConnectionMetadata
from jbm_kafka.jms.context import Context
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.jms.sender import Sender

_connecting = OwnThread(ends_with_process=True)


class AioConnection:
    """As `jbm_kafka.Connection`, awaited; `async with` starts and closes it. Made by `factory.create_connection()`.

    Up to 16 of its calls wait for Kafka at the same time, on threads beside the loop; a receive that waits has none.
    """

    __reduce__ = refuse_pickle
    __slots__ = ("_inner", "_threads")

    exception_listener = ListenerOnLoop()
    metadata = Same[ConnectionMetadata]()
    is_started = Same[bool]()
    is_closed = Same[bool]()

    def __init__(self, inner: Connection) -> None:
        self._inner = inner
        self._threads = pool_of_threads()

    @property
    def client_id(self) -> str | None:
        """See `jbm_kafka.Connection.client_id`; here the factory sets it, for that waits for Kafka."""
        return self._inner.client_id

    def create_session(self, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO) -> Made[AioSession]:
        """A session; one for each task that works."""

        async def make() -> AioSession:
            return AioSession(self._inner.create_session(acknowledge_mode), self._threads)

        return Made(make)

    def create_sender(self) -> Made[AioSender]:
        """A sender that any task may use at once; it sends by this connection."""

        async def make() -> AioSender:
            return AioSender(self._inner.create_sender(), self._threads, self._threads)

        return Made(make)

    async def start(self) -> None:
        """See `jbm_kafka.Connection.start`."""
        await CallLane(self._threads).do(self._inner.start, "start()")

    async def stop(self) -> None:
        """See `jbm_kafka.Connection.stop`."""
        await CallLane(self._threads).do(self._inner.stop, "stop()")

    async def statistics(self) -> Statistics:
        """See `jbm_kafka.Connection.statistics`."""
        return await CallLane(self._threads).do(self._inner.statistics, "statistics()")

    async def health(self, timeout: float | None = 5.0) -> Health:
        """See `jbm_kafka.Connection.health`."""
        return await CallLane(OwnThread()).do(partial(self._inner.health, timeout), "health()")

    async def close(self) -> None:
        """Close every session, wait for sends, leave the groups in order; receives of other tasks end. Cancelled, it
        goes on.
        """
        await CallLane(OwnThread()).do(self._inner.close, "close()")

    def __repr__(self) -> str:
        return f"<aio {self._inner!r}>"

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()  # nobody else would
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await CallLane(OwnThread()).do(partial(self._inner.__exit__, kind, error, trace), "close()")


class AioConnectionFactory:
    """As `jbm_kafka.ConnectionFactory`, with the same arguments, for programs on an event loop."""

    __slots__ = ("_inner",)

    def __init__(self, url: str, **settings: Any) -> None:
        self._inner = ConnectionFactory(url, **settings)

    def create_connection(self, username: str | None = None, password: str | None = None) -> Made[AioConnection]:
        """See `jbm_kafka.ConnectionFactory.create_connection`."""

        async def make() -> AioConnection:
            connect = partial(self._inner.create_connection, username, password)
            inner = await CallLane(_connecting).do(connect, "create_connection()", undo=Connection.close)
            return AioConnection(inner)

        return Made(make)

    def create_context(self, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO) -> Made[AioContext]:
        """See `jbm_kafka.ConnectionFactory.create_context`."""

        async def make() -> AioContext:
            connect = partial(self._inner.create_context, acknowledge_mode)
            inner = await CallLane(_connecting).do(connect, "create_context()", undo=Context.close)
            return AioContext(inner, pool_of_threads(), OwnThread())

        return Made(make)

    def create_sender(self) -> Made[AioSender]:
        """See `jbm_kafka.ConnectionFactory.create_sender`."""

        async def make() -> AioSender:
            inner = await CallLane(_connecting).do(self._inner.create_sender, "create_sender()", undo=Sender.close)
            return AioSender(inner, pool_of_threads(), OwnThread())

        return Made(make)

    def __repr__(self) -> str:
        return f"<aio {self._inner!r}>"
