"""Records on their way to and from AMQP: what the API gives to a send, and what it gets from a receiver."""

from __future__ import annotations

from jbm_kafka.codec.amqp.decode_transfer import IncomingMessage
from jbm_kafka.codec.amqp.encode_transfer import encode_transfer
from jbm_kafka.codec.amqp.forms import DUPLICATE_ID
from jbm_kafka.codec.bodies import body_kind
from jbm_kafka.codec.property_header import HEADER_PREFIX
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.destination import Destination
from jbm_kafka.ports.kafka import Headers, Outgoing


class AmqpRecord:
    """A record that is in no log here; implements `ports.KafkaRecord`."""

    __slots__ = ("_headers", "_key", "_offset", "_timestamp_ms", "_topic", "_value")

    def __init__(
        self,
        topic: str,
        offset: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
    ) -> None:
        """`offset`: the number of what was received; None: it was not sent yet."""
        self._topic = topic
        self._offset = offset
        self._key = key
        self._value = value
        self._headers = list(headers)
        self._timestamp_ms = timestamp_ms

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return 0

    def offset(self) -> int | None:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Headers:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return (1, self._timestamp_ms) if self._timestamp_ms else (0, 0)


def record_of(message: IncomingMessage, topic: str, number: int) -> AmqpRecord:
    """Return the record of a received message."""
    return AmqpRecord(topic, number, message.unit, message.value, message.headers, message.timestamp_ms)


def reference_of(message: IncomingMessage, topic: str, number: int) -> Reference:
    """Return what the rules need to know of a received message."""
    record = record_of(message, topic, number)
    return Reference(
        number,
        message.unit,
        priority=message.priority,
        expiration_ms=message.expiration_ms,
        record=record,
        body_kind=body_kind(record.headers()),
    )


def transfer_of(record: Outgoing, destination: Destination, now_ms: int) -> bytes:
    """Return the bytes of the AMQP message that is sent for a record."""
    headers = list(record.headers)
    kept = [value for name, value in headers if name == DUPLICATE_ID]
    headers += [(f"{HEADER_PREFIX}string.{DUPLICATE_ID}", value) for value in kept]
    unsent = AmqpRecord(record.topic, None, record.key, record.value, headers, record.timestamp_ms or 0)
    return encode_transfer(unsent, body_kind(headers), destination, delivery_count=0, now_ms=now_ms)
