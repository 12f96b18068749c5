"""Makes of the arguments of a send a message, and the headers that a send sets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jbm_kafka.codec.headers import OWN_HEADERS
from jbm_kafka.codec.json_text import CONTENT_TYPE, JSON_TYPE, json_text
from jbm_kafka.codec.property_header import HEADER_PREFIX
from jbm_kafka.codec.scan import Header
from jbm_kafka.codec.schema_registry import SchemaCodecs
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.durations import Duration, checked_duration_ms, checked_instant_ms
from jbm_kafka.core.jms_errors import MessageFormatError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.sentinels import UNSET
from jbm_kafka.core.wrong_values import shown, wrong_value
from jbm_kafka.jms.messages.bytes_message import BytesMessage
from jbm_kafka.jms.messages.header_values import checked_delivery_mode, checked_priority, checked_reply_to, checked_text
from jbm_kafka.jms.messages.map_message import MapMessage
from jbm_kafka.jms.messages.message import Message, TextMessage
from jbm_kafka.jms.messages.message_core import MessageCore, look_up_headers, new_into
from jbm_kafka.jms.messages.object_message import ObjectMessage

# A member of an Enum costs a look-up through its class each time; this is asked for every message.
_PERSISTENT: Final = DeliveryMode.PERSISTENT
_TEXT_MESSAGE: Final = TextMessage
_NEW: Final = Message.__new__


class DeliverAt:
    """An instant in place of a delivery delay."""

    __slots__ = ("at_ms",)

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms


class SendOptions:
    """How one message is sent; checked by `checked_options`."""

    __slots__ = ("deliver_at_ms", "delivery_delay_ms", "delivery_mode", "priority", "time_to_live_ms")

    def __init__(
        self,
        delivery_mode: DeliveryMode,
        priority: int,
        time_to_live_ms: int,
        delivery_delay_ms: int,
        deliver_at_ms: int,
    ) -> None:
        self.delivery_mode = delivery_mode
        self.priority = priority
        self.time_to_live_ms = time_to_live_ms
        self.delivery_delay_ms = delivery_delay_ms
        self.deliver_at_ms = deliver_at_ms
        """In place of a delay; 0: none was named."""


def checked_options(
    delivery_mode: Any, priority: object, time_to_live_ms: object, delivery_delay_ms: object
) -> SendOptions:
    """The options of a send.

    Raises:
        InvalidSettingError: one has a wrong type, unit or size.
    """
    return SendOptions(
        _PERSISTENT if delivery_mode is _PERSISTENT else checked_delivery_mode(delivery_mode),
        checked_priority(priority),
        checked_duration_ms("time_to_live_ms", time_to_live_ms),
        0 if isinstance(delivery_delay_ms, DeliverAt) else checked_duration_ms("delivery_delay_ms", delivery_delay_ms),
        delivery_delay_ms.at_ms if isinstance(delivery_delay_ms, DeliverAt) else 0,
    )


def instead_of_delay(deliver_at: object, delay_ms: Duration | None) -> DeliverAt:
    """The instant that a send names, for `checked_options` in place of its delay.

    Raises:
        InvalidSettingError: a delay is given, too, or the instant has no time zone.
    """
    if delay_ms is not None:
        raise wrong_value("deliver_at", deliver_at, f"delivery_delay_ms is {shown(delay_ms)}, too; give one of them")
    return DeliverAt(checked_instant_ms("deliver_at", deliver_at))


def checked_duplicate_id(value: object) -> str | None:
    """The id as plain text. One that is empty names nothing.

    Raises:
        MessageFormatError: it is not a text, or empty.
    """
    duplicate_id = checked_text("duplicate_id", value)
    if duplicate_id == "":
        raise MessageFormatError(
            "duplicate_id is '': it is a text that is not empty, or None", header="duplicate_id", value=value
        )
    return duplicate_id


def checked_properties(value: object) -> Mapping[str, object]:
    """The properties of a send, if they are some.

    Raises:
        MessageFormatError: it is not a mapping. Names and values are checked when they are encoded.
    """
    if not isinstance(value, Mapping):
        raise MessageFormatError(f"properties is {shown(value)}: it is a dict from name to value, or None", value=value)
    return value


def with_raw_headers(headers: list[Header], given: Mapping[Any, Any]) -> list[Header]:
    """The headers of a record, and what the application gives it beside them: in place of any of the same name.

    Raises:
        MessageFormatError: a name or a value that no such header can have.
    """
    own: list[Header] = []
    for name, value in given.items():
        if not isinstance(name, str) or not name:
            raise MessageFormatError(f"headers: {shown(name)} is no name; a Kafka header's name is a str", value=name)
        if name in OWN_HEADERS or name.startswith((HEADER_PREFIX, "jbm.", "JMS", "JBM", "_JBM")):
            raise MessageFormatError(
                f"headers: {shown(name)} is a name of jbm-kafka's own; a property goes into properties=, and a JMS "
                f"header has an argument of its own",
                header=name,
                value=value,
            )
        if value is not None and not isinstance(value, bytes | bytearray | memoryview):
            raise MessageFormatError(
                f"headers[{shown(name)}] is {shown(value)}: it is bytes, as Kafka has it, or None",
                header=name,
                value=value,
            )
        own.append((plain_text(name), None if value is None else bytes(value)))
    return [header for header in headers if header[0] not in given] + own


def set_headers(
    message: MessageCore,
    *,
    correlation_id: object,
    type: object,  # noqa: A002 - its name in JMS
    reply_to: object,
) -> None:
    """Set what a send was given; refuse that, and what the message came with, when no record can carry it.

    Here, for the fields themselves take any object (see message_core.py).

    Raises:
        MessageFormatError, InvalidDestinationError: one is not what it should be.
    """
    if message._record is not None:
        look_up_headers(message)
    correlation_id = message._correlation_id if correlation_id is None else correlation_id
    if correlation_id is not None:
        message._correlation_id = checked_text("correlation_id", correlation_id)
    type = message._type if type is None else type  # noqa: A001 - its name in JMS
    if type is not None:
        message._type = checked_text("type", type)
    reply_to = message._reply_to if reply_to is None else reply_to
    if reply_to is not None:
        message._reply_to = checked_reply_to(reply_to)


def stamp(
    message: MessageCore,
    options: SendOptions,
    *,
    destination: Destination,
    now_ms: int,
    message_id: str | None,
    unit: str | None,
) -> None:
    """Set the headers a send sets."""
    message._destination = destination
    message._delivery_mode = options.delivery_mode
    message._priority = options.priority
    message._expiration = now_ms + options.time_to_live_ms if options.time_to_live_ms else 0
    if options.deliver_at_ms:
        message._delivery_time = options.deliver_at_ms if options.deliver_at_ms > now_ms else 0
    else:
        message._delivery_time = now_ms + options.delivery_delay_ms if options.delivery_delay_ms else 0
    message._timestamp = now_ms
    message._known_id = message_id
    message._redelivered = False
    message._known_unit = unit


def json_message(message: object, value: object, headers: Any) -> tuple[Message, Mapping[Any, Any]]:
    """The text message of a `json=`, with the headers of its send: they say that it is JSON.

    Raises:
        MessageFormatError: a message was given too, JSON cannot carry the value, or `headers` is no mapping.
    """
    if message is not UNSET:
        raise MessageFormatError("a message and json= were given; give one of them", value=message)
    return TextMessage(json_text(value)), {CONTENT_TYPE: JSON_TYPE, **checked_mapping(headers)}


def schema_message(
    codecs: SchemaCodecs | None, target: Destination, message: object, headers: Mapping[Any, Any] | None
) -> tuple[object, Mapping[Any, Any] | None]:
    """Return what a send was given, as the destination's serializer writes it, with what that adds to the headers.

    A Message goes as it is, and so does everything where there is no serializer.

    Raises:
        MessageFormatError: the serializer cannot write it, or does not reach its registry.
    """
    if codecs is None or message is UNSET or message is None or isinstance(message, Message):
        return message, headers
    beside: list[Header] = list((headers or {}).items())
    body = codecs.encoded(target.name, message, beside)
    if body is None:
        return message, headers
    made = _NEW(ObjectMessage)
    new_into(made, body)
    return made, dict(beside)


def checked_mapping(headers: Any) -> Mapping[Any, Any]:
    """The raw headers of a send, if they are some.

    Raises:
        MessageFormatError: it is not a mapping. Names and values are checked when they are encoded.
    """
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise MessageFormatError(f"headers is {shown(headers)}: it is a dict of bytes by name, or None", value=headers)
    return headers


def as_message(message: object) -> Message:
    """A str is a text message, bytes are a bytes message, a dict is a map message.

    Raises:
        MessageFormatError: it is nothing that can be sent.
    """
    if isinstance(message, str):
        # Not by calling the class: that is Python, and goes through three functions.
        made: Message = _NEW(_TEXT_MESSAGE)
        new_into(made, plain_text(message))
        return made
    if isinstance(message, Message):
        return message
    if isinstance(message, bytes | bytearray | memoryview):
        return BytesMessage(bytes(message))
    if isinstance(message, Mapping):
        return MapMessage(message)
    if message is UNSET:
        raise MessageFormatError("there is no message: pass str, bytes, a dict, a Message, or json=")
    raise MessageFormatError(
        f"message is {shown(message)}: pass str, bytes, a dict or a Message; for other values an ObjectMessage",
        value=message,
    )
