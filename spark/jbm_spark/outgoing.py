"""Message columns to Kafka records: what `jbm_kafka.codec` writes, as Spark expressions, with no Python worker.

The way back of columns.py. `out_fault` tells of a value that no message can have (row_faults.py); nothing here fails.
What `messages` gave keeps all that a message keeps when it is sent on: the bytes of its key, the types of its
properties, the headers that JMS cannot show, and what announces a body that nobody can read; column `kafka` knows them.
"""

import operator
from collections.abc import Set as AbstractSet
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, MapType, StringType, StructType

from jbm_kafka.codec.bodies import CODEC_HEADER
from jbm_kafka.codec.headers import REPLY_TO_HEADER
from jbm_kafka.codec.scan import PRIORITY_DEFAULT
from jbm_spark.body_check import CAME_AS, kind_of_record, unreadable_body
from jbm_spark.columns import BODY_KINDS, is_plain, is_typed, other_headers, plain_names, unit_name
from jbm_spark.frame_check import PROPERTY_TYPES
from jbm_spark.row_faults import is_of_kind_alone, row_fault

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
_GROUP_ID = "JMSXGroupID"


def outgoing_columns(frame: DataFrame, columns: AbstractSet[str]) -> DataFrame:
    """The frame with `out_fault` (why the row is no message, or null), `out_key`, `out_value`, and its headers but the
    message id: `out_carried` go before it, `out_own` after it. `columns` are those of a message
    (`frame_check.checked_columns`)."""
    properties = frame.schema["properties"].dataType if "properties" in columns else None
    # Step by step, or Spark would work the first ones out again for each place that uses them.
    step = frame
    if "kafka" in columns:
        others = other_headers(F.col("kafka.headers"))
        step = step.withColumns({CAME_AS: kind_of_record(), "out_others": others})
        step = step.withColumn("out_is_same", _is_same(properties))
    step = step.withColumns({"out_kind": _kind(columns), "out_came": _came(columns)})
    step = step.withColumns({"out_kept": _kept_names(columns, properties), "out_value": _value(columns)})
    fault = F.coalesce(row_fault(columns, properties), unreadable_body(F.col("out_kind"), F.col("out_value"), columns))
    return step.withColumns(
        {
            "out_fault": fault,
            "out_carried": _carried(columns, properties),
            "out_key": _key(columns, properties),
            "out_own": F.concat(_own_headers(columns), _new_properties(columns, properties)),
        }
    )


