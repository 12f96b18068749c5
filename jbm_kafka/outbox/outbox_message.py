"""A message as a row of an outbox has it: made as a send makes its record, and sent on as it stands."""

from __future__ import annotations

import json as json_codec
from collections.abc import Mapping
from dataclasses import dataclass

from jbm_kafka.codec.record_size import batch_bytes_at_most
from jbm_kafka.codec.scan import MESSAGE_ID_HEADER, Header
from jbm_kafka.codec.schema_registry import SchemaCodecs
from jbm_kafka.core.destination import Destination, parse_destination
from jbm_kafka.core.jms_errors import MessageFormatError, MessageTooLargeError, OrderError
from jbm_kafka.core.sentinels import NO_UNIT, SYSTEM_GENERATED, UNSET, Unset
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.messages.messages_wire import from_record, to_record
from jbm_kafka.jms.sends.routing import Routing, UnitOfOrder
from jbm_kafka.jms.sends.send_headers import (
    as_message,
    checked_mapping,
    checked_properties,
    json_message,
    schema_message,
    set_headers,
    with_raw_headers,
)

Body = Message | str | bytes | Mapping[str, object]
_CREATE_TIME = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxMessage:
    """A message as its row has it; also a Kafka record, so that it is read as a received message is."""

    destination: str
    """As `queue:orders`."""
    body: bytes | None
    """The record's value."""
    header_pairs: tuple[Header, ...]
    """The record's headers, but those that the send at the end writes anew."""
    unit: str | None
    """The name of its unit; None: it was given none."""
    unit_key: bytes | None
    """The key that stands for the unit in the log; None: no unit."""
    refuses_units: bool
    """It was given NO_UNIT."""
    added_at_ms: int
    """When it was added."""

    @property
    def size_bytes(self) -> int:
        """No less than what it is in Kafka."""
        return batch_bytes_at_most(self.unit_key, self.body, list(self.header_pairs))

    def topic(self) -> str:
        return self.destination.partition(":")[2]

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0

    def key(self) -> bytes | None:
        return self.unit_key

    def value(self) -> bytes | None:
        return self.body

    def headers(self) -> list[Header]:
        return list(self.header_pairs)

    def timestamp(self) -> tuple[int, int]:
        return _CREATE_TIME, self.added_at_ms

    def message(self) -> Message:
        """The message, to be sent on as it is: also a body that only its reader can decode."""
        return from_record(self, parse_destination(self.destination), 1, False, None)


def stored_message(
    destination: Destination,
    body: Body | Unset,
    *,
    json: object,
    unit_of_order: UnitOfOrder,
    properties: Mapping[str, object] | None,
    correlation_id: str | None,
    reply_to: Destination | None,
    type: str | None,  # noqa: A002 - its name in JMS
    headers: Mapping[str, bytes | None] | None,
    codecs: SchemaCodecs | None,
    added_at_ms: int,
) -> OutboxMessage:
    """The message of these arguments, checked as a producer's send checks them.

    Raises:
        JMSError: it cannot be sent; as of `MessageProducer.send`.
    """
    made: object = body
    raw: Mapping[str, bytes | None] | None = None if headers is None else checked_mapping(headers)
    if json is not UNSET:
        made, raw = json_message(body, json, headers)
    made, raw = schema_message(codecs, destination, made, raw)
    message, given = as_message(made), {} if properties is None else checked_properties(properties)
    set_headers(message, correlation_id=correlation_id, type=type, reply_to=reply_to)
    if unit_of_order is SYSTEM_GENERATED:
        raise OrderError(
            "unit_of_order is SYSTEM_GENERATED: that is a name of the session that sends, and a relay's sends are many "
            "programs'; give a name, or leave it out",
            value=unit_of_order,
        )
    unit = _ROUTING.unit(unit_of_order, None, message, given, destination)
    encoded = to_record(message, properties=given)
    named = with_raw_headers(encoded.headers, raw) if raw else encoded.headers
    return OutboxMessage(
        destination=str(destination),
        body=encoded.value,
        header_pairs=tuple(header for header in named if header[0] not in _WRITTEN_ANEW),
        unit=unit.name,
        unit_key=unit.key,
        refuses_units=unit_of_order is NO_UNIT,
        added_at_ms=added_at_ms,
    )


def check_size(message: OutboxMessage, max_message_bytes: int) -> None:
    """Raises MessageTooLargeError when it is larger than that."""
    if message.size_bytes > max_message_bytes:
        raise MessageTooLargeError(
            f"{message.destination}: a message of {message.size_bytes} bytes with its properties; this outbox takes "
            f"{max_message_bytes}, as Kafka's topics do unless max.message.bytes is set. Send less, or give "
            f"max_message_bytes to the Outbox if the topic takes more",
            size_bytes=message.size_bytes,
            max_message_bytes=max_message_bytes,
        )


def headers_text(headers: tuple[Header, ...]) -> str:
    """The headers as a column of text has them; bytes stand as Latin-1."""
    return json_codec.dumps([(name, None if value is None else value.decode("latin-1")) for name, value in headers])


def headers_of(text: str) -> tuple[Header, ...]:
    """The headers of such a text.

    Raises:
        MessageFormatError: somebody else has written it.
    """
    try:
        pairs = json_codec.loads(text)
        return tuple((str(name), None if value is None else value.encode("latin-1")) for name, value in pairs)
    except (ValueError, TypeError, AttributeError) as fault:
        raise MessageFormatError(f"the row's headers are no list of names and values: {fault}", value=text) from None


def _no_place(topic: str, key: bytes) -> int:
    raise AssertionError((topic, key))  # a row has a unit and no partition


_ROUTING = Routing(
    settings_of=lambda _: ResolvedSettings(),
    default_unit=None,
    system_unit="",
    without_unit="",
    place_unit=_no_place,
)
"""Knows the unit that a send is given; the defaults of destination and factory are the relay's."""

_WRITTEN_ANEW = frozenset(
    {MESSAGE_ID_HEADER, "JMSPriority", "JMSDeliveryMode", "JMSExpiration", "JMSDeliveryTime", "JMSTimestamp"}
)
