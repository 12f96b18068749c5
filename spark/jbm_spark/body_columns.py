"""The parts of a map's, a stream's or an object message's body, as columns of a frame that `messages` gave.

The codec of jbm_kafka itself reads it, in Spark's Python workers: so the rules are its own, of every schema that was
ever released. (Spark's `from_avro` takes lengths on trust: one damaged byte may ask for more memory than there is,
which ends the executor.) Each function gives a column, so a query that takes none of them needs no Python worker.

The text of a map or a list is JSON: every file format and every tool can hold it, it can be compared and grouped, and
Spark makes columns of named types (`from_json`) or a variant (`parse_json`) of it.
"""

import json
import math
from base64 import b64encode

from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import Column
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StringType, StructField, StructType
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_kafka.codec.bodies import BODY_HEADER, CODEC_HEADER, BodyShape, decode_value
from jbm_kafka.codec.property_header import Property, property_text
from jbm_kafka.codec.typed_values import TypedValue
from jbm_spark.raw_columns import raw_headers

_READ = StructType([StructField(name, StringType()) for name in ("body_map", "body_list", "body_error")])


def body_map() -> Column:
    """The body of a map message as the text of a JSON object; null for other kinds, and for what cannot be read.

    Numbers keep their digits; bytes are base64; NaN and the infinities are texts.
    """
    return _read()["body_map"]


def body_list() -> Column:
    """The body of a stream message as the text of a JSON array; else as `body_map`."""
    return _read()["body_list"]


def body_error() -> Column:
    """Why the body cannot be read as what its sender announced; null where it can.

    An object that an application's own codec wrote counts as readable.
    """
    return _read()["body_error"]


def _read() -> Column:
    """Spark calls it once for a row, however many of its fields are taken."""
    headers = raw_headers()
    kinds = F.filter(headers, lambda header: header["key"] == BODY_HEADER)
    codecs = F.filter(headers, lambda header: (header["key"] == CODEC_HEADER) & (F.length(header["value"]) > 0))
    kind, codec = (F.try_element_at(found, F.lit(-1))["value"] for found in (kinds, codecs))
    reader = F.udf(read_body, _READ, useArrow=False)  # Arrow would need pandas
    return reader(kind, codec, F.col("body_bytes"))


def read_body(
    kind: bytes | None, codec: bytes | None, value: bytes | None
) -> tuple[str | None, str | None, str | None]:
    """The JSON of a map, that of a list, and why the value cannot be read; by its last two headers."""
    shape, body, fault = decode_value(_bytes(kind), _bytes(value), [(CODEC_HEADER, _bytes(codec))])
    if shape is BodyShape.MAP and isinstance(body, dict):
        return json.dumps({name: _plain(held) for name, held in body.items()}, ensure_ascii=False), None, None
    if shape is BodyShape.STREAM and isinstance(body, tuple):
        return (
            None,
            json.dumps([_plain(held) for held in body if isinstance(held, TypedValue)], ensure_ascii=False),
            None,
        )
    return None, None, None if shape is BodyShape.OBJECT else fault


def _bytes(value: bytes | None) -> bytes | None:
    return None if value is None else bytes(value)  # Spark may give a bytearray


def _plain(held: TypedValue) -> object:
    """As JSON can say it, and as `jbm-kafka browse` does."""
    value = held.value
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, float):
        text = property_text(Property("float" if held.type == "float" else "double", value))
        return float(text) if math.isfinite(value) else text
    return value
