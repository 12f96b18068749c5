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
from jbm_kafka.codec.large_body import NAME_HEADER
from jbm_kafka.codec.scan import PRIORITY_DEFAULT
from jbm_spark.body_check import CAME_AS, kind_of_record, unreadable_body
from jbm_spark.columns import BODY_KINDS, is_plain, is_typed, last_header, other_headers, unit_name, worked_out_once
from jbm_spark.frame_check import PROPERTY_TYPES
from jbm_spark.java_calls import RECORD_HEADERS, called, has_class
from jbm_spark.plain_headers import ARE_PLAIN, KEYS, NAMES, TEXTS, not_ours, with_plain_headers
from jbm_spark.record_bytes import HEADER_BYTES, property_bytes_at_most, record_header_bytes
from jbm_spark.row_faults import is_of_kind_alone, name_fault, row_fault

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
_LOOKED = f"carried {HEADERS_TYPE}, added {HEADERS_TYPE}, fault string, came_as string, codec binary, bytes_most bigint"
"""The row that RecordHeaders.java gives."""
_GROUP_ID = "JMSXGroupID"


def outgoing_columns(
    frame: DataFrame, columns: AbstractSet[str], *, by_java: bool = True, looks: bool = True
) -> DataFrame:
    """The frame with `out_fault` (why the row is no message, or null), `out_key`, `out_value`, and its headers but the
    message id: `out_carried` go before it, `out_own` after it. `columns` are those of a message
    (`frame_check.checked_columns`). `by_java` where the session has our class, and there is a header to look at;
    `looks` is that of `unreadable_body`."""
    properties = frame.schema["properties"].dataType if "properties" in columns else None
    by_java = by_java and ("kafka" in columns or isinstance(properties, MapType)) and has_class(RECORD_HEADERS)
    # Step by step, or Spark would work the first ones out again for each place that uses them.
    step = _known_of_record(frame, columns, properties, by_java=by_java)
    step = step.withColumn("out_kind", _kind(columns)).withColumn("out_value", _value(columns))
    step = step.withColumn("out_announced", _announced(columns))
    if "kafka" in columns:
        codec = F.col("out_looked")["codec"] if by_java else _codec()
        step = step.withColumn("out_codec", F.when((F.col("out_kind") == "object") | _goes_on(), codec))
    step = step.withColumns(
        {"out_told": row_fault(columns), "out_key": _key(columns, properties), "out_ours": _own_headers(columns)}
    )
    if by_java:
        step = _finished_by_java(step, properties)
    else:
        step = step.withColumns({"out_same": _same(columns), **_looked_at(columns, properties)})
        # A step of its own, for Spark compiles none that has a lambda, however seldom it calls it.
        step = step.withColumn("out_looked", _looked(columns, properties))
        step = step.withColumns(
            {
                "out_carried": F.coalesce("out_same", F.col("out_looked")["carried"], no_headers()),
                "out_added": F.coalesce(F.col("out_looked")["added"], no_headers()),
                HEADER_BYTES: _header_bytes(columns, properties),
            }
        )
    step = step.withColumns(
        {
            "out_told": F.coalesce("out_told", F.col("out_looked")["fault"]),
            "out_own": F.concat("out_ours", "out_added"),
        }
    )
    told = F.col("out_told")
    unreadable = unreadable_body(F.col("out_kind"), F.col("out_value"), columns, looks=looks)
    # Twice, or Spark would carry all that it is made of through Python.
    return step.withColumn("out_fault", F.when(told.isNotNull(), told).otherwise(unreadable))


def _known_of_record(
    frame: DataFrame, columns: AbstractSet[str], properties: DataType | None, *, by_java: bool
) -> DataFrame:
    """The frame with what the headers of the record say that the row came from; by Java all that is made of them."""
    if by_java:
        step = frame.withColumn("out_looked", _looked_by_java(columns, properties))
        return step.withColumn(CAME_AS, F.col("out_looked")["came_as"]) if "kafka" in columns else step
    if "kafka" not in columns:
        return frame
    step = with_plain_headers(frame, F.col("kafka.headers"))
    return step.withColumns({CAME_AS: kind_of_record(F.col(KEYS)), "out_is_same": _is_same(properties)})