def header(name: str, value: Column, is_wanted: Column | None = None) -> Column:
    """The header, or null where it is not wanted or has no value."""
    wanted = value.isNotNull() if is_wanted is None else is_wanted
    return F.when(wanted, F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value")))


def _text(columns: AbstractSet[str], name: str) -> Column:
    return F.col(name) if name in columns else F.lit(None).cast("string")


def _key(columns: AbstractSet[str], properties: DataType | None) -> Column:
    """The unit's name; the very bytes of the key that the message came with, where the unit is still that."""
    unit = _text(columns, "unit_of_order")
    if properties is not None and (group := _group_id(properties)) is not None:
        unit = F.coalesce(unit, F.nullif(group, F.lit("")))
    key = unit.cast("binary")
    if "kafka" in columns:
        came_with = F.col("kafka.key")
        return F.when(unit_name(came_with) == unit, came_with).otherwise(key)
    return key


def _group_id(properties: DataType) -> Column | None:
    """The unit of a message to which nobody gave another (UNIT-10)."""
    if _are_texts(properties):
        return F.try_element_at(F.col("properties"), F.lit(_GROUP_ID))
    if isinstance(properties, StructType) and _GROUP_ID in properties.names:
        return F.col("properties").getField(_GROUP_ID).cast("string")
    return None


def _kind(columns: AbstractSet[str]) -> Column:
    """A row with a text is a text message; the JSON of an object, where it names that kind and has nothing else."""
    kind = _text(columns, "body_kind")
    if "body_bytes" in columns:
        kind = F.coalesce(kind, F.when(F.col("body_bytes").isNull(), F.lit("none")).otherwise(F.lit("bytes")))
    else:
        kind = F.when(kind == "none", kind).otherwise(F.lit("text"))
    if "body_text" not in columns:
        return kind
    of_text: Column = F.lit("text")
    if "body_kind" in columns:
        of_text = F.when(is_of_kind_alone(columns, "object"), F.lit("object")).otherwise(of_text)
    return F.when(F.col("body_text").isNotNull(), of_text).otherwise(kind)


def _value(columns: AbstractSet[str]) -> Column:
    content = F.col("body_bytes") if "body_bytes" in columns else F.lit(None).cast("binary")
    text = _text(columns, "body_text").cast("binary")
    other = F.when(F.col("out_kind") != "none", F.coalesce(content, text, F.lit("").cast("binary")))
    return F.when(F.col("out_kind") == "text", F.coalesce(text, content)).otherwise(other)


def _own_headers(columns: AbstractSet[str]) -> Column:
    """In the codec's order; nothing is worked out for a column that the frame has not."""
    kind, priority, mode = F.col("out_kind"), F.col("priority"), F.col("delivery_mode")
    of_columns = {
        "correlation_id": header("JMSCorrelationID", F.col("correlation_id")),
        "type": header("JMSType", F.col("type")),
        "reply_to": header(REPLY_TO_HEADER, F.col("reply_to")),
        "delivery_mode": header("JMSDeliveryMode", mode, mode == "NON_PERSISTENT"),
        "priority": header("JMSPriority", priority, priority != PRIORITY_DEFAULT),
        "expiration": header("JMSExpiration", F.unix_millis(F.col("expiration"))),
        "delivery_time": header("JMSDeliveryTime", F.unix_millis(F.col("delivery_time"))),
        "duplicate_id": header("JBMDuplicateID", F.col("duplicate_id")),
    }
    announced = header("JBMBody", _announced(columns))
    others = [each for name, each in of_columns.items() if name in columns]
    if "kafka" in columns:
        others.insert(0, header(CODEC_HEADER, F.when(kind == "object", _codec())))
    if not others:
        return _present(announced)
    # Most messages have none of these.
    some = F.when(F.coalesce(*others).isNotNull(), F.array_compact(F.array(*others)))
    return F.concat(_present(announced), F.coalesce(some, no_headers()))


def no_headers() -> Column:
    return F.array().cast(HEADERS_TYPE)


def _present(*headers: Column) -> Column:
    """Those that are not null; quickly where all are there, for Spark does not compile array_compact."""
    every = F.array(*headers)
    are_there = reduce(operator.and_, (each.isNotNull() for each in headers))
    return F.when(are_there, every).otherwise(F.array_compact(every))


def _announced(columns: AbstractSet[str]) -> Column:
    """The kind that the record says; of bytes that were announced as something else and are not, still that."""
    kind = F.col("out_kind")
    said = F.when(kind.isin("text", "map", "stream", "object"), kind)
    if "kafka" not in columns:
        return said
    value, came_as = F.col("out_value"), F.col(CAME_AS)
    is_odd = F.when(came_as == "text", ~F.is_valid_utf8(value.cast("string"))).otherwise(
        F.when(came_as == "none", F.length(value) > 0).otherwise(~came_as.isin(*BODY_KINDS))
    )
    return F.when((kind == "bytes") & is_odd, came_as).otherwise(said)


def _codec() -> Column:
    """Of an object that goes on, the codec that wrote it; an object of the frame's own is JSON."""
    found = F.filter(F.col("kafka.headers"), lambda each: (each["key"] == CODEC_HEADER) & (F.length(each["value"]) > 0))
    return F.try_element_at(found, F.lit(-1))["value"]


def _are_texts(properties: DataType | None) -> bool:
    return isinstance(properties, MapType) and isinstance(properties.valueType, StringType)


def _is_same(properties: DataType | None) -> Column:
    """Whether the message has the very properties that it came with, in their order, and nothing that JMS cannot show:
    then all headers go on as they are. Else each is looked at, which takes much longer."""
    if not _are_texts(properties):
        return F.lit(False)
    others, now = F.col("out_others"), F.col("properties")
    have_names = F.map_keys(now) == plain_names(others)
    return F.coalesce(have_names & (F.map_values(now) == others["value"].cast("array<string>")), F.lit(False))


def _came(columns: AbstractSet[str]) -> Column:
    """The headers of the record that the message came with that are not ours, with the property that each shows as;
    null where the properties are the same."""
    if "kafka" not in columns:
        return F.lit(None)

    def known(found: Column) -> Column:
        # No name of a property has a dot.
        looks_typed = found["key"].startswith("jms.")
        typed = F.when(is_typed(found), F.substring_index(found["key"], ".", -1))
        is_null = found["value"].isNull() | found["key"].startswith("jms.null.")
        return F.struct(
            found.alias("header"),
            F.when(looks_typed, typed).otherwise(F.when(is_plain(found), found["key"])).alias("name"),
            F.when(~is_null, found["value"].cast("string")).alias("text"),
            looks_typed.alias("is_typed"),
        )

    return F.when(~F.col("out_is_same"), F.transform("out_others", known))


def _kept_names(columns: AbstractSet[str], properties: DataType | None) -> Column:
    """Of the properties that the message came with and still has: what the record says of them stays, all of it."""
    if "kafka" not in columns or not _are_texts(properties):
        return F.array().cast("array<string>")
    shown = F.filter("out_came", lambda each: each["name"].isNotNull())
    # As columns.py reads them: typed ones over plain ones, of several the last.
    in_turn = F.concat(F.filter(shown, lambda each: ~each["is_typed"]), F.filter(shown, lambda each: each["is_typed"]))
    came = F.map_from_entries(F.transform(in_turn, lambda each: F.struct(each["name"], each["text"])))

    def is_kept(name: Column, text: Column) -> Column:
        has_it = F.coalesce(F.map_contains_key(F.col("properties"), name), F.lit(False))
        return has_it & text.eqNullSafe(F.try_element_at(F.col("properties"), name))

    kept = F.coalesce(F.map_keys(F.map_filter(came, is_kept)), F.array().cast("array<string>"))
    return F.when(F.col("out_is_same"), F.map_keys(F.col("properties"))).otherwise(kept)


def _carried(columns: AbstractSet[str], properties: DataType | None) -> Column:
    """Of the record that the message came with: what JMS cannot show, and the properties that are still the same."""
    nothing = no_headers()
    if "kafka" not in columns:
        return nothing
    kept = F.filter("out_came", lambda each: each["name"].isNull() | F.array_contains("out_kept", each["name"]))
    some = F.coalesce(F.transform(kept, lambda each: each["header"]).cast(HEADERS_TYPE), nothing)
    return F.when(F.col("out_is_same"), F.col("out_others").cast(HEADERS_TYPE)).otherwise(some)


def _new_properties(columns: AbstractSet[str], properties: DataType | None) -> Column:
    nothing = no_headers()
    if isinstance(properties, StructType):
        return _fields(properties) if properties.fields else nothing
    if not isinstance(properties, MapType):
        return nothing
    entries = F.sort_array(F.map_entries(F.col("properties")))
    if "kafka" in columns:
        entries = F.filter(entries, lambda entry: ~F.array_contains("out_kept", entry["key"]))

    def written(entry: Column) -> Column:
        return _property(entry["key"], entry["value"], properties.valueType)

    new = F.coalesce(F.transform(entries, written).cast(HEADERS_TYPE), nothing)
    return F.when(~F.col("out_is_same"), new).otherwise(nothing) if "kafka" in columns else new


def _fields(properties: StructType) -> Column:
    """A field that is null is no property."""
    values = [(each.name, F.col("properties").getField(each.name), each.dataType) for each in properties.fields]
    headers = [F.when(value.isNotNull(), _property(F.lit(name), value, kind)) for name, value, kind in values]
    return _present(*headers)


def _property(name: Column, value: Column, kind: DataType) -> Column:
    typed, null = (F.concat(F.lit(f"jms.{each}."), name) for each in (PROPERTY_TYPES[type(kind)], "null"))
    text = F.coalesce(value.cast("string"), F.lit("")).cast("binary")
    return F.struct(F.when(value.isNull(), null).otherwise(typed).alias("key"), text.alias("value"))
