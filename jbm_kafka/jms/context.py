"""The JMS 2.0 context: connection and session in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from types import TracebackType
from typing import Generic, Self, TypeVar, overload

from jbm_kafka.codec.typed_values import Value
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from jbm_kafka.core.durations import Duration
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.jms.base.arguments import as_destination
from jbm_kafka.jms.base.exception_listener import ExceptionListener
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.base.one_process import refuse_pickle
from jbm_kafka.jms.base.transaction_block import Transaction
from jbm_kafka.jms.browser import Include, QueueBrowser
from jbm_kafka.jms.connection import Connection, ConnectionMetadata
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.messages.bytes_message import BytesMessage
from jbm_kafka.jms.messages.map_message import MapMessage
from jbm_kafka.jms.messages.message import Message, TextMessage
from jbm_kafka.jms.messages.object_message import ObjectMessage
from jbm_kafka.jms.messages.stream_message import StreamMessage
from jbm_kafka.jms.producer import MessageProducer
from jbm_kafka.jms.sends.routing import UnitOfOrder
from jbm_kafka.jms.sends.send_reports import CompletionListener
from jbm_kafka.jms.settling.lazy_acknowledge import MESSAGES, MILLISECONDS

T = TypeVar("T")


class OfProducer(Generic[T]):
    """An attribute of a context's producer that is one of the producer behind it."""

    def __set_name__(self, owner: type[ContextProducer], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, made: None, owner: type[ContextProducer]) -> Self: ...
    @overload
    def __get__(self, made: ContextProducer, owner: type[ContextProducer]) -> T: ...
    def __get__(self, made: ContextProducer | None, owner: type[ContextProducer]) -> object:
        return self if made is None else getattr(made._producer, self._name)

    def __set__(self, made: ContextProducer, value: T) -> None:
        setattr(made._producer, self._name, value)


class ContextProducer:
    """A context's producer: each send names its destination first. Made by `context.create_producer`.

    Attributes are the defaults of its sends, as of a MessageProducer.
    """

    __reduce__ = refuse_pickle

    __slots__ = ("_producer",)

    unit_of_order = OfProducer[UnitOfOrder]()
    delivery_mode = OfProducer[DeliveryMode]()
    priority = OfProducer[int]()
    time_to_live_ms = OfProducer[int]()
    delivery_delay_ms = OfProducer[int]()
    spread = OfProducer[bool]()
    disable_message_id = OfProducer[bool]()
    disable_message_timestamp = OfProducer[bool]()

    def __init__(self, producer: MessageProducer) -> None:
        self._producer = producer

    @property
    def is_closed(self) -> bool:
        """Return True if it was closed, or its context was."""
        return self._producer.is_closed

    def send(
        self,
        destination: Destination,
        message: Message | str | bytes | Mapping[str, object] | Unset = UNSET,
        *,
        json: object = UNSET,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live_ms: Duration | None = None,
        delivery_delay_ms: Duration | None = None,
        deliver_at: datetime | None = None,
        unit_of_order: UnitOfOrder | Unset = UNSET,
        duplicate_id: str | None = None,
        properties: Mapping[str, object] | None = None,
        correlation_id: str | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,  # noqa: A002 - its name in JMS
        headers: Mapping[str, bytes | None] | None = None,
        on_completion: CompletionListener | None = None,
    ) -> Message:
        """Send a message to a destination; options as of `MessageProducer.send`.

        Raises:
            SendTimeoutError: not confirmed within some 30 s. It may be in the queue or not: treat it as not sent,
                and send it again with the same `duplicate_id`.
            MessageTooLargeError, JMSError: it counts as not sent; in PERSISTENT_GROUPACK maybe one before it.
            MessageFormatError, InvalidDestinationError, InvalidSettingError: it cannot be sent so; nothing was. A wrong
                type is an InvalidTypeError.
            OrderError: the unit's name cannot be one, or its partition cannot be written now; nothing was sent.
            IllegalStateError: the context is closed, in use by another thread or of another process; sending is paused;
                or `on_completion` is given in TRANSACTED, where commit reports failures. Nothing was sent.
        """
        return self._producer.send(
            message,
            json=json,
            destination=as_destination(destination),
            delivery_mode=delivery_mode,
            priority=priority,
            time_to_live_ms=time_to_live_ms,
            delivery_delay_ms=delivery_delay_ms,
            deliver_at=deliver_at,
            unit_of_order=unit_of_order,
            duplicate_id=duplicate_id,
            properties=properties,
            correlation_id=correlation_id,
            reply_to=reply_to,
            type=type,
            headers=headers,
            on_completion=on_completion,
        )

    def flush(self, timeout: float | None = None) -> None:
        """See MessageProducer.flush."""
        self._producer.flush(timeout)

    def unacknowledged_sends(self) -> list[Message]:
        """See MessageProducer.unacknowledged_sends."""
        return self._producer.unacknowledged_sends()

    def close(self) -> None:
        """See MessageProducer.close."""
        self._producer.close()

    def __repr__(self) -> str:
        return f"<ContextProducer of {self._producer}>"


