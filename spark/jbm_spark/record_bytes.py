"""How large a record is for its topic: `jbm_kafka.codec.record_size.batch_bytes` as a Spark expression."""

from collections.abc import Set as AbstractSet

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, MapType, StringType, StructType

from jbm_kafka.codec.headers import OWN_HEADERS
from jbm_kafka.codec.record_size import BATCH_BYTES, FIXED_FIELDS_BYTES
from jbm_spark.columns import worked_out_once
from jbm_spark.plain_headers import KEYS, header_bytes

_FIELDS_MAX = 10
"""Bytes of the lengths of two fields, at most."""
_PROPERTY_MAX = _FIELDS_MAX + len("jms.boolean.") + 25
"""Besides a property's name and its text: a number is no longer."""
_OWN_MAX = sum(len(name) + _FIELDS_MAX + 20 for name in OWN_HEADERS)
"""The bytes of our own headers, but for the values of those that are a text."""
_FIXED_MAX = BATCH_BYTES + FIXED_FIELDS_BYTES + _OWN_MAX + 2 * _FIELDS_MAX
_LZ4_FRAME, _LZ4_BLOCK, _LZ4_BLOCK_LENGTH = 11, 65_536, 4
"""Bytes before and behind all blocks; in a block, and of its length. A block that would be larger is kept as it is."""
HEADER_BYTES = "out_header_bytes"
"""The column with the most bytes that headers take which are not ours."""
_TEXTS = ("correlation_id", "type", "reply_to", "duplicate_id")


def batch_bytes(key: Column, value: Column, headers: Column) -> Column:
    """A batch with this record alone and uncompressed: to the byte."""
    of_headers = F.aggregate(
        headers,
        F.lit(0).cast("bigint"),
        lambda size, found: size + _field_bytes(found["key"].cast("binary")) + _field_bytes(found["value"]),
    )
    size = _record_bytes(key, value, _number_bytes(F.size(headers)) + of_headers)
    return worked_out_once(size, batch_bytes_of_record)


def packed_record_bytes(key: Column, value: Column, headers: Column) -> Column:
    """What `batch_bytes_of_record` takes, of a record with `packed_headers`; compiled."""
    return _record_bytes(key, value, F.length(headers))


def batch_bytes_of_record(record: Column) -> Column:
    """A batch with a record alone that has so many bytes behind its length, which it uses several times."""
    return F.lit(BATCH_BYTES) + _number_bytes(record) + record


def with_lz4_frame(size: Column) -> Column:
    """Return how large such a batch is at most when Kafka's client has compressed it by LZ4, which makes what has no
    pattern larger."""
    return size + F.lit(_LZ4_FRAME) + F.ceil(size / F.lit(_LZ4_BLOCK)) * F.lit(_LZ4_BLOCK_LENGTH)


def _record_bytes(key: Column, value: Column, headers_bytes: Column) -> Column:
    return F.lit(FIXED_FIELDS_BYTES) + _field_bytes(key) + _field_bytes(value) + headers_bytes


def batch_bytes_at_most(columns: AbstractSet[str]) -> Column:
    """No less than `batch_bytes` of a row of `outgoing_columns`, and quickly known: from lengths of what it is made of.

    `columns` are those of a message. It needs `out_id` too.
    """
    texts = ["out_id", *(name for name in _TEXTS if name in columns)]
    known = [F.length("out_key"), F.length("out_value"), *map(F.octet_length, texts), F.col(HEADER_BYTES)]
    return sum((F.coalesce(each, F.lit(0)) for each in known), F.lit(_FIXED_MAX))


def record_header_bytes() -> Column:
    """The most that headers take of a record that was looked at by `with_plain_headers`."""
    return header_bytes() + F.coalesce(F.size(KEYS), F.lit(0)) * _FIELDS_MAX


def property_bytes_at_most(properties: DataType) -> Column:
    """The most that headers take of a row's `out_properties`, which are of that type."""
    made = F.col("out_properties")
    if isinstance(properties, StructType):
        texts = [made.getField(each.name) for each in properties if isinstance(each.dataType, StringType)]
        fixed = sum(len(each.name.encode()) + _PROPERTY_MAX for each in properties)
        return sum((F.coalesce(F.octet_length(each), F.lit(0)) for each in texts), F.lit(fixed))
    assert isinstance(properties, MapType)
    joined = [F.map_keys(made), *([F.map_values(made)] if isinstance(properties.valueType, StringType) else [])]
    lengths = sum((F.octet_length(F.array_join(each, "")) for each in joined), F.size(made) * _PROPERTY_MAX)
    return F.coalesce(lengths, F.lit(0))


def _field_bytes(content: Column) -> Column:
    length = F.length(content)
    return F.when(content.isNull(), F.lit(1)).otherwise(_number_bytes(length) + length).cast("bigint")


def _number_bytes(number: Column) -> Column:
    """As a zigzag varint: six bits in the first byte, seven in each further one."""
    return (
        F.when(number < 1 << 6, 1).when(number < 1 << 13, 2).when(number < 1 << 20, 3).when(number < 1 << 27, 4)
        .otherwise(5)
    )  # fmt: skip
