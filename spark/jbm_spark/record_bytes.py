"""How large a record is for its topic: `jbm_kafka.codec.record_size.batch_bytes` as a Spark expression."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.codec.record_size import BATCH_BYTES, FIXED_FIELDS_BYTES
from jbm_spark.columns import worked_out_once

_FIELDS_MAX = 10
"""Bytes of the lengths of two fields, at most."""


def batch_bytes(key: Column, value: Column, headers: Column) -> Column:
    """A batch with this record alone and uncompressed: to the byte."""
    of_headers = F.aggregate(
        headers,
        F.lit(0).cast("bigint"),
        lambda size, found: size + _field_bytes(found["key"].cast("binary")) + _field_bytes(found["value"]),
    )
    size = F.lit(FIXED_FIELDS_BYTES) + _field_bytes(key) + _field_bytes(value) + _number_bytes(F.size(headers))
    return worked_out_once(size + of_headers, lambda record: F.lit(BATCH_BYTES) + _number_bytes(record) + record)


def batch_bytes_at_most(key: Column, value: Column, headers: Column) -> Column:
    """No less than `batch_bytes`, and quickly known: names and values as two long texts, which Spark compiles."""
    lengths = [F.coalesce(F.length(each), F.lit(0)) for each in (key, value)]
    texts = headers["key"], headers["value"].cast("array<string>")
    of_headers = sum((F.octet_length(F.array_join(each, "")) for each in texts), F.size(headers) * _FIELDS_MAX)
    return lengths[0] + lengths[1] + of_headers + BATCH_BYTES + FIXED_FIELDS_BYTES + _FIELDS_MAX * 2


def _field_bytes(content: Column) -> Column:
    length = F.length(content)
    return F.when(content.isNull(), F.lit(1)).otherwise(_number_bytes(length) + length).cast("bigint")


def _number_bytes(number: Column) -> Column:
    """As a zigzag varint: six bits in the first byte, seven in each further one."""
    return (
        F.when(number < 1 << 6, 1).when(number < 1 << 13, 2).when(number < 1 << 20, 3).when(number < 1 << 27, 4)
        .otherwise(5)
    )  # fmt: skip
