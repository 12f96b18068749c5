"""Kafka records to message columns: what `jbm_kafka.codec` reads, as Spark expressions, with no Python worker.

No record ends a query: a missing header, a malformed number, text that is not UTF-8 each give null or the default,
and the raw key, value and headers stay beside them. The same expressions serve batches and streams.
"""

from typing import Literal, get_args

from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as F  # noqa: N812  (Spark's own convention)
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_kafka.codec.headers import OWN_HEADERS
from jbm_kafka.codec.identity import TOLD_BY_PROVIDER
from jbm_kafka.codec.property_header import HEADER_PREFIX
from jbm_kafka.codec.scan import PRIORITY_DEFAULT
from jbm_kafka.core.wrong_values import wrong_type, wrong_value

PropertyType = Literal["string", "boolean", "byte", "short", "int", "long", "float", "double"]

BODY_KINDS = ("text", "bytes", "map", "stream", "object", "none")

_INSTANT_MS_MAX = 253_402_214_400_000
"""9999-12-31, the last day that Python's datetime can show in every time zone; later instants show as this one."""

_SPARK_TYPES: dict[str, str] = {"byte": "tinyint", "short": "smallint", "int": "int", "long": "bigint",
                                "float": "float", "double": "double"}  # fmt: skip
_WHOLE_NUMBER = r"^[+-]?[0-9]+\z"
_COUNT = r"^[0-9]{1,19}\z"
_DECIMAL_NUMBER = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?\z|^NaN\z|^[+-]?Infinity\z"
_NO_NAMES = ("NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE")
"""Words of the selector language."""
_OWN = "own_headers"
_OTHERS = "other_headers"
_NAMES = "plain_names"
_NOT_OTHERS_JMS = r"(?!JMS(?![X_]))"
_NAME = _NOT_OTHERS_JMS + r"[\p{IsAlphabetic}_$][\p{IsAlphabetic}\p{M}\p{Nd}_$]*\z"
_TYPE = r"jms[.](?:string|boolean|byte|short|int|long|float|double|null)[.]"
_HEADER = f"^(?:{_TYPE})?+{_NAME}"
_PLAIN_HEADER = f"^{_NAME}"
_NOT_A_WORD = rf"(?!(?i:{'|'.join(_NO_NAMES)})\z|(?:{'|'.join(TOLD_BY_PROVIDER)})\z)"
# What nearly all properties have: quickly matched.
_ASCII_HEADER = rf"^(?:{_TYPE})?+{_NOT_OTHERS_JMS}{_NOT_A_WORD}[A-Za-z_$][A-Za-z0-9_$]*+\z"
_WITH_VALUE = rf"(?!jms[.]null[.]){_ASCII_HEADER[1:-2]}"
_ASCII_HEADERS = rf"^{_WITH_VALUE}(?:,{_WITH_VALUE})*+\z".replace(r")\z", r")(?:,|\z)")
"""The names of all headers of a record that are not ours, where each shows as a property, and none as null."""


def message_columns(records: DataFrame) -> DataFrame:
    """One row a message, from the rows of Spark's Kafka source (with `includeHeaders`)."""
    # A step of its own: Spark works these out once, and not at all for a query that needs none of them.
    step = records.withColumns({_OWN: _last_headers(), _OTHERS: other_headers(F.col("headers"))})
    step = step.withColumn(_NAMES, plain_names(F.col(_OTHERS)))
    return step.select(
        _message_id().alias("message_id"),
        _timestamp().alias("timestamp"),
        _text_header("JMSCorrelationID").alias("correlation_id"),
        _text_header("JMSType").alias("type"),
        _text_header("JMSReplyTo").alias("reply_to"),
        _delivery_mode().alias("delivery_mode"),
        _priority().alias("priority"),
        _deadline("JMSExpiration").alias("expiration"),
        _deadline("JMSDeliveryTime").alias("delivery_time"),
        _body_kind().alias("body_kind"),
        F.when(_body_kind() == "text", F.col("value").cast("string")).alias("body_text"),
        F.col("value").alias("body_bytes"),
        unit_name(F.col("key")).alias("unit_of_order"),
        _text_header("JBMDuplicateID").alias("duplicate_id"),
        _properties().alias("properties"),
        F.struct("topic", "partition", "offset", "timestamp", "key", "headers").alias("kafka"),
    )


