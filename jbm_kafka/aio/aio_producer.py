"""Producers and senders whose sends are awaited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from jbm_kafka.aio.made import Same, called_on_loop
from jbm_kafka.client.call_lane import CallLane, Threads
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.durations import Duration
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.jms.base.arguments import check_callable
from jbm_kafka.jms.base.never_run import check_runs
from jbm_kafka.jms.base.one_process import refuse_pickle
from jbm_kafka.jms.context import ContextProducer
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.producer import MessageProducer
from jbm_kafka.jms.sender import Sender
from jbm_kafka.jms.sends.routing import UnitOfOrder
from jbm_kafka.jms.sends.send_reports import CompletionListener

_Given = Message | str | bytes | Mapping[str, object] | Unset


class AioSendOptions(TypedDict, total=False):
    """The options of a send, as of `jbm_kafka.MessageProducer.send`."""

    json: object
    delivery_mode: DeliveryMode | None
    priority: int | None
    time_to_live_ms: Duration | None
    delivery_delay_ms: Duration | None
    deliver_at: datetime | None
    unit_of_order: UnitOfOrder | Unset
    duplicate_id: str | None
    properties: Mapping[str, object] | None
    correlation_id: str | None
    reply_to: Destination | None
    type: str | None
    headers: Mapping[str, bytes | None] | None
    on_completion: CompletionListener | None


class AioSendOptionsTo(AioSendOptions, total=False):
    """With the destination, for a producer made without one."""

    destination: Destination | None


async def _send(lane: CallLane, send: Callable[..., Message], mode: object, options: Mapping[str, Any]) -> Message:
    """Send in the lane; a persistent one is awaited until Kafka has it, and many may be under way."""
    listener = options.get("on_completion")
    if listener is not None:
        check_callable("on_completion", listener)
        check_runs("on_completion", listener, "message, error")
        return await lane.do(partial(send, **{**options, "on_completion": called_on_loop(listener)}), "the send")
    if mode is not DeliveryMode.PERSISTENT:
        return await lane.do(partial(send, **options), "the send", once_begun="the message may be sent")
    return await lane.do_reported(
        lambda report: send(**{**options, "on_completion": report}),
        "the send",
        once_begun="the message was handed to Kafka's client, and may be in the queue; to send it again, give both "
        "sends one duplicate_id",
    )


class AioMessageProducer:
    """As `jbm_kafka.MessageProducer`, but its sends are awaited, and tasks may send with it at once: messages go in the
    order of the calls. Made by `session.create_producer`.
    """

    __reduce__ = refuse_pickle
    __slots__ = ("_inner", "_is_transacted", "_lane", "_threads")

    unit_of_order = Same[UnitOfOrder]()
    delivery_mode = Same[DeliveryMode]()
    priority = Same[int]()
    time_to_live_ms = Same[int]()
    delivery_delay_ms = Same[int]()
    spread = Same[bool]()
    disable_message_id = Same[bool]()
    disable_message_timestamp = Same[bool]()
    is_closed = Same[bool]()
    unacknowledged_sends = Same[Callable[[], list[Message]]]()

    def __init__(
        self, inner: MessageProducer | ContextProducer, lane: CallLane, threads: Threads, *, is_transacted: bool
    ) -> None:
        self._inner: Any = inner  # either kind, whose sends differ in their first argument
        self._lane = lane
        self._threads = threads
        self._is_transacted = is_transacted

    @property
    def destination(self) -> Destination | None:
        """Where its messages go; None: each send names it."""
        inner = self._inner
        return inner.destination if isinstance(inner, MessageProducer) else None

    async def send(self, message: _Given = UNSET, **options: Unpack[AioSendOptionsTo]) -> Message:
        """Send a message, and return when Kafka has it; in TRANSACTED it is sent by the commit. Options and errors as
        of `jbm_kafka.MessageProducer.send`; `on_completion` is called on the event loop.

        Cancelled, it is sent or not; a note of the CancelledError says what is known.
        """
        return await self._send(partial(self._inner.send, message), options)

    async def _send(self, send: Callable[..., Message], options: Mapping[str, Any]) -> Message:
        mode = options.get("delivery_mode") or self.delivery_mode
        return await _send(self._lane, send, None if self._is_transacted else mode, options)

    async def flush(self, timeout: float | None = None) -> None:
        """See `jbm_kafka.MessageProducer.flush`."""
        await self._lane.idle()
        await CallLane(self._threads).do(partial(self._inner.flush, timeout), "flush()")

    async def close(self) -> None:
        """See `jbm_kafka.MessageProducer.close`."""
        await self._lane.do(self._inner.close, "close()")

    def __repr__(self) -> str:
        return f"<aio {self._inner!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class AioContextProducer(AioMessageProducer):
    """A context's producer: each send names its destination first. Made by `context.create_producer`."""

    __slots__ = ()

    async def send(  # type: ignore[override]
        self, destination: Destination, message: _Given = UNSET, **options: Unpack[AioSendOptions]
    ) -> Message:
        """See `AioMessageProducer.send`."""
        return await self._send(partial(self._inner.send, destination, message), options)


class AioSender:
    """As `jbm_kafka.Sender`, awaited: any task may send at once. Made by `factory.create_sender()` or
    `connection.create_sender()`.
    """

    __reduce__ = refuse_pickle
    __slots__ = ("_closing", "_inner", "_lane")

    is_closed = Same[bool]()

    def __init__(self, inner: Sender, threads: Threads, closing: Threads) -> None:
        self._inner = inner
        self._lane = CallLane(threads)
        self._closing = closing

    async def send(
        self, destination: Destination, message: _Given = UNSET, **options: Unpack[AioSendOptions]
    ) -> Message:
        """Send a message, and return when Kafka has it; units are in the order of the calls. Cancelled, it is sent or
        not; a note of the CancelledError says what is known.
        """
        mode = options.get("delivery_mode") or DeliveryMode.PERSISTENT
        return await _send(self._lane, partial(self._inner.send, destination, message), mode, options)

    async def close(self) -> None:
        """Wait for the sends under way; send no more."""
        await self._lane.idle()
        await CallLane(self._closing).do(self._inner.close, "close()")

    def __repr__(self) -> str:
        return f"<aio {self._inner!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
