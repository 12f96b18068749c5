"""Kafka records to message columns: what `jbm_kafka.codec` reads, as Spark expressions, with no Python worker.

No record ends a query: a missing header, a malformed number, text that is not UTF-8 each give null or the default,
and the raw key, value and headers stay beside them. The same expressions serve batches and streams.
"""

from collections.abc import Callable, Mapping
from typing import Literal, get_args

from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as F  # noqa: N812  (Spark's own convention)
    from pyspark.sql.types import StructType
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_kafka.codec.headers import OWN_HEADERS
from jbm_kafka.codec.identity import TOLD_BY_PROVIDER
from jbm_kafka.codec.property_header import HEADER_PREFIX
from jbm_kafka.codec.scan import PRIORITY_DEFAULT
from jbm_kafka.core.selectors.tokens import KEYWORDS
from jbm_kafka.core.wrong_values import wrong_type, wrong_value
from jbm_spark.call_sites import without_call_sites
from jbm_spark.java_calls import MESSAGE_COLUMNS, called, has_class
from jbm_spark.plain_headers import ARE_PLAIN, NAMES, TEXTS, with_plain_headers

PropertyType = Literal["string", "boolean", "byte", "short", "int", "long", "float", "double"]

BODY_KINDS = ("text", "bytes", "map", "stream", "object", "none")

_INSTANT_MS_MAX = 253_402_214_400_000
"""9999-12-31, the last day that Python's datetime can show in every time zone; later instants show as this one."""

_SPARK_TYPES: dict[str, str] = {"byte": "tinyint", "short": "smallint", "int": "int", "long": "bigint",
                                "float": "float", "double": "double"}  # fmt: skip
_WHOLE_NUMBER = r"^[+-]?[0-9]+\z"
_COUNT = r"^[0-9]{1,19}\z"
_DECIMAL_NUMBER = r"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?\z|^NaN\z|^[+-]?Infinity\z"
_MADE, _PLAIN, _REPEATED = "properties_made", "plain_properties", "repeated_headers"
_PLACE, _LAST = "place_of_", "last_"
_READ = sorted(OWN_HEADERS - {"JBMCodec", "JBMSender", "JBMTemporary", "JBMSubscription"})
"""The headers of our own that columns show."""
_NOT_OTHERS_JMS = r"(?!JMS(?![X_]))"
_NAME = _NOT_OTHERS_JMS + r"[\p{IsAlphabetic}_$][\p{IsAlphabetic}\p{M}\p{Nd}_$]*\z"
_TYPE = r"jms[.](?:string|boolean|byte|short|int|long|float|double|null)[.]"
_HEADER = f"^(?:{_TYPE})?+{_NAME}"
_PLAIN_HEADER = f"^{_NAME}"
_FOUND = {
    "message_id": "string", "timestamp": "timestamp", "correlation_id": "string", "type": "string",
    "reply_to": "string", "delivery_mode": "string", "priority": "int", "expiration": "timestamp",
    "delivery_time": "timestamp", "body_kind": "string", "body_text": "string", "duplicate_id": "string",
    "properties": "map<string,string>",
}  # fmt: skip
"""The row that MessageColumns.java gives, in its order."""
_AS_IT_CAME = {"jbm.body_kind": "as it came"}
"""The metadata of a column that has the kind that its record says."""


@without_call_sites()
def message_columns(records: DataFrame) -> DataFrame:
    """One row a message, from the rows of Spark's Kafka source (with `includeHeaders`).

    By our class of Java where the session has it, else by expressions, which say the same at half the speed.
    """
    return _columns_of_java(records) if has_class(MESSAGE_COLUMNS) else columns_of_expressions(records)


def _columns_of_java(records: DataFrame) -> DataFrame:
    arguments = [F.col("headers"), F.col("value")]
    row = ", ".join(f"{name} {kind}" for name, kind in _FOUND.items())
    step = records.withColumn("found", called(MESSAGE_COLUMNS, "decode", row, arguments, takes_null=True))
    shown = {name: F.col("found")[name] for name in _FOUND}
    shown["message_id"] = F.coalesce(shown["message_id"], _foreign_id())
    shown["timestamp"] = F.coalesce(shown["timestamp"], F.col("timestamp"))
    return _in_order_of_columns(step, shown)


