"""Kafka records to Arrow batches with the columns of `messages`, by the codec that receivers use."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from jbm_kafka.codec.bodies import body_kind, decode_value
from jbm_kafka.codec.headers import REPLY_TO_HEADER, decode_headers, property_of_header, utf8_or_none
from jbm_kafka.codec.identity import TOLD_BY_PROVIDER, message_id_of, unit_name
from jbm_kafka.codec.one_header import last_value
from jbm_kafka.codec.scan import Header
from jbm_kafka.ports import KafkaRecord
from jbm_spark.body_check import WRITTEN_BY_US

_INSTANT_MS_MAX = 253_402_214_400_000
"""The last that `messages` shows."""

_TEXT, _INSTANT, _BYTES, _INT = StringType(), TimestampType(), BinaryType(), IntegerType()
_HEADER = StructType([StructField("key", _TEXT), StructField("value", _BYTES)])
_KAFKA = {"topic": _TEXT, "partition": _INT, "offset": LongType(), "timestamp": _INSTANT, "key": _BYTES,
          "headers": ArrayType(_HEADER)}  # fmt: skip
_COLUMNS = {
    "message_id": _TEXT, "timestamp": _INSTANT, "correlation_id": _TEXT, "type": _TEXT, "reply_to": _TEXT,
    "delivery_mode": _TEXT, "priority": _INT, "expiration": _INSTANT, "delivery_time": _INSTANT, "body_kind": _TEXT,
    "body_text": _TEXT, "body_bytes": _BYTES, "unit_of_order": _TEXT, "duplicate_id": _TEXT,
    "properties": MapType(_TEXT, _TEXT),
    "kafka": StructType([StructField(name, held) for name, held in _KAFKA.items()]),
}  # fmt: skip
SCHEMA = StructType([StructField(name, held) for name, held in _COLUMNS.items()])
_ARROW = to_arrow_schema(SCHEMA, timezone="UTC")


def message_batch(records: Sequence[KafkaRecord]) -> pa.RecordBatch:
    """One row a record."""
    rows = [_row(record) for record in records]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, type=held.type) for column, held in zip(columns, _ARROW, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _row(record: KafkaRecord) -> tuple[Any, ...]:
    headers, value, key = record.headers(), record.value(), record.key()
    topic, partition, offset = record.topic() or "", record.partition() or 0, record.offset() or 0
    told = decode_headers(headers)
    scanned = told.scanned
    kind, text = _kind_and_text(headers, value)
    written_us = record.timestamp()[1] * 1000
    reply_to = last_value(headers, REPLY_TO_HEADER)
    return (
        message_id_of(headers, topic, partition, offset),
        written_us if told.timestamp_ms is None else _us(told.timestamp_ms),
        told.correlation_id,
        told.type,
        None if reply_to is None else utf8_or_none(reply_to),
        told.delivery_mode.name,
        scanned.priority,
        _us(scanned.expiration_ms) if scanned.expiration_ms else None,
        _us(scanned.delivery_time_ms) if scanned.delivery_time_ms else None,
        kind,
        text,
        value if text is None else None,
        unit_name(key),
        None if scanned.duplicate_id is None else utf8_or_none(scanned.duplicate_id),
        [*property_texts(headers).items()],
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": written_us,
            "key": key,
            "headers": [{"key": name, "value": content} for name, content in headers] if headers else None,
        },
    )


def _kind_and_text(headers: Sequence[Header] | None, value: bytes | None) -> tuple[str, str | None]:
    """Return what the record says, also where only the application can read such a body, or nobody can."""
    said = body_kind(headers)
    if value is not None and said is not None and (kind := said.decode(errors="replace")) in WRITTEN_BY_US:
        return kind, None
    shape, body, _ = decode_value(said, value)
    return shape.value, body if isinstance(body, str) else None


def property_texts(headers: Sequence[Header] | None) -> dict[str, str | None]:
    """Return them by name, each as its header has it: a text that is read and written again stays what it was."""
    plain: dict[str, str | None] = {}
    typed: dict[str, str | None] = {}
    for header in headers or ():
        name = shown_name(header)
        if name is not None:
            kind, value = property_of_header(header[0])[0], header[1]
            text = None if value is None or kind == "null" else value.decode()
            (plain if kind is None else typed)[name] = text
    return {**plain, **typed}


def shown_name(header: Header) -> str | None:
    """The property that a header shows as; None when it shows as none, whatever it is."""
    name = property_of_header(header[0])[1]
    is_text = header[1] is None or utf8_or_none(header[1]) is not None
    return name if is_text and name not in TOLD_BY_PROVIDER else None


def _us(instant_ms: int) -> int:
    return min(instant_ms, _INSTANT_MS_MAX) * 1000