def property_column(name: str, type: PropertyType = "string") -> Column:  # noqa: A002  (the word of the API)
    """The property as a column of that type; null when it is absent, null, or cannot be read so.

    Reads as Jakarta Messaging converts: a number from any decimal text that fits, a boolean from true or false.

    Raises:
        InvalidSettingError: no such type; the message names them.
        InvalidTypeError: the name is not a str.
    """
    if not isinstance(name, str):
        raise wrong_type("name", name, "it is the name of a property, a str")
    known = get_args(PropertyType)
    if type not in known:
        raise wrong_value("type", type, f"it is one of {', '.join(known)}")
    text = F.try_element_at(F.col("properties"), F.lit(name))
    return text if type == "string" else _parsed(text, type)


def _parsed(text: Column, type_name: str) -> Column:
    if type_name == "boolean":
        return F.when(F.lower(text) == "true", F.lit(True)).when(F.lower(text) == "false", F.lit(False))
    # Spark alone would also take ' 1 ', '1d' and, for whole numbers, '1.0'.
    pattern = _DECIMAL_NUMBER if type_name in ("float", "double") else _WHOLE_NUMBER
    return F.when(text.rlike(pattern), text.try_cast(_SPARK_TYPES[type_name]))


def _last_headers() -> Column:
    """Name to value of our own headers, and whatever others; of several the last that counts."""
    every = F.map_from_entries("headers")
    counting = F.map_from_entries(F.filter("headers", _counts))
    # A name twice is rare, and telling which one counts takes Spark as long as all the rest.
    return F.when(F.size(every) == F.size("headers"), every).otherwise(counting)


def _counts(header: Column) -> Column:
    name, value = header["key"], header["value"]
    return (
        F.when(name == "JBMBody", F.lit(True))
        .when(name == "JMSPriority", _count(value).between(0, 9))
        .when(name.isin("JMSExpiration", "JMSDeliveryTime"), _count(value).isNotNull())
        .otherwise(value.isNotNull())
    )


def _last(name: str) -> Column:
    return F.col(_OWN)[name]


def _text_header(name: str) -> Column:
    """The last that has a value; null when that is not UTF-8."""
    return F.try_validate_utf8(_last(name).cast("string"))


def _count(value: Column) -> Column:
    text = value.cast("string")
    return F.when(text.rlike(_COUNT), text.try_cast("bigint"))


def _message_id() -> Column:
    foreign = F.concat_ws(":", F.lit("ID:kafka"), F.col("topic"), F.col("partition"), F.col("offset"))
    return F.coalesce(F.nullif(_text_header("JMSMessageID"), F.lit("")), foreign)


def _instant(number: Column) -> Column:
    # least() alone would make the last day of a null.
    return F.when(number.isNotNull(), F.timestamp_millis(F.least(number, F.lit(_INSTANT_MS_MAX))))


def _timestamp() -> Column:
    return F.coalesce(_instant(_count(_last("JMSTimestamp"))), F.col("timestamp"))


def _deadline(name: str) -> Column:
    """The last that is a number, as a time; null for 0."""
    number = _count(_last(name))
    return F.when(number > 0, _instant(number))


def _delivery_mode() -> Column:
    is_non_persistent = _text_header("JMSDeliveryMode") == "NON_PERSISTENT"
    return F.when(is_non_persistent, F.lit("NON_PERSISTENT")).otherwise(F.lit("PERSISTENT"))


def _priority() -> Column:
    number = _count(_last("JMSPriority"))
    return F.when(number.between(0, 9), number).otherwise(F.lit(PRIORITY_DEFAULT)).cast("int")


def _body_kind() -> Column:
    value, said = F.col("value"), _last("JBMBody").cast("string")
    is_text = said == "text"
    without_value = F.when(is_text, F.lit("text")).otherwise(F.lit("none"))
    fits = F.when(is_text, F.is_valid_utf8(value.cast("string"))).when(said == "none", F.length(value) == 0)
    is_as_said = said.isin(*BODY_KINDS) & F.coalesce(fits, F.lit(True))
    return F.when(value.isNull(), without_value).when(is_as_said, said).otherwise(F.lit("bytes"))


