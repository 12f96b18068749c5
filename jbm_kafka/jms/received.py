"""What a received message reads from its Kafka record, each thing when it is first asked for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from jbm_kafka.codec.bodies import decode_body
from jbm_kafka.codec.headers import DECODE_ERROR, JmsHeaders, decode_headers
from jbm_kafka.codec.identity import foreign_message_id, unit_name
from jbm_kafka.codec.properties import Property
from jbm_kafka.codec.scan import Header


class KafkaRecord(Protocol):
    """What a received message needs of a Kafka record; `confluent_kafka.Message` has it."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> list[Header] | None: ...
    def timestamp(self) -> tuple[int, int]: ...


@dataclass(frozen=True, slots=True)
class KafkaView:
    """The record under a received message."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    headers: tuple[Header, ...]
    """As they are in the log, in their order."""


def kafka_view(record: KafkaRecord) -> KafkaView:
    """The record's coordinates and raw headers."""
    headers = tuple(record.headers() or ())
    return KafkaView(record.topic() or "", record.partition() or 0, record.offset() or 0, record.key(), headers)


def decoded_headers(record: KafkaRecord) -> JmsHeaders:
    """The record's headers, with what is wrong with its body among what could not be decoded."""
    headers = record.headers()
    decoded = decode_headers(headers)
    _, _, fault = decode_body(headers, record.value())
    if fault is None:
        return decoded
    told = decoded.properties.get(DECODE_ERROR)
    reason = Property("string", f"{told.value}; {fault}" if told else fault)
    return decoded._replace(properties={**decoded.properties, DECODE_ERROR: reason})


def _message_id(record: KafkaRecord, decoded: JmsHeaders) -> str:
    if decoded.message_id is not None:
        return decoded.message_id
    return foreign_message_id(record.topic() or "", record.partition() or 0, record.offset() or 0)


READERS: Mapping[str, Callable[[KafkaRecord, JmsHeaders], object]] = MappingProxyType(
    {
        "message_id": _message_id,
        "timestamp": lambda record, decoded: (
            record.timestamp()[1] if decoded.timestamp_ms is None else decoded.timestamp_ms
        ),
        "correlation_id": lambda _, decoded: decoded.correlation_id,
        "reply_to": lambda _, decoded: decoded.reply_to,
        "delivery_mode": lambda _, decoded: decoded.delivery_mode,
        "type": lambda _, decoded: decoded.type,
        "expiration": lambda _, decoded: decoded.scanned.expiration_ms,
        "delivery_time": lambda _, decoded: decoded.scanned.delivery_time_ms,
        "priority": lambda _, decoded: decoded.scanned.priority,
        "unit_of_order": lambda record, _: unit_name(record.key()),
        "state": lambda *_: None,
        "_properties": lambda _, decoded: dict(decoded.properties),
    }
)
"""By attribute of a message: its value from the record and its decoded headers."""