def _looked_by_java(columns: AbstractSet[str], properties: DataType | None) -> Column:
    texts, kind = F.lit(None).cast("map<string,string>"), "string"
    if isinstance(properties, MapType):
        texts, kind = F.col("properties").cast("map<string,string>"), PROPERTY_TYPES[type(properties.valueType)]
    came = F.col("kafka.headers") if "kafka" in columns else F.lit(None).cast(HEADERS_TYPE)
    arguments = [came, texts, F.lit(f"jms.{kind}."), F.lit(_are_texts(properties))]
    return called(RECORD_HEADERS, "encode", _LOOKED, arguments, takes_null=True)


def _finished_by_java(step: DataFrame, properties: DataType | None) -> DataFrame:
    looked = F.col("out_looked")
    added, size = looked["added"], looked["bytes_most"]
    if isinstance(properties, StructType):  # compiled, for its names are known before
        step = step.withColumn("out_properties", F.col("properties"))
        added, size = _added(properties, F.array().cast("array<string>")), size + property_bytes_at_most(properties)
    return step.withColumns({"out_carried": looked["carried"], "out_added": added, HEADER_BYTES: size})


def _header_bytes(columns: AbstractSet[str], properties: DataType | None) -> Column:
    size = F.lit(0) if properties is None else property_bytes_at_most(properties)
    return size + record_header_bytes() if "kafka" in columns else size


def header(name: str, value: Column, is_wanted: Column | None = None) -> Column:
    """The header alone in an array, which is empty where it is not wanted or has no value."""
    wanted = value.isNotNull() if is_wanted is None else is_wanted
    return F.when(wanted, F.array(_pair(name, value.cast("string").cast("binary")))).otherwise(no_headers())


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
    priority, mode = F.col("priority"), F.col("delivery_mode")
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
    codec = [header(CODEC_HEADER, F.col("out_codec"))] if "kafka" in columns else []
    given = [each for name, each in of_columns.items() if name in columns]
    return F.concat(header("JBMBody", F.col("out_announced")), *codec, *given)


def no_headers() -> Column:
    return F.array().cast(HEADERS_TYPE)


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
    return F.when(_goes_on(), came_as).otherwise(F.when((kind == "bytes") & is_odd, came_as).otherwise(said))


def _goes_on() -> Column:
    """The row has no body, and its record names one that is kept elsewhere, which the new record names, too."""
    named = F.array_contains(F.col("kafka.headers")["key"], F.lit(NAME_HEADER))
    return F.col("out_value").isNull() & F.coalesce(named, F.lit(False))


def _codec() -> Column:
    """Return the codec that wrote an object that goes on; an object of the frame's own is JSON."""
    found = F.col("kafka.headers")
    for nothing in (b"", None):
        found = F.array_remove(found, _pair(CODEC_HEADER, F.lit(nothing).cast("binary")))
    return last_header(found, CODEC_HEADER)


def _pair(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.alias("value"))


def _are_texts(properties: DataType | None) -> bool:
    return isinstance(properties, MapType) and isinstance(properties.valueType, StringType)


def _is_same(properties: DataType | None) -> Column:
    """Return whether the message has the very properties that it came with, in their order, and nothing that JMS cannot
    show: then all headers go on as they are. Else each is looked at, which takes much longer."""
    if not _are_texts(properties):
        return F.lit(False)
    now = F.col("properties")
    have_same = (F.map_keys(now) == F.col(NAMES)) & (F.map_values(now) == F.col(TEXTS))
    return F.coalesce(F.col(ARE_PLAIN) & have_same, F.lit(False))


def _same(columns: AbstractSet[str]) -> Column:
    """The headers of the record that the message came with that are not ours, where they go on as they are."""
    if "kafka" not in columns:
        return F.lit(None).cast(HEADERS_TYPE)
    return F.when(F.col("out_is_same"), not_ours(F.col("kafka.headers")))


def _looked_at(columns: AbstractSet[str], properties: DataType | None) -> dict[str, Column]:
    """Return what `_looked` takes; null where all headers go on as they are, so that it is not carried along."""
    is_needed = ~F.col("out_is_same") if "kafka" in columns else F.lit(True)
    found = {}
    if "kafka" in columns:
        found["out_came_headers"] = F.when(is_needed, F.col("kafka.headers"))
        found["out_is_changed"] = is_needed
    if properties is not None:
        found["out_properties"] = F.when(is_needed, F.col("properties"))
    return found


