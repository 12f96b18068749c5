"""A record whose large body was fetched, as if it had it."""

from __future__ import annotations

from jbm_kafka.client.bodies.large_bodies import LargeBodies, fetched
from jbm_kafka.codec.bodies import BYTES, body_kind
from jbm_kafka.codec.headers import DECODE_ERROR
from jbm_kafka.codec.large_body import is_kept_elsewhere
from jbm_kafka.codec.property_header import Property, property_header
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.jms_errors import LargeBodyError
from jbm_kafka.ports import KafkaRecord


class FetchedRecord:
    """Another record with this value, and with these headers beside its own; implements `KafkaRecord`."""

    def __init__(self, record: KafkaRecord, value: bytes, *headers: Header) -> None:
        self._value = value
        self._headers = [*(record.headers() or ()), *headers]
        self.topic, self.partition, self.offset = record.topic, record.partition, record.offset
        self.key, self.timestamp = record.key, record.timestamp

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> list[Header] | None:
        return self._headers


def has_large_body(record: KafkaRecord) -> bool:
    """Return True if the record's body is kept elsewhere."""
    return record.value() is None and is_kept_elsewhere(record.headers())


def with_body(record: KafkaRecord, bodies: LargeBodies | None) -> KafkaRecord:
    """Return the record with its large body. Raises LargeBodyError when that cannot be had."""
    return FetchedRecord(record, fetched(bodies, record.headers()))


def shown_with_body(record: KafkaRecord, bodies: LargeBodies | None) -> tuple[KafkaRecord, bytes | None]:
    """Return the record, with its large body if it has one, and its `JBMBody`, for one who only looks.

    A body that cannot be had is shown as no bytes, and `_JBM_DECODE_ERROR` has the reason.
    """
    kind = body_kind(record.headers())
    if not has_large_body(record):
        return record, kind
    try:
        return with_body(record, bodies), kind
    except LargeBodyError as error:
        told = property_header(DECODE_ERROR, Property("string", str(error)))
        return FetchedRecord(record, b"", told), BYTES
