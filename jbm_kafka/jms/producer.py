"""Producers: from messages to records on a queue's topic."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.errors import (
    IllegalStateError,
    InvalidDestinationError,
    MessageFormatError,
    MessageTooLargeError,
    OrderError,
)
from jbm_kafka.core.markers import NO_UNIT, SYSTEM_GENERATED, UNSET, UnitMarker, Unset
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.jms.completions import CompletionListener
from jbm_kafka.jms.embedded import send_error
from jbm_kafka.jms.messages import BytesMessage, Message, TextMessage
from jbm_kafka.jms.messages_wire import to_record
from jbm_kafka.jms.properties import GROUP_ID
from jbm_kafka.ports import KafkaTrouble, Outgoing
from jbm_kafka.sidecar.topics import TopicInfo

if TYPE_CHECKING:
    from jbm_kafka.jms.session import Session

UnitOfOrder = str | UnitMarker | None
SEND_TIMEOUT_S = 60.0
HEADER_BYTES = 1024
"""Rough room for headers when a transacted send is judged against the topic's largest message."""


class MessageProducer:
    """Made by `session.create_producer`. Attributes are the defaults of its sends."""

    def __init__(self, session: Session, destination: Destination | None) -> None:
        self.session = session
        self.destination = destination
        self.unit_of_order: UnitOfOrder | Unset = UNSET
        """The unit of its messages; None ends an association, NO_UNIT overrides every default (UNIT-10)."""
        self.delivery_mode = DeliveryMode.PERSISTENT
        self.priority = 4
        self.time_to_live_ms = 0
        self.delivery_delay_ms = 0
        self.spread = False
        """True: messages without a unit go to all partitions in turn, and lose their order among each other."""
        self.disable_message_id = False
        self.disable_message_timestamp = False
        self.is_closed = False
        self._turn = 0
        self._partitions: dict[tuple[str, bytes], int] = {}

    def send(
        self,
        message: Message | str | bytes | Mapping[str, object],
        *,
        destination: Destination | None = None,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live_ms: int | None = None,
        delivery_delay_ms: int | None = None,
        unit_of_order: UnitOfOrder | Unset = UNSET,
        duplicate_id: str | None = None,
        properties: Mapping[str, object] | None = None,
        correlation_id: str | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,  # noqa: A002 - its name in JMS
        on_completion: CompletionListener | None = None,
    ) -> Message:
        """Send a message; in a TRANSACTED session it is sent by the commit.

        Without `on_completion` a persistent send returns when every in-sync replica has it (SEND-1). Returns the
        message with its headers set.

        Raises:
            SendTimeoutError, MessageTooLargeError, JMSError: it counts as not sent (SEND-4).
            MessageFormatError: it cannot be carried.
        """
        if isinstance(message, Destination):
            raise TypeError(
                "a producer's send takes the message first; only a context's producer takes the destination"
            )
        session = self.session
        with session.in_use() if not session.is_listener_thread() else session.reenter():
            self._check_open()
            target = self._target(destination)
            info = session.connection.provider.ensure(target)
            outgoing_message = as_message(message)
            if correlation_id is not None:
                outgoing_message.correlation_id = correlation_id
            if reply_to is not None:
                outgoing_message.reply_to = reply_to
            if type is not None:
                outgoing_message.type = type
            self._stamp(outgoing_message, target, delivery_mode, priority, time_to_live_ms, delivery_delay_ms)
            unit = self._unit(unit_of_order, outgoing_message, target)
            outgoing_message.unit_of_order = unit
            record = self._record(outgoing_message, info, unit, duplicate_id, properties or {})
            self._dispatch(outgoing_message, record, info, on_completion)
            return outgoing_message

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every send is confirmed or has failed, and its callback has run.

        Raises:
            SendTimeoutError: not so within `timeout` seconds.
        """
        self.session.connection.flush(SEND_TIMEOUT_S if timeout is None else timeout)

    def close(self) -> None:
        """Wait for callbacks; send no more."""
        if not self.is_closed:
            self.session.connection.completions.refuse_inside("producer.close()")
            self.is_closed = True
            self.session.connection.completions.wait_done(SEND_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- one step each -----------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.is_closed:
            raise IllegalStateError("the producer is closed; make a new one")

    def _target(self, destination: Destination | None) -> Destination:
        if self.destination is not None:
            if destination is not None and destination != self.destination:
                raise IllegalStateError(
                    f"this producer sends to {self.destination}; make one without a destination for {destination}"
                )
            return self.destination
        if destination is None:
            raise InvalidDestinationError("the producer has no destination: name one in send(destination=…)")
        if not isinstance(destination, Destination):
            raise InvalidDestinationError(f"{destination!r} is no destination; use session.create_queue(name)")
        return destination

    def _stamp(
        self,
        message: Message,
        target: Destination,
        delivery_mode: DeliveryMode | None,
        priority: int | None,
        time_to_live_ms: int | None,
        delivery_delay_ms: int | None,
    ) -> None:
        """Set the headers a send sets."""
        connection = self.session.connection
        now_ms = connection.provider.clock.now_ms()
        mode = self.delivery_mode if delivery_mode is None else DeliveryMode(delivery_mode)
        if mode is DeliveryMode.PERSISTENT_GROUPACK:
            raise IllegalStateError("PERSISTENT_GROUPACK is not there yet; use PERSISTENT with on_completion")
        life_ms = _duration("time_to_live_ms", self.time_to_live_ms if time_to_live_ms is None else time_to_live_ms)
        delay_ms = _duration(
            "delivery_delay_ms", self.delivery_delay_ms if delivery_delay_ms is None else delivery_delay_ms
        )
        message.destination = target
        message.delivery_mode = mode
        message.priority = _priority(self.priority if priority is None else priority)
        message.expiration = now_ms + life_ms if life_ms else 0
        message.delivery_time = now_ms + delay_ms if delay_ms else 0
        message.timestamp = now_ms
        message.message_id = None if self.disable_message_id else connection.next_message_id()
        message.redelivered = False

    def _unit(self, given: UnitOfOrder | Unset, message: Message, target: Destination) -> str | None:
        """The unit by precedence (UNIT-10): send, producer, JMSXGroupID, destination, factory."""
        session = self.session
        for candidate in (given, self.unit_of_order):
            if candidate is NO_UNIT:
                return None
            if candidate is not UNSET and candidate is not None:
                return self._name(candidate)
        group = message.properties.get(GROUP_ID)
        if isinstance(group, str) and group:
            return group
        for default in (
            session.connection.provider.sidecar.settings_of(target.name).default_unit_of_order,
            session.connection.default_unit_of_order,
        ):
            if default is NO_UNIT:
                return None
            if default is not None:
                return self._name(default)
        return None

    def _name(self, unit: object) -> str:
        if unit is SYSTEM_GENERATED:
            return self.session.system_unit
        if not isinstance(unit, str) or not unit:
            raise OrderError(f"unit_of_order is {unit!r}: it is a non-empty str, None, NO_UNIT or SYSTEM_GENERATED")
        return unit

    def _record(
        self,
        message: Message,
        info: TopicInfo,
        unit: str | None,
        duplicate_id: str | None,
        properties: Mapping[str, object],
    ) -> Outgoing:
        encoded = to_record(message, duplicate_id=duplicate_id, properties=properties)
        key = None if unit is None else _utf8(unit)
        return Outgoing(
            topic=info.topic,
            partition=self._partition(info, key, duplicate_id),
            key=key,
            value=encoded.value,
            headers=encoded.headers,
            timestamp_ms=None if self.disable_message_timestamp else message.timestamp,
        )

    def _partition(self, info: TopicInfo, key: bytes | None, duplicate_id: str | None) -> int:
        if key is not None:
            place = (info.topic, key)
            partition = self._partitions.get(place)
            if partition is None:
                if len(self._partitions) > 100_000:
                    self._partitions.clear()
                partition = self._partitions[place] = partition_for(key, info.partitions)
            return partition
        if duplicate_id is not None:
            return partition_for(_utf8(duplicate_id), info.partitions)
        if self.spread:
            self._turn += 1
            return self._turn % info.partitions
        return self.session.own_partition(info.partitions)

    def _dispatch(
        self, message: Message, record: Outgoing, info: TopicInfo, on_completion: CompletionListener | None
    ) -> None:
        session = self.session
        size = HEADER_BYTES + len(record.value or b"") + len(record.key or b"")
        if session.transacted:
            if on_completion is not None:
                raise IllegalStateError("on_completion is not for transacted sends: the commit tells")
            if size - HEADER_BYTES > info.max_message_bytes:
                raise MessageTooLargeError(
                    f"{message.destination}: a message of {size - HEADER_BYTES} bytes; its topic takes "
                    f"{info.max_message_bytes} (max.message.bytes)",
                    size_bytes=size - HEADER_BYTES,
                )
            session.outbox.add(record, size)
            return
        provider = session.connection.provider
        if on_completion is not None:
            tell = session.connection.completions.expect(message, on_completion)
            try:
                provider.send(record, lambda trouble: tell(None if trouble is None else send_error(trouble)))
            except Exception:
                session.connection.completions.withdraw(message)
                raise
        elif message.delivery_mode is DeliveryMode.NON_PERSISTENT:
            provider.send(record, None)
        else:
            report = _Report()
            provider.send(record, report)
            report.wait()


class _Report:
    """One send's report, waited for by its sender."""

    __slots__ = ("_done", "_trouble")

    def __init__(self) -> None:
        # A lock is a quarter of the cost of an Event, which matters once per send.
        self._done = threading.Lock()
        self._done.acquire()
        self._trouble: KafkaTrouble | None = None

    def __call__(self, trouble: KafkaTrouble | None) -> None:
        self._trouble = trouble
        self._done.release()

    def wait(self) -> None:
        """Raises what the send failed with."""
        self._done.acquire()
        if self._trouble is not None:
            raise send_error(self._trouble)


def as_message(message: Message | str | bytes | Mapping[str, object]) -> Message:
    """A str is a text message, bytes are a bytes message."""
    if isinstance(message, Message):
        return message
    if isinstance(message, str):
        return TextMessage(message)
    if isinstance(message, bytes | bytearray | memoryview):
        return BytesMessage(bytes(message))
    if isinstance(message, Mapping):
        raise MessageFormatError("map messages are not there yet; send JSON text")
    raise MessageFormatError(f"a {type(message).__name__} is no message: send a Message, str or bytes")


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as fault:
        raise MessageFormatError(f"{text!r} cannot be sent as UTF-8: {fault}") from None


def _duration(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is {value!r}: it is an int of milliseconds, 0 or more")
    return value


def _priority(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 9:
        raise ValueError(f"priority is {value!r}: it is an int from 0 to 9")
    return value
