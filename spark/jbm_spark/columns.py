"""Kafka records to message columns: the headers of docs/topics.md as Spark expressions, no Python worker.

No record ends a query: a missing header, a malformed number, text that is not UTF-8 each give null or the default,
and the raw key, value and headers stay beside them. The same expressions serve batches and streams.
"""

from typing import Literal, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own convention)

PropertyType = Literal["string", "boolean", "byte", "short", "int", "long", "float", "double"]

STANDARD_HEADERS = frozenset({
    "JMSMessageID", "JMSTimestamp", "JMSCorrelationID", "JMSType", "JMSReplyTo", "JMSDeliveryMode", "JMSPriority",
    "JMSExpiration", "JMSDeliveryTime", "JBMBody", "JBMDuplicateID", "JBMSender", "JBMTemporary",
})  # fmt: skip
"""Header names with a meaning of their own; every other one is a property."""

BODY_KINDS = ("text", "bytes", "map", "stream", "object", "none")

PRIORITY_DEFAULT = 4

_INSTANT_MS_MAX = 253_402_214_400_000
"""9999-12-31, the last day that Python's datetime can show in every time zone; later instants show as this one."""

_SPARK_TYPES: dict[str, str] = {"byte": "tinyint", "short": "smallint", "int": "int", "long": "bigint",
                                "float": "float", "double": "double"}  # fmt: skip
_WHOLE_NUMBER = r"^[+-]?[0-9]+$"
_DECIMAL_NUMBER = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$|^NaN$|^[+-]?Infinity$"
_TYPED_HEADER = r"^jms[.](string|boolean|byte|short|int|long|float|double|null)[.]."
_LEGAL_NAME = r"^[\p{L}_$][\p{L}\p{N}_$]*$"
_ILLEGAL_NAMES = ("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE")


def message_columns(records: DataFrame) -> DataFrame:
    """One row a message, from the rows of Spark's Kafka source (with `includeHeaders`)."""
    return records.select(
        _message_id().alias("message_id"),
        F.coalesce(_instant("JMSTimestamp", least=0), F.col("timestamp")).alias("timestamp"),
        _text_header("JMSCorrelationID").alias("correlation_id"),
        _text_header("JMSType").alias("type"),
        _text_header("JMSReplyTo").alias("reply_to"),
        _delivery_mode().alias("delivery_mode"),
        _priority().alias("priority"),
        _instant("JMSExpiration", least=1).alias("expiration"),
        _instant("JMSDeliveryTime", least=1).alias("delivery_time"),
        _body_kind().alias("body_kind"),
        F.when(_body_kind() == "text", F.col("value").cast("string")).alias("body_text"),
        F.col("value").alias("body_bytes"),
        _unit_of_order().alias("unit_of_order"),
        _text_header("JBMDuplicateID").alias("duplicate_id"),
        _properties().alias("properties"),
        F.struct("topic", "partition", "offset", "timestamp", "key", "headers").alias("kafka"),
    )


def property_column(name: str, type: PropertyType = "string") -> Column:  # noqa: A002  (the word of the API)
    """The property as a column of that type; null when it is absent, null, or cannot be read so.

    Reads as Jakarta Messaging converts: a number from any decimal text that fits, a boolean from true or false.
    """
    if type not in get_args(PropertyType):
        raise ValueError(f"property type {type!r}: use one of {', '.join(get_args(PropertyType))}")
    text = F.try_element_at(F.col("properties"), F.lit(name))
    return text if type == "string" else _parsed(text, type)


def _parsed(text: Column, type_name: str) -> Column:
    if type_name == "boolean":
        return F.when(F.lower(text) == "true", F.lit(True)).when(F.lower(text) == "false", F.lit(False))
    # Spark alone would also take ' 1 ', '1d' and, for whole numbers, '1.0'.
    pattern = _DECIMAL_NUMBER if type_name in ("float", "double") else _WHOLE_NUMBER
    return F.when(text.rlike(pattern), text.try_cast(_SPARK_TYPES[type_name]))


def _header(name: str) -> Column:
    # The last one, as Kafka's Headers.lastHeader; try_: a record without it must not end the query.
    found = F.filter(F.col("headers"), lambda header: header["key"] == name)
    return F.try_element_at(found, F.lit(-1))["value"]


def _text_header(name: str) -> Column:
    return F.make_valid_utf8(_header(name).cast("string"))


def _whole_number_header(name: str) -> Column:
    return _parsed(_header(name).cast("string"), "long")


def _message_id() -> Column:
    foreign = F.concat_ws(":", F.lit("ID:kafka"), F.col("topic"), F.col("partition"), F.col("offset"))
    return F.coalesce(F.nullif(_text_header("JMSMessageID"), F.lit("")), foreign)


def _instant(name: str, *, least: int) -> Column:
    number = _whole_number_header(name)
    return F.when(number >= least, F.timestamp_millis(F.least(number, F.lit(_INSTANT_MS_MAX))))


def _delivery_mode() -> Column:
    is_non_persistent = _text_header("JMSDeliveryMode") == "NON_PERSISTENT"
    return F.when(is_non_persistent, F.lit("NON_PERSISTENT")).otherwise(F.lit("PERSISTENT"))


def _priority() -> Column:
    number = _whole_number_header("JMSPriority")
    return F.when(number.between(0, 9), number).otherwise(F.lit(PRIORITY_DEFAULT)).cast("int")


def _body_kind() -> Column:
    value, said = F.col("value"), _text_header("JBMBody")
    is_broken_text = (said == "text") & value.isNotNull() & ~F.is_valid_utf8(value.cast("string"))
    without_header = F.when(value.isNull(), F.lit("none")).otherwise(F.lit("bytes"))
    return F.when(said.isin(*BODY_KINDS) & ~is_broken_text, said).otherwise(without_header)


def _unit_of_order() -> Column:
    key = F.col("key")
    text = key.cast("string")
    named = F.when(F.is_valid_utf8(text), text).otherwise(F.concat(F.lit("0x"), F.lower(F.hex(key))))
    return F.when(F.length(key) > 0, named)


def _properties() -> Column:
    """Name to text: plain headers first, typed ones over them, of several the last."""
    plain = F.transform(F.filter(F.col("headers"), _is_plain), lambda header: _entry(header["key"], header["value"]))
    typed = F.transform(F.filter(F.col("headers"), _is_typed), _typed_entry)
    entries = F.concat(F.coalesce(plain, F.array()), F.coalesce(typed, F.array()))
    return F.map_from_entries(entries)


def _is_typed(header: Column) -> Column:
    return header["key"].rlike(_TYPED_HEADER)


def _is_plain(header: Column) -> Column:
    key, text = header["key"], header["value"].cast("string")
    is_legal_name = key.rlike(_LEGAL_NAME) & ~F.upper(key).isin(*_ILLEGAL_NAMES) & ~key.isin(*sorted(STANDARD_HEADERS))
    return is_legal_name & (text.isNull() | F.is_valid_utf8(text))


def _typed_entry(header: Column) -> Column:
    key = header["key"]
    type_name = F.substring_index(F.substring(key, 5, 10), ".", 1)
    name = F.substring(key, F.length(type_name) + 6, F.length(key))
    return _entry(name, F.when(type_name != "null", header["value"]))


def _entry(name: Column, value: Column) -> Column:
    return F.struct(name.alias("key"), F.make_valid_utf8(value.cast("string")).alias("value"))
