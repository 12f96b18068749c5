"""Between messages and Kafka records."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, cast

from jbm_kafka.client.bodies.large_bodies import BodyReader, fetched
from jbm_kafka.codec.bodies import (
    CODEC_HEADER,
    OBJECT,
    Body,
    BodyShape,
    ObjectBody,
    body_kind,
    decode_value,
    encode_body,
)
from jbm_kafka.codec.headers import carried_headers, encode_headers, property_of_header
from jbm_kafka.codec.identity import GROUP_ID
from jbm_kafka.codec.large_body import is_kept_elsewhere, named_body, without_reference
from jbm_kafka.codec.object_codecs import JSON
from jbm_kafka.codec.one_header import last_value
from jbm_kafka.codec.property_header import HEADER_PREFIX, Property, property_of
from jbm_kafka.codec.scan import Header
from jbm_kafka.codec.schema_registry import SchemaCodecs
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import MessageFormatError
from jbm_kafka.core.wrong_values import no_utf8, shown
from jbm_kafka.jms.messages.bytes_message import BytesMessage
from jbm_kafka.jms.messages.map_message import MapMessage
from jbm_kafka.jms.messages.message import Message, Settler, TextMessage
from jbm_kafka.jms.messages.message_core import MessageCore, look_up_headers, receive_into
from jbm_kafka.jms.messages.message_properties import check_group, checked_property_name
from jbm_kafka.jms.messages.object_message import ObjectMessage
from jbm_kafka.jms.messages.received import KafkaRecord
from jbm_kafka.jms.messages.stream_message import empty_stream
from jbm_kafka.jms.messages.unread_body import UnreadBody

_NOTHING: Mapping[str, object] = MappingProxyType({})
# A constant that is final costs compiled code no look-up; this is called for every message.
_TEXT: Final = BodyShape.TEXT
_BYTES: Final = BodyShape.BYTES
_TEXT_MESSAGE: Final = TextMessage
_BYTES_MESSAGE: Final = BytesMessage
_MESSAGE: Final = Message
_NEW: Final = Message.__new__


class EncodedMessage:
    """The parts of a message that go into its record; key and partition are the sender's business."""

    __slots__ = ("headers", "value")

    def __init__(self, value: bytes | None, headers: list[Header]) -> None:
        self.value = value
        self.headers = headers


def from_record(
    record: KafkaRecord,
    destination: Destination,
    delivery_count: int,
    redelivered: bool,
    settler: Settler | None,
    codecs: SchemaCodecs | None = None,
    bodies: BodyReader | None = None,
    is_browsed: bool = False,
) -> Message:
    """The message of a record, read-only.

    Raises:
        LargeBodyError: the body is kept elsewhere and cannot be had; of one that is browsed, whoever asks for the body
            hears so.
    """
    kind = body_kind(record.headers())
    if is_browsed and record.value() is None and is_kept_elsewhere(record.headers()):
        return _with_unread_body(record, kind, destination, delivery_count, redelivered, codecs, bodies)
    return message_of(record, kind, destination, delivery_count, redelivered, settler, codecs, bodies)


def message_of(
    record: KafkaRecord,
    kind: bytes | None,
    destination: Destination,
    delivery_count: int,
    redelivered: bool,
    settler: Settler | None,
    codecs: SchemaCodecs | None = None,
    bodies: BodyReader | None = None,
) -> Message:
    """The message of a record whose `JBMBody` is known. Its class is that of its body; its headers are decoded when
    looked at.

    Raises:
        LargeBodyError: the body is kept elsewhere and cannot be had.
    """
    value = record.value()
    if value is None and is_kept_elsewhere(record.headers()):
        value = fetched(bodies, record.headers())
    shape, body, _ = decode_value(kind, value, record.headers() if kind == OBJECT else None)
    if codecs is not None:
        of_schema = codecs.of_record(destination.name, kind, record.headers(), value)
        if of_schema is not None:
            shape, body = BodyShape.OBJECT, of_schema
    message: Message
    if shape is _TEXT:
        message = _NEW(_TEXT_MESSAGE)
    elif shape is _BYTES:
        message = _NEW(_BYTES_MESSAGE)
    else:
        message = _empty(shape)
    receive_into(message, record, settler, body, destination, delivery_count, redelivered)
    return message


def _with_unread_body(
    record: KafkaRecord,
    kind: bytes | None,
    destination: Destination,
    delivery_count: int,
    redelivered: bool,
    codecs: SchemaCodecs | None,
    bodies: BodyReader | None,
) -> Message:
    """Its class is that of the body that is announced."""
    announced = next(
        (each for each in BodyShape if kind is not None and each.value == kind.decode(errors="replace")), _BYTES
    )

    def read() -> Body:
        headers = record.headers()
        value = fetched(bodies, headers)
        if codecs is not None and announced is BodyShape.OBJECT:
            of_schema = codecs.of_record(destination.name, kind, headers, value)
            if of_schema is not None:
                return of_schema
        shape, body, fault = decode_value(kind, value, headers)
        if shape is not announced:
            raise MessageFormatError(f"the large body {named_body(headers)}: {fault}")
        return body

    message = _empty(announced)
    receive_into(message, record, None, UnreadBody(read), destination, delivery_count, redelivered)
    return message