def _looked(columns: AbstractSet[str], properties: DataType | None) -> Column:
    """Return what a look at each header and property finds: those `carried` on, those `added`, and the `fault` of a
    name."""
    none_kept, no_fault = F.array().cast("array<string>"), F.lit(None).cast("string")

    def found(came: Column | None, kept: Column) -> Column:
        is_map = isinstance(properties, MapType)
        names = F.array_except(F.map_keys("out_properties"), kept) if is_map else None
        return F.struct(
            (no_headers() if came is None else _carried(came, kept)).alias("carried"),
            _added(properties, kept).alias("added"),
            (no_fault if names is None else name_fault(names)).alias("fault"),
        )

    if "kafka" not in columns:
        return found(None, none_kept)

    def of_kept(came: Column) -> Column:
        kept = _kept_names(came) if _are_texts(properties) else none_kept
        return worked_out_once(kept, lambda kept: found(came, kept))

    came = F.transform(other_headers(F.col("out_came_headers")), _known)
    some = F.coalesce(came, F.slice(F.array(_known(F.lit(None).cast(HEADERS_TYPE)[0])), 1, 0))
    return F.when(F.col("out_is_changed"), worked_out_once(some, of_kept))


def _known(found: Column) -> Column:
    """The header with the property that it shows as."""
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


def _kept_names(came: Column) -> Column:
    """Return the names of properties that the message came with and still has: what the record says of them stays, all
    of it."""
    now = F.col("out_properties")
    shown = F.filter(came, lambda each: each["name"].isNotNull())
    # As columns.py reads them: typed ones over plain ones, of several the last.
    in_turn = F.concat(F.filter(shown, lambda each: ~each["is_typed"]), F.filter(shown, lambda each: each["is_typed"]))
    texts = F.map_from_entries(F.transform(in_turn, lambda each: F.struct(each["name"], each["text"])))

    def is_kept(name: Column, text: Column) -> Column:
        has_it = F.coalesce(F.map_contains_key(now, name), F.lit(False))
        return has_it & text.eqNullSafe(F.try_element_at(now, name))

    return F.coalesce(F.map_keys(F.map_filter(texts, is_kept)), F.array().cast("array<string>"))


def _carried(came: Column, kept: Column) -> Column:
    """Return what the record that the message came with has beyond JMS, and its properties that are still the same."""
    going_on = F.filter(came, lambda each: each["name"].isNull() | F.array_contains(kept, each["name"]))
    return F.transform(going_on, lambda each: each["header"]).cast(HEADERS_TYPE)


def _added(properties: DataType | None, kept: Column) -> Column:
    if isinstance(properties, StructType):
        return _fields(properties) if properties.fields else no_headers()
    if not isinstance(properties, MapType):
        return no_headers()
    entries = F.sort_array(F.map_entries("out_properties"))
    new = F.filter(entries, lambda entry: ~F.array_contains(kept, entry["key"]))
    return F.transform(new, lambda entry: _property(entry["key"], entry["value"], properties.valueType)).cast(
        HEADERS_TYPE
    )


def _fields(properties: StructType) -> Column:
    """A field that is null is no property."""
    values = [(each.name, F.col("out_properties").getField(each.name), each.dataType) for each in properties.fields]
    every = F.array(*(_property(F.lit(name), value, kind) for name, value, kind in values))
    some = [
        F.when(value.isNotNull(), F.array(_property(F.lit(name), value, kind))).otherwise(no_headers())
        for name, value, kind in values
    ]
    are_there = reduce(operator.and_, (value.isNotNull() for _, value, _ in values))
    return F.when(are_there, every).otherwise(F.concat(*some))


def _property(name: Column, value: Column, kind: DataType) -> Column:
    typed, null = (F.concat(F.lit(f"jms.{each}."), name) for each in (PROPERTY_TYPES[type(kind)], "null"))
    text = F.coalesce(value.cast("string"), F.lit("")).cast("binary")
    return F.struct(F.when(value.isNull(), null).otherwise(typed).alias("key"), text.alias("value"))
