"""The values that a received message reads from its Kafka record, each when it is first asked for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from jbm_kafka.codec.bodies import decode_body
from jbm_kafka.codec.headers import DECODE_ERROR, decode_headers
from jbm_kafka.codec.identity import TOLD_BY_PROVIDER, foreign_message_id
from jbm_kafka.codec.one_header import header_reply_to, header_text
from jbm_kafka.codec.property_header import Property
from jbm_kafka.codec.record_values import record_delivery_mode, record_timestamp_ms
from jbm_kafka.codec.scan import Header, scan


class KafkaRecord(Protocol):
    """A Kafka record as a received message needs it; `confluent_kafka.Message` has it."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> list[Header] | None: ...
    def timestamp(self) -> tuple[int, int]: ...


@dataclass(frozen=True, slots=True)
class KafkaView:
    """The record under a received message, `message.kafka`.

    topic, partition, offset: where it is; the latter two are counted from 0.
    key: bytes that stand for the unit of order; None: it was sent without one.
    headers: pairs of a name and bytes, as they are in the log, in their order.
    """

    topic: str
    """The Kafka topic."""
    partition: int
    """From 0."""
    offset: int
    """Its place in the partition, from 0."""
    key: bytes | None
    """The bytes that stand for the unit of order; None: it was sent without one."""
    headers: tuple[Header, ...]
    """As they are in the log, in their order."""


def kafka_view(record: KafkaRecord) -> KafkaView:
    """The record's coordinates and raw headers."""
    headers = tuple(record.headers() or ())
    return KafkaView(record.topic() or "", record.partition() or 0, record.offset() or 0, record.key(), headers)


def decoded_properties(record: KafkaRecord) -> dict[str, Property]:
    """All of the record's properties, with whatever could not be decoded of headers and body among them."""
    headers = record.headers()
    properties = dict(decode_headers(headers).properties)
    for name in TOLD_BY_PROVIDER:
        properties.pop(name, None)  # a foreign record's header: listed it would be looked up, and something else found
    _, _, fault = decode_body(headers, record.value())
    if fault is not None:
        earlier = properties.get(DECODE_ERROR)
        properties[DECODE_ERROR] = Property("string", f"{earlier.value}; {fault}" if earlier else fault)
    return properties


def place_id(record: KafkaRecord) -> str:
    """The id of a message whose record has none: where it is."""
    return foreign_message_id(record.topic() or "", record.partition() or 0, record.offset() or 0)


READERS: Mapping[str, Callable[[KafkaRecord], object]] = MappingProxyType(
    {
        "_timestamp": record_timestamp_ms,
        "_correlation_id": lambda record: header_text(record.headers(), "JMSCorrelationID"),
        "_reply_to": lambda record: header_reply_to(record.headers()),
        "_delivery_mode": record_delivery_mode,
        "_type": lambda record: header_text(record.headers(), "JMSType"),
        "_expiration": lambda record: scan(record.headers()).expiration_ms,
        "_delivery_time": lambda record: scan(record.headers()).delivery_time_ms,
        "_priority": lambda record: scan(record.headers()).priority,
        "_state": lambda _: None,
        "_last_error": lambda _: None,
    }
)
"""Reads a field of a `MessageCore` from the record. Those that most applications read it has otherwise."""