class Context:
    """A connection and its one session in one object. Made by `factory.create_context()`; its first consumer starts it.

    For one thread, as a session is, but any thread may close it. As a context manager it closes itself.

    Where to: create_queue, create_topic, create_temporary_queue, create_temporary_topic.
    Send and ask: create_producer, request.
    Receive: create_consumer; of a topic's subscriptions create_durable_consumer, create_shared_consumer,
        create_shared_durable_consumer, and unsubscribe.
    Look: create_browser.
    Messages: create_text_message, create_bytes_message, create_map_message, create_stream_message,
        create_object_message, create_message.
    Acknowledge: acknowledge and recover in CLIENT and INDIVIDUAL; commit, rollback and transaction in TRANSACTED.
    Settings: set_default_prefetch, set_dups_ok, set_group_ack_threshold.
    What it is: acknowledge_mode, transacted, client_id, metadata, is_started, is_closed.
    Deliver or not: start, stop.
    Hear of trouble: exception_listener.
    End: close.
    """

    __reduce__ = refuse_pickle

    __slots__ = ("_connection", "_session")

    def __init__(self, connection: Connection, acknowledge_mode: AcknowledgeMode) -> None:
        self._connection = connection
        try:
            self._session = connection.create_session(acknowledge_mode)
        except BaseException:
            connection.close()
            raise

    # -- of its connection -----------------------------------------------------------------------------------------

    @property
    def client_id(self) -> str | None:
        """See Connection.client_id; a context has a session from its beginning, so the factory sets it."""
        return self._connection.client_id

    @property
    def metadata(self) -> ConnectionMetadata:
        """Versions: of JMS, of the provider."""
        return self._connection.metadata

    @property
    def is_started(self) -> bool:
        """Return True while it delivers messages."""
        return self._connection.is_started

    @property
    def is_closed(self) -> bool:
        """Return True if it was closed."""
        return self._connection.is_closed

    @property
    def exception_listener(self) -> ExceptionListener | None:
        """See Connection.exception_listener."""
        return self._connection.exception_listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListener | None) -> None:
        self._connection.exception_listener = listener

    # -- of its session --------------------------------------------------------------------------------------------

    @property
    def acknowledge_mode(self) -> AcknowledgeMode:
        """Return how what it receives is acknowledged."""
        return self._session.acknowledge_mode

    @property
    def transacted(self) -> bool:
        """Return True if it commits and rolls back."""
        return self._session.transacted

    def transaction(self) -> AbstractContextManager[Self]:
        """See Session.transaction."""
        return Transaction(self._transaction)

    @contextmanager
    def _transaction(self) -> Iterator[Self]:
        with self._session.transaction():
            yield self

    def set_default_prefetch(self, count: int) -> None:
        """See Session.set_default_prefetch."""
        self._session.set_default_prefetch(count)

    def set_dups_ok(self, messages: int = MESSAGES, milliseconds: int = MILLISECONDS) -> None:
        """See Session.set_dups_ok."""
        self._session.set_dups_ok(messages, milliseconds)

    def set_group_ack_threshold(self, count: int) -> None:
        """See Session.set_group_ack_threshold."""
        self._session.set_group_ack_threshold(count)

    def create_message(self) -> Message:
        """Make a message without a body."""
        return self._session.create_message()

    def create_queue(self, name: str) -> Queue:
        """Return the queue of this name."""
        return self._session.create_queue(name)

    def create_topic(self, name: str) -> Topic:
        """Return the topic of this name."""
        return self._session.create_topic(name)

    def create_temporary_queue(self) -> TemporaryQueue:
        """See Session.create_temporary_queue."""
        return self._session.create_temporary_queue()

    def create_temporary_topic(self) -> TemporaryTopic:
        """See Session.create_temporary_topic."""
        return self._session.create_temporary_topic()

    def request(
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
        """See Session.request; starts the connection."""
        self._connection.start()
        return self._session.request(
            destination,
            message,
            json=json,
            timeout=timeout,
            unit_of_order=unit_of_order,
            priority=priority,
            time_to_live_ms=time_to_live_ms,
            properties=properties,
            type=type,
        )

    def create_producer(self) -> ContextProducer:
        """Make a producer without a destination of its own: each send names it first, `send(queue, message)`."""
        return ContextProducer(self._session.create_producer())

    def create_consumer(
        self, destination: Destination, selector: str | None = None, no_local: bool = False, prefetch: int | None = None
    ) -> MessageConsumer:
        """Make a consumer of a queue or topic; starts the connection. Arguments and errors as of
        Session.create_consumer.

        Args:
            selector: which messages it gets, as "region = 'EU'"; None: each.
            no_local: of a topic, True: not what this context sends.
            prefetch: messages that it may hold unacknowledged, 1 to 1,000,000; None: the default.
        """
        self._connection.start()
        return self._session.create_consumer(destination, selector, no_local, prefetch)

    def create_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None, no_local: bool = False, prefetch: int | None = None
    ) -> MessageConsumer:
        """See Session.create_durable_consumer; starts the connection."""
        self._connection.start()
        return self._session.create_durable_consumer(topic, name, selector, no_local, prefetch)

    def create_shared_consumer(
        self, topic: Topic, name: str, selector: str | None = None, prefetch: int | None = None
    ) -> MessageConsumer:
        """See Session.create_shared_consumer; starts the connection."""
        self._connection.start()
        return self._session.create_shared_consumer(topic, name, selector, prefetch)

    def create_shared_durable_consumer(
        self, topic: Topic, name: str, selector: str | None = None, prefetch: int | None = None
    ) -> MessageConsumer:
        """See Session.create_shared_durable_consumer; starts the connection."""
        self._connection.start()
        return self._session.create_shared_durable_consumer(topic, name, selector, prefetch)

    def unsubscribe(self, name: str) -> None:
        """See Session.unsubscribe."""
        self._session.unsubscribe(name)

    def create_browser(
        self, queue: Queue, selector: str | None = None, include: Include = "deliverable"
    ) -> QueueBrowser:
        """Make a browser of a queue, which consumes nothing. Arguments and errors as of Session.create_browser.

        Args:
            selector: which messages it shows, as "region = 'EU'"; None: each.
            include: "deliverable": what could be received now; "all": everything that the queue holds.
        """
        return self._session.create_browser(queue, selector, include)

    def create_text_message(self, text: str | None = None) -> TextMessage:
        """Make a text message."""
        return TextMessage(text)

    def create_bytes_message(self, data: bytes = b"") -> BytesMessage:
        """Make a bytes message."""
        return BytesMessage(data)

    def create_map_message(self, body: Mapping[str, Value] | None = None) -> MapMessage:
        """Make a map message."""
        return MapMessage(body)

    def create_object_message(self, body: object = None, codec: str = "json") -> ObjectMessage:
        """Make an object message."""
        return ObjectMessage(body, codec)

    def create_stream_message(self, body: Sequence[Value] = ()) -> StreamMessage:
        """Make a stream message."""
        return StreamMessage(body)

    def start(self) -> None:
        """Deliver from now on."""
        self._connection.start()

    def stop(self) -> None:
        """Deliver nothing until started again."""
        self._connection.stop()

    def acknowledge(self) -> None:
        """See Session.acknowledge."""
        self._session.acknowledge()

    def recover(self) -> None:
        """See Session.recover."""
        self._session.recover()

    def commit(self) -> None:
        """See Session.commit."""
        self._session.commit()

    def rollback(self) -> None:
        """See Session.rollback."""
        self._session.rollback()

    def close(self) -> None:
        """Close session and connection."""
        self._connection.close()

    def __repr__(self) -> str:
        return f"<Context of {self._connection} {self._session}>"

    def __enter__(self) -> Self:
        self._connection.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection._core.is_forked:
            return
        if error is not None:
            self._session._strategy.abandon()
        self._connection.close()