def columns_of_expressions(records: DataFrame) -> DataFrame:
    """The same for Spark Connect, and for a session without our jar."""
    step = with_plain_headers(records, F.col("headers"))
    step = step.withColumn(_MADE, F.when(F.col(ARE_PLAIN), F.map_from_arrays(NAMES, TEXTS)))
    # Without a name twice their order does not matter.
    step = step.withColumn(_PLAIN, F.when(F.size(_MADE) == F.size(NAMES), F.col(_MADE)))
    # A step of its own, for Spark compiles none that has a lambda, however seldom it calls it.
    step = step.withColumns({_REPEATED: _of_repeated_headers(), "properties": _properties()})
    step = step.withColumns({_PLACE + name: F.array_position(F.col("headers")["key"], name) for name in _READ})
    step = step.withColumns({_LAST + name: _last_of(name) for name in _READ})
    step = step.withColumn("body_kind", _body_kind())
    shown = {
        "message_id": F.coalesce(F.nullif(_text_header("JMSMessageID"), F.lit("")), _foreign_id()),
        "timestamp": F.coalesce(_instant(_count(_last("JMSTimestamp"))), F.col("timestamp")),
        "correlation_id": _text_header("JMSCorrelationID"),
        "type": _text_header("JMSType"),
        "reply_to": _text_header("JMSReplyTo"),
        "delivery_mode": _delivery_mode(),
        "priority": _priority(),
        "expiration": _deadline("JMSExpiration"),
        "delivery_time": _deadline("JMSDeliveryTime"),
        "body_kind": F.col("body_kind"),
        "body_text": F.when(F.col("body_kind") == "text", F.col("value").cast("string")),
        "duplicate_id": _text_header("JBMDuplicateID"),
        "properties": F.col("properties"),
    }
    return _in_order_of_columns(step, shown)


def _in_order_of_columns(step: DataFrame, shown: Mapping[str, Column]) -> DataFrame:
    names = [name for name in shown if name not in ("duplicate_id", "properties")]
    typed = [shown[name].alias(name, metadata=_AS_IT_CAME if name == "body_kind" else {}) for name in names]
    return step.select(
        *typed,
        F.when(shown["body_kind"] != "text", F.col("value")).alias("body_bytes"),
        unit_name(F.col("key")).alias("unit_of_order"),
        shown["duplicate_id"].alias("duplicate_id"),
        shown["properties"].alias("properties"),
        F.struct("topic", "partition", "offset", "timestamp", "key", "headers").alias("kafka"),
    )


def kinds_are_as_they_came(schema: StructType) -> bool:
    """Return True if the column `body_kind` was made here, and no expression has changed it since.

    Its rows may be of other frames all the same, as after a union.
    """
    return any(each.name == "body_kind" and _AS_IT_CAME.items() <= each.metadata.items() for each in schema.fields)


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


def _of_repeated_headers() -> Column:
    """Where a record has a name twice, name to value of our own headers, and whatever others: the last that counts.
    Else null."""
    counting = F.map_from_entries(F.filter("headers", _counts))
    return F.when(F.size(F.map_from_entries("headers")) < F.size("headers"), counting)


def _counts(header: Column) -> Column:
    name, value = header["key"], header["value"]
    return (
        F.when(name == "JBMBody", F.lit(True))
        .when(name == "JMSPriority", _count(value).between(0, 9))
        .when(name.isin("JMSExpiration", "JMSDeliveryTime"), _count(value).isNotNull())
        .otherwise(value.isNotNull())
    )


def _last_of(name: str) -> Column:
    place, repeated = F.col(_PLACE + name), F.col(_REPEATED)
    alone = F.get("headers", (place - 1).cast("int"))["value"]
    # The place twice, or Spark would look through the headers for each name anew.
    return F.when(place > 0, F.when(repeated.isNull(), alone).otherwise(repeated[name]))