def _empty(shape: BodyShape) -> Message:
    """Without `__init__`, which sets headers: they are read from the record when they are asked for."""
    if shape is _TEXT:
        return _NEW(_TEXT_MESSAGE)
    if shape is _BYTES:
        return _NEW(_BYTES_MESSAGE)
    if shape is BodyShape.MAP:
        return _NEW(MapMessage)
    if shape is BodyShape.STREAM:
        return empty_stream()
    return _NEW(ObjectMessage if shape is BodyShape.OBJECT else _MESSAGE)


def to_record(
    message: Message,
    *,
    sender: str | None = None,
    duplicate_id: str | None = None,
    write_timestamp: bool = False,
    properties: Mapping[str, object] = _NOTHING,
) -> EncodedMessage:
    """The record of a message whose header attributes are set as they shall be sent.

    `properties` are given to the send: they go into the record and not into the message. Of a received message that is
    sent on, everything that is not ours to write is passed on untouched.

    Raises:
        MessageFormatError: a property or a text cannot be carried.
    """
    kind, value = _encoded_body(message)
    look_up_headers(message)
    core: MessageCore = message  # what is asked of it as such is a struct's field, of a Message an attribute to look up
    reply_to = cast(Destination | None, core._reply_to)
    own: Mapping[str, Property] = {}
    carried: list[Header] = []
    if core._record is not None:
        carried = carried_headers(
            cast(KafkaRecord, core._record).headers(),
            with_properties=cast(bool, core._properties_are_read_only),
            with_reply_to=reply_to is None,
        )
        if not core._body_is_read_only:
            carried = without_reference(carried)
    if not core._properties_are_read_only:
        own = cast(Mapping[str, Property], core._properties)
    if properties:
        given = checked_given(properties)
        own = {**own, **given}
        carried = [header for header in carried if property_of_header(header[0])[1] not in given]
    try:
        headers = encode_headers(
            message_id=cast(str | None, core.message_id),
            timestamp_ms=cast(int, core._timestamp) if write_timestamp else 0,
            correlation_id=cast(str | None, core._correlation_id),
            type=cast(str | None, core._type),
            reply_to=reply_to,
            delivery_mode=cast(DeliveryMode, core._delivery_mode),
            priority=cast(int, core._priority),
            expiration_ms=cast(int, core._expiration),
            delivery_time_ms=cast(int, core._delivery_time),
            body_kind=kind,
            body_codec=_body_codec(message) if kind == OBJECT else None,
            duplicate_id=duplicate_id,
            sender=sender,
            properties=own,
            carried=carried,
        )
    except UnicodeEncodeError as fault:
        raise MessageFormatError(f"{_name_of(fault.object, message, own, duplicate_id)}: {no_utf8(fault)}") from None
    return EncodedMessage(value, headers)


def _encoded_body(message: MessageCore) -> tuple[bytes | None, bytes | None]:
    if message._record is not None and message._body_is_read_only:
        # Also a body of a kind that this version cannot decode goes on as what it is.
        record = cast(KafkaRecord, message._record)
        return body_kind(record.headers()), record.value()
    return encode_body(cast(Message, message)._shape, cast(Message, message)._body)


def _body_codec(message: Message) -> bytes | None:
    """The header of an object that is not JSON; of one that goes on as it came, what it came with."""
    record = message._record
    if record is not None and message._body_is_read_only:
        return last_value(record.headers(), CODEC_HEADER)
    body = cast(ObjectBody, message._body)
    return None if body.data is None or body.codec == JSON else body.codec.encode()


def checked_given(properties: Mapping[str, object]) -> dict[str, Property]:
    """The properties that a send was given.

    Raises:
        MessageFormatError: a name or a value cannot be one of a property.
    """
    # As of any names: else compiled code refuses one that is not a str, tersely.
    named = cast(Mapping[object, object], properties).items()
    given = {checked_property_name(name): property_of(name, value) for name, value in named}
    if GROUP_ID in given:
        check_group(given[GROUP_ID])
    return given


def _name_of(text: str, message: Message, properties: Mapping[str, Property], duplicate_id: str | None) -> str:
    """Return what of a message has this text."""
    for name, held in properties.items():
        if text in (held.value, f"{HEADER_PREFIX}{held.type}.{name}"):
            return f"property {shown(name)}"
    if text == duplicate_id:
        return "duplicate_id"
    return "correlation_id" if text == message.correlation_id else "type" if text == message.type else "a header"
