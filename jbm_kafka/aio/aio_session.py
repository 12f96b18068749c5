"""Sessions and contexts whose calls are awaited where they may wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Self

from jbm_kafka.aio.aio_consumer import AioMessageConsumer, AioQueueBrowser
from jbm_kafka.aio.aio_producer import AioContextProducer, AioMessageProducer
from jbm_kafka.aio.loop_bed import on_this_loop
from jbm_kafka.aio.made import ListenerOnLoop, Made, Same
from jbm_kafka.client.call_lane import CallLane, Threads
from jbm_kafka.core.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from jbm_kafka.core.durations import Duration
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.base.one_process import refuse_pickle
from jbm_kafka.jms.browser import Include
from jbm_kafka.jms.connection import ConnectionMetadata
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.context import Context, ContextProducer
from jbm_kafka.jms.messages.bytes_message import BytesMessage
from jbm_kafka.jms.messages.map_message import MapMessage
from jbm_kafka.jms.messages.message import Message, TextMessage
from jbm_kafka.jms.messages.object_message import ObjectMessage
from jbm_kafka.jms.messages.stream_message import StreamMessage
from jbm_kafka.jms.producer import MessageProducer
from jbm_kafka.jms.requesting import SendOptionsOfRequest, reply_to
from jbm_kafka.jms.sends.routing import UnitOfOrder
from jbm_kafka.jms.sends.send_order import OneWay
from jbm_kafka.jms.session import Session

COMMITTING = "it goes on, and whether it was committed shows in what is received; the session's next call waits for it"


class AioSession:
    """As `jbm_kafka.Session`, awaited: one thread of work, of one task at a time; any task may close it. What it makes
    is awaited, or entered with `async with`. Made by `connection.create_session`.

    `message.acknowledge()`, `nack` and `reject` are plain calls, which note what a checkpoint records; with
    `block_on_acknowledge` they wait for it, and `await session.acknowledge()` does so beside the loop.
    """

    __reduce__ = refuse_pickle
    __slots__ = ("_inner", "_lane", "_session", "_threads")

    acknowledge_mode = Same[AcknowledgeMode]()
    transacted = Same[bool]()
    is_closed = Same[bool]()
    create_queue = Same[Callable[[str], Queue]]()
    create_topic = Same[Callable[[str], Topic]]()
    create_message = Same[Callable[[], Message]]()
    create_text_message = Same[Callable[..., TextMessage]]()
    create_bytes_message = Same[Callable[..., BytesMessage]]()
    create_map_message = Same[Callable[..., MapMessage]]()
    create_stream_message = Same[Callable[..., StreamMessage]]()
    create_object_message = Same[Callable[..., ObjectMessage]]()
    set_default_prefetch = Same[Callable[[int], None]]()
    set_dups_ok = Same[Callable[..., None]]()
    set_group_ack_threshold = Same[Callable[[int], None]]()

    def __init__(self, inner: Session | Context, threads: Threads) -> None:
        self._inner = inner
        self._session = inner._session if isinstance(inner, Context) else inner
        self._threads = threads
        self._lane = CallLane(threads)
        self._session._consumers.waits_until_ready = False  # a task waits for that, and no thread
        if not inner.transacted:
            self._session._core.send_order = OneWay()  # all sends by the way that gathers nothing

    # -- what it makes -------------------------------------------------------------------------------------------

    def create_producer(self, destination: Destination | None = None) -> Made[AioMessageProducer]:
        """See `jbm_kafka.Session.create_producer`."""
        return Made(partial(self._producer, partial(self._session.create_producer, destination), AioMessageProducer))

    async def _producer(
        self, create: Callable[[], MessageProducer | ContextProducer], kind: type[AioMessageProducer]
    ) -> AioMessageProducer:
        inner = await self._lane.do(create, "create_producer()")
        return kind(inner, self._lane, self._threads, is_transacted=self.transacted)

    def create_consumer(
        self, destination: Destination, selector: str | None = None, no_local: bool = False, prefetch: int | None = None
    ) -> Made[AioMessageConsumer]:
        """See `jbm_kafka.Session.create_consumer`."""
        return self._consumer(partial(self._inner.create_consumer, destination, selector, no_local, prefetch))

    def create_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None, no_local: bool = False, prefetch: int | None = None
    ) -> Made[AioMessageConsumer]:
        """See `jbm_kafka.Session.create_durable_consumer`."""
        return self._consumer(partial(self._inner.create_durable_consumer, topic, name, selector, no_local, prefetch))

    def create_shared_consumer(
        self, topic: Topic, name: str, selector: str | None = None, prefetch: int | None = None
    ) -> Made[AioMessageConsumer]:
        """See `jbm_kafka.Session.create_shared_consumer`."""
        return self._consumer(partial(self._inner.create_shared_consumer, topic, name, selector, prefetch))

    def create_shared_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None, prefetch: int | None = None
    ) -> Made[AioMessageConsumer]:
        """See `jbm_kafka.Session.create_shared_durable_consumer`."""
        return self._consumer(partial(self._inner.create_shared_durable_consumer, topic, name, selector, prefetch))

    def _consumer(self, create: Callable[[], MessageConsumer]) -> Made[AioMessageConsumer]:
        async def make() -> AioMessageConsumer:
            inner = await self._lane.do(create, "create_consumer()", undo=MessageConsumer.close)
            becoming_ready = self._session._consumers.until_ready(inner)
            await on_this_loop(becoming_ready, self._session._core.filled, self._lane, "create_consumer()")
            return AioMessageConsumer(inner, self._lane, self._threads)

        return Made(make)

    def create_browser(
        self, queue: Queue, selector: str | None = None, include: Include = "deliverable"
    ) -> Made[AioQueueBrowser]:
        """See `jbm_kafka.Session.create_browser`."""

        async def make() -> AioQueueBrowser:
            return AioQueueBrowser(self._inner.create_browser(queue, selector, include), self._threads)

        return Made(make)

    async def create_temporary_queue(self) -> TemporaryQueue:
        """See `jbm_kafka.Session.create_temporary_queue`; its `delete()` is a plain call, which may wait for Kafka."""
        return await self._lane.do(self._inner.create_temporary_queue, "create_temporary_queue()")

    async def create_temporary_topic(self) -> TemporaryTopic:
        """As `create_temporary_queue`."""
        return await self._lane.do(self._inner.create_temporary_topic, "create_temporary_topic()")

    async def unsubscribe(self, name: str) -> None:
        """See `jbm_kafka.Session.unsubscribe`."""
        await self._lane.do(partial(self._inner.unsubscribe, name), "unsubscribe()")

    async def request(
        self,
        destination: Destination,
        message: Message | str | bytes | Mapping[str, object] | Unset = UNSET,
        *,
        json: object = UNSET,
        timeout: float | None,
        unit_of_order: UnitOfOrder | Unset = UNSET,
        priority: int | None = None,
        time_to_live_ms: Duration | None = None,
        properties: Mapping[str, object] | None = None,
        type: str | None = None,  # noqa: A002 - its name in JMS
    ) -> Message:
        """Send a request and return the reply to it; see `jbm_kafka.Session.request`. Its task sleeps on the loop."""
        options = SendOptionsOfRequest(json, unit_of_order, priority, time_to_live_ms, properties, type)
        core = self._session._core
        asking = reply_to(core, destination, message, timeout, options)
        return await on_this_loop(asking, core.filled, self._lane, "request()")

    # -- acknowledging ---------------------------------------------------------------------------------------------

    async def acknowledge(self) -> None:
        """See `jbm_kafka.Session.acknowledge`."""
        await CallLane(self._threads).do(self._inner.acknowledge, "acknowledge()")

    async def recover(self) -> None:
        """See `jbm_kafka.Session.recover`."""
        await self._lane.do(self._inner.recover, "recover()")

    async def commit(self) -> None:
        """See `jbm_kafka.Session.commit`. Cancelled, it goes on once it was begun; a note of the CancelledError says
        what is known.
        """
        await self._lane.do(self._inner.commit, "commit()", once_begun=COMMITTING)

    async def rollback(self) -> None:
        """See `jbm_kafka.Session.rollback`."""
        await self._lane.do(self._inner.rollback, "rollback()")

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """For `async with`: commits at the end of the block, rolls back on an exception, also when it is cancelled."""
        block: Any = self._inner.transaction()
        block.__enter__()
        try:
            yield self
        except BaseException as error:
            await self._lane.do(partial(block.__exit__, type(error), error, error.__traceback__), "rollback()")
            raise
        await self._lane.do(partial(block.__exit__, None, None, None), "commit()", once_begun=COMMITTING)

    # -- life --------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Give back what is unacknowledged, drop uncommitted sends, end; a receive of another task ends."""
        await CallLane(self._threads).do(self._inner.close, "close()")

    def __repr__(self) -> str:
        return f"<aio {self._inner!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await CallLane(self._threads).do(partial(self._inner.__exit__, kind, error, trace), "close()")


