"""The columns of an archive: those of `messages`, and what gives the exact record back. Nothing is stored twice.

A text body is in `body_text`, any other in `body_bytes`. A key is in `unit_of_order`, or in `key` where it is no text.
A header whose value a column has, such as `JMSPriority` or a property, is stored by name alone: it is `told`. Whether
it is, one rule decides when a row is written and when it is read, so what the columns cannot say stays as it was.
"""

from collections.abc import Callable, Mapping

from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as F  # noqa: N812
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_kafka.codec.headers import REPLY_TO_HEADER
from jbm_kafka.codec.scan import MESSAGE_ID_HEADER
from jbm_spark.known_values import looked_up

_TYPED = (
    ("message_id", "string"), ("timestamp", "timestamp"), ("correlation_id", "string"), ("type", "string"),
    ("reply_to", "string"), ("delivery_mode", "string"), ("priority", "int"), ("expiration", "timestamp"),
    ("delivery_time", "timestamp"), ("body_kind", "string"), ("body_text", "string"), ("body_bytes", "binary"),
    ("unit_of_order", "string"), ("duplicate_id", "string"), ("properties", "map<string,string>"),
)  # fmt: skip
_OF_RECORD = (
    ("topic", "string"), ("topic_id", "string"), ("partition", "int"), ("offset", "bigint"),
    ("kafka_timestamp", "timestamp"), ("key", "binary"),
    ("headers", "array<struct<key:string,value:binary,told:boolean>>"),
)  # fmt: skip
MESSAGES_SCHEMA = ", ".join(f"{name} {kind}" for name, kind in (*_TYPED, *_OF_RECORD))
"""The schema of the files under `messages`; the folders they are in add `segment`, `batch` and `day`."""
MESSAGE_KEY = ("topic_id", "partition", "offset")
_HEADER_COLUMNS: dict[str, Callable[[], Column]] = {
    MESSAGE_ID_HEADER: lambda: F.col("message_id"),
    "JMSCorrelationID": lambda: F.col("correlation_id"),
    "JMSType": lambda: F.col("type"),
    REPLY_TO_HEADER: lambda: F.col("reply_to"),
    "JMSDeliveryMode": lambda: F.col("delivery_mode"),
    "JBMDuplicateID": lambda: F.col("duplicate_id"),
    "JBMBody": lambda: F.col("body_kind"),
    "JMSPriority": lambda: F.col("priority").cast("string"),
    "JMSExpiration": lambda: F.unix_millis("expiration").cast("string"),
    "JMSDeliveryTime": lambda: F.unix_millis("delivery_time").cast("string"),
}
"""As text; made when they are asked for, since a column needs a session."""


def archived_rows(messages: DataFrame, topic_ids: Mapping[str, str], *more: Column) -> DataFrame:
    """The rows of `messages` as they are archived. The ids, by topic, tell it from one that is made anew; `more` are
    columns beside."""
    record, key = F.col("kafka"), F.col("kafka.key")
    is_unit = F.coalesce(F.col("unit_of_order").cast("binary") == key, F.lit(False))

    def told(header: Column) -> Column:
        return F.struct(header["key"], header["value"], _told(header["key"]).alias("known"))

    def without_what_is_told(header: Column) -> Column:
        is_told = header["known"].eqNullSafe(header["value"])
        value = F.when(~is_told, header["value"])
        return F.struct(header["key"].alias("key"), value.alias("value"), is_told.alias("told"))

    kept = {
        "topic": record["topic"],
        "topic_id": looked_up(record["topic"], topic_ids),
        "partition": record["partition"],
        "offset": record["offset"],
        "kafka_timestamp": F.when(record["timestamp"] != F.col("timestamp"), record["timestamp"]),
        "key": F.when(~is_unit, key),
        "headers": _once_known(F.transform(F.transform(record["headers"], told), without_what_is_told)),
    }
    names = [name for name, _ in (*_TYPED, *_OF_RECORD)]
    columns = [kept[name].alias(name) if name in kept else F.col(name) for name in names]
    return _with_known(messages).select(*columns, *more)


def message_rows(rows: DataFrame, *more: str) -> DataFrame:
    """The columns of `messages` again, of archived rows: to the byte what the topic held; `more` are columns beside."""

    def as_it_was(header: Column) -> Column:
        value = F.when(header["told"], _told(header["key"])).otherwise(header["value"])
        return F.struct(header["key"].alias("key"), value.alias("value"))

    record = F.struct(
        "topic",
        "partition",
        "offset",
        F.coalesce("kafka_timestamp", "timestamp").alias("timestamp"),
        F.coalesce(F.col("key"), F.col("unit_of_order").cast("binary")).alias("key"),
        _once_known(F.transform(F.col("headers"), as_it_was)).alias("headers"),
    )
    return _with_known(rows).select(*(name for name, _ in _TYPED), record.alias("kafka"), *more)


def _with_known(rows: DataFrame) -> DataFrame:
    """With `known`: by name, or by the name of the property, the text that the columns have for a header."""
    entries = [each for header, column in _HEADER_COLUMNS.items() for each in (F.lit(header), column())]
    properties = F.coalesce(F.col("properties"), F.create_map().cast("map<string,string>"))
    return rows.withColumn("known", F.map_concat(F.create_map(*entries), properties))


def _once_known(headers: Column) -> Column:
    """Spark would work a column out again for each header that uses it, were it not used elsewhere as well."""
    return F.when(F.col("known").isNotNull(), headers)


def _told(name: Column) -> Column:
    """The value that the columns know for a header of this name."""
    known_by = F.when(name.startswith("jms."), F.substring_index(name, ".", -1)).otherwise(name)
    return F.try_element_at(F.col("known"), known_by).cast("binary")