def unit_name(key: Column) -> Column:
    """The unit that a record's key stands for: `codec.identity.unit_name`."""
    text = key.cast("string")
    named = F.when(F.is_valid_utf8(text), text).otherwise(F.concat(F.lit("0x"), F.lower(F.hex(key))))
    return F.when(F.length(key) > 0, named)


def other_headers(headers: Column) -> Column:
    """Those that are not ours: properties, and what JMS cannot show."""
    return F.filter(headers, lambda header: ~header["key"].isin(*sorted(OWN_HEADERS)))


def last_header(headers: Column, name: str) -> Column:
    """The value of the last header of that name, or null; compiled, as a look at each header is not."""
    from_the_end = F.array_position(F.reverse(headers["key"]), name).cast("int")
    return F.when(from_the_end > 0, F.get(headers, F.size(headers) - from_the_end)["value"])


def plain_names(others: Column) -> Column:
    """Of `other_headers` the names that they show as, if all of them plainly show, as nearly always; else null.

    Their values are then the texts of these properties. One pattern for all names takes a third of the time that a look
    at each header takes.
    """
    keys, texts = others["key"], others["value"].cast("array<string>")
    joined = F.array_join(keys, ",")
    commas = F.length(joined) - F.length(F.replace(joined, F.lit(","), F.lit("")))
    are_named = (F.size(keys) == 0) | (joined.rlike(_ASCII_HEADERS) & (F.size(keys) == commas + 1))
    # A comma is no part of a longer character: joined by it, they are UTF-8 if each of them is.
    are_texts = F.is_valid_utf8(F.array_join(texts, ","))
    return F.when(are_named & are_texts, F.transform(keys, lambda key: F.substring_index(key, ".", -1)))


def _properties() -> Column:
    """Name to text: plain headers first, typed ones over them, of several the last."""
    names = F.col(_NAMES)
    plain = F.map_from_arrays(names, F.col(_OTHERS)["value"].cast("array<string>"))
    # Without a name twice their order does not matter.
    is_plain_and_once = names.isNotNull() & (F.size(plain) == F.size(names))
    nothing = F.create_map().cast("map<string,string>")
    return F.when(is_plain_and_once, plain).otherwise(F.coalesce(F.map_from_entries(_in_order()), nothing))


def _in_order() -> Column:
    """Name and text of each header that shows as a property; those with a type come last."""
    shown = F.filter(_OTHERS, _is_shown)
    in_order = F.concat(F.filter(shown, lambda header: ~_has_type(header)), F.filter(shown, _has_type))
    return F.transform(
        in_order,
        lambda header: F.struct(
            property_name(header).alias("name"),
            F.when(~header["key"].startswith("jms.null."), header["value"].cast("string")).alias("text"),
        ),
    )


def _is_shown(header: Column) -> Column:
    """`is_typed` or `is_plain`, by one pattern for nearly all headers."""
    key, name = header["key"], property_name(header)
    is_no_word = ~F.upper(name).isin(*_NO_NAMES) & ~name.isin(*TOLD_BY_PROVIDER)
    is_named = key.rlike(_ASCII_HEADER) | (key.rlike(_HEADER) & is_no_word)
    return ~key.isin(*sorted(OWN_HEADERS)) & is_named & _is_text_or_null(header["value"])


def is_typed(header: Column) -> Column:
    """Whether the header shows as a property with a type."""
    return _has_type(header) & _is_shown(header)


def is_plain(header: Column) -> Column:
    """Whether the header, somebody else's, shows as a string property."""
    return ~_has_type(header) & _is_shown(header)


def _has_type(header: Column) -> Column:
    return header["key"].startswith(HEADER_PREFIX)


def is_property_name(name: Column) -> Column:
    """Whether a property may have the name: `codec.properties.is_legal_name`."""
    return name.rlike(_PLAIN_HEADER) & ~F.upper(name).isin(*_NO_NAMES)


def property_name(header: Column) -> Column:
    """The name that a header shows as, if it shows as a property."""
    return F.substring_index(header["key"], ".", -1)


def _is_text_or_null(value: Column) -> Column:
    return value.isNull() | F.is_valid_utf8(value.cast("string"))