class AioContext(AioSession):
    """As `jbm_kafka.Context`, awaited: a connection and its one session. Made by `factory.create_context()`."""

    __slots__ = ("_closing",)
    _inner: Context

    exception_listener = ListenerOnLoop()
    client_id = Same[str | None]()
    metadata = Same[ConnectionMetadata]()
    is_started = Same[bool]()

    def __init__(self, inner: Context, threads: Threads, closing: Threads) -> None:
        super().__init__(inner, threads)
        self._closing = closing

    def create_producer(self) -> Made[AioContextProducer]:  # type: ignore[override]
        """A producer without a destination of its own: each send names it first."""
        return Made(partial(self._producer, self._inner.create_producer, AioContextProducer))  # type: ignore[arg-type]

    async def request(self, *arguments: Any, **options: Any) -> Message:
        """See `jbm_kafka.Context.request`; starts the connection."""
        await self.start()
        return await super().request(*arguments, **options)

    async def start(self) -> None:
        """Deliver from now on."""
        await self._lane.do(self._inner.start, "start()")

    async def stop(self) -> None:
        """Deliver nothing until started again."""
        await self._lane.do(self._inner.stop, "stop()")

    async def close(self) -> None:
        """See `jbm_kafka.Context.close`."""
        await CallLane(self._closing).do(self._inner.close, "close()")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await CallLane(self._closing).do(partial(self._inner.__exit__, kind, error, trace), "close()")