def _last(name: str) -> Column:
    return F.col(_LAST + name)


def _text_header(name: str) -> Column:
    """The last that has a value; null when that is not UTF-8."""
    return F.try_validate_utf8(_last(name).cast("string"))


def _count(value: Column) -> Column:
    text = value.cast("string")
    return F.when(text.rlike(_COUNT), text.try_cast("bigint"))


def _foreign_id() -> Column:
    return F.concat_ws(":", F.lit("ID:kafka"), F.col("topic"), F.col("partition"), F.col("offset"))


def time_of(number: Column) -> Column:
    """Milliseconds since 1970 as a time, one that is too late for Python as the last that is not; null for 0."""
    return F.when(number > 0, _instant(number))


def _instant(number: Column) -> Column:
    # least() alone would make the last day of a null.
    return F.when(number.isNotNull(), F.timestamp_millis(F.least(number, F.lit(_INSTANT_MS_MAX))))


def _deadline(name: str) -> Column:
    """The last that is a number, as a time; null for 0."""
    return time_of(_count(_last(name)))


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
    """Return those that are not ours: properties, and what JMS cannot show."""
    return F.filter(headers, lambda header: ~header["key"].isin(*sorted(OWN_HEADERS)))


def last_header(headers: Column, name: str, keys: Column | None = None) -> Column:
    """The value of the last header of that name, or null; compiled, as a look at each header is not."""
    from_the_end = F.array_position(F.reverse(headers["key"] if keys is None else keys), name).cast("int")
    return F.when(from_the_end > 0, F.get(headers, F.size(headers) - from_the_end)["value"])


def worked_out_once(value: Column, use: Callable[[Column], Column]) -> Column:
    """Return what is made of the value, which it may use several times. A lambda: not compiled."""
    return F.transform(F.array(value), use)[0]


def _properties() -> Column:
    """Return a column that maps each property's name to its text.

    A name that comes more than once has its last typed header, else its last plain one.
    """
    nothing = F.create_map().cast("map<string,string>")
    return F.coalesce(_PLAIN, F.map_from_entries(_in_order()), nothing)


def _in_order() -> Column:
    """Name and text of each header that shows as a property; those with a type come last."""
    shown = F.filter("headers", _is_shown)
    in_order = F.concat(F.filter(shown, lambda header: ~_has_type(header)), F.filter(shown, _has_type))
    return F.transform(
        in_order,
        lambda header: F.struct(
            property_name(header).alias("name"),
            F.when(~header["key"].startswith("jms.null."), header["value"].cast("string")).alias("text"),
        ),
    )


def _is_shown(header: Column) -> Column:
    """`is_typed` or `is_plain`."""
    key, name = header["key"], property_name(header)
    is_no_word = ~F.upper(name).isin(*sorted(KEYWORDS)) & ~name.isin(*TOLD_BY_PROVIDER)
    is_named = key.rlike(_HEADER) & is_no_word
    return ~key.isin(*sorted(OWN_HEADERS)) & is_named & _is_text_or_null(header["value"])


def is_typed(header: Column) -> Column:
    """Return whether the header shows as a property with a type."""
    return _has_type(header) & _is_shown(header)


def is_plain(header: Column) -> Column:
    """Return whether the header, somebody else's, shows as a string property."""
    return ~_has_type(header) & _is_shown(header)


def _has_type(header: Column) -> Column:
    return header["key"].startswith(HEADER_PREFIX)


def is_property_name(name: Column) -> Column:
    """Return whether a property may have the name: `codec.properties.is_legal_name`."""
    return name.rlike(_PLAIN_HEADER) & ~F.upper(name).isin(*sorted(KEYWORDS))


def property_name(header: Column) -> Column:
    """The name that a header shows as, if it shows as a property."""
    return F.substring_index(header["key"], ".", -1)


def _is_text_or_null(value: Column) -> Column:
    return value.isNull() | F.is_valid_utf8(value.cast("string"))
