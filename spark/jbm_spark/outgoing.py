"""Message columns to Kafka records: what `jbm_kafka.codec` writes, as Spark expressions, with no Python worker.

The way back of columns.py. A value that no message can have ends the batch, before any of its records is written, with
one line that names column and value. What `messages` gave keeps all that a message keeps when it is sent on: the bytes
of its key, the types of its properties and the headers that JMS cannot show; column `kafka` knows them.
"""

from collections.abc import Set as AbstractSet

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, MapType, StringType, StructType

from jbm_kafka.codec.bodies import CODEC_HEADER
from jbm_kafka.codec.headers import OWN_HEADERS, REPLY_TO_HEADER
from jbm_kafka.codec.scan import MESSAGE_ID_HEADER, PRIORITY_DEFAULT
from jbm_kafka.jms.message_properties import TOLD_BY_PROVIDER
from jbm_spark.body_check import checked_body, names_its_kind
from jbm_spark.columns import BODY_KINDS, is_plain, is_property_name, is_typed, property_name, unit_name
from jbm_spark.frame_check import PROPERTY_TYPES

HEADERS_TYPE = "array<struct<key:string,value:binary>>"
_GROUP_ID = "JMSXGroupID"
_DESTINATION = (
    r"^(queue|topic):(?!jbm[.])(?![.]{1,2}$)(?!.*[.]jbm-changelog$)[A-Za-z0-9._-]{1,200}$"
    r"|^temporary-(queue|topic):.+$"
)
_NO_NAME = (
    "properties: %s is no name of a property: use letters, digits, '_' and '$', no digit first, no word of the "
    "selector language, and no 'JMS' in front"
)
_NO_TEXT = "body_kind is '%s', and the row has a text: give its bytes as body_bytes, or leave body_kind out for a text"


def outgoing_columns(frame: DataFrame, columns: AbstractSet[str]) -> DataFrame:
    """The frame with `out_key`, `out_value`, and its headers but the message id: `out_carried` go before it, `out_own`
    after it. `columns` are those of a message (`frame_check.checked_columns`)."""
    properties = frame.schema["properties"].dataType if "properties" in columns else None
    # Step by step, or Spark would work the first ones out again for each place that uses them.
    step = frame.withColumns({"out_kind": _kind(columns), "out_carried": _carried(columns, properties)})
    return step.withColumns(
        {
            "out_key": _key(columns, properties),
            "out_value": checked_body(F.col("out_kind"), _value(columns), columns),
            "out_own": F.concat(_own_headers(columns), _new_properties(columns, properties)),
        }
    )


def header(name: str, value: Column, is_wanted: Column | None = None) -> Column:
    """The header, or null where it is not wanted or has no value."""
    wanted = value.isNotNull() if is_wanted is None else is_wanted
    return F.when(wanted, F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value")))


def message_id_header(message_id: Column) -> Column:
    """An array of one."""
    return F.array(header(MESSAGE_ID_HEADER, message_id)).cast(HEADERS_TYPE)


def refused_unless(is_good: Column, value: Column, refusal: str) -> Column:
    """The value; null stays null. A bad one ends the batch with the text, where %s is the value."""
    before, _, after = refusal.partition("%s")
    text = F.concat(F.lit(f"{before}'"), value.cast("string"), F.lit(f"'{after}")) if after else F.lit(before)
    return F.when(value.isNull() | is_good, value).otherwise(F.raise_error(text))


def _text(columns: AbstractSet[str], name: str) -> Column:
    return F.col(name) if name in columns else F.lit(None).cast("string")


def _key(columns: AbstractSet[str], properties: DataType | None) -> Column:
    """The unit's name; the very bytes of the key that the message came with, where the unit is still that."""
    unit = _text(columns, "unit_of_order")
    if properties is not None and (group := _group_id(properties)) is not None:
        unit = F.coalesce(unit, F.nullif(group, F.lit("")))
    key = refused_unless(unit != "", unit, "unit_of_order is '': a unit has a name; null means no unit").cast("binary")
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
    said = _text(columns, "body_kind")
    kind = refused_unless(said.isin(*BODY_KINDS), said, f"body_kind is %s: it is one of {', '.join(BODY_KINDS)}")
    if "body_bytes" in columns:
        of_bytes = F.when(F.col("body_bytes").isNull(), F.lit("none")).otherwise(F.lit("bytes"))
        kind = F.coalesce(kind, of_bytes)
    else:
        kind = F.when(kind == "none", kind).otherwise(F.lit("text"))
    has_bytes = F.col("body_bytes").isNotNull() if "body_bytes" in columns else F.lit(False)
    is_alone = names_its_kind(columns) & ~has_bytes
    is_refused = is_alone & said.isin("map", "stream")
    of_text = (
        F.when(said.isNotNull() & ~said.isin(*BODY_KINDS), kind)
        .when(is_refused, F.raise_error(F.format_string(_NO_TEXT, said)))
        .when(is_alone & (said == "object"), said)
        .otherwise(F.lit("text"))
    )
    return F.when(_text(columns, "body_text").isNotNull(), of_text).otherwise(kind)


def _value(columns: AbstractSet[str]) -> Column:
    content = F.col("body_bytes") if "body_bytes" in columns else F.lit(None).cast("binary")
    text = _text(columns, "body_text").cast("binary")
    other = F.when(F.col("out_kind") != "none", F.coalesce(content, text, F.lit("").cast("binary")))
    return F.when(F.col("out_kind") == "text", F.coalesce(text, content)).otherwise(other)


def _own_headers(columns: AbstractSet[str]) -> Column:
    """In the codec's order."""
    kind, mode = F.col("out_kind"), _text(columns, "delivery_mode")
    priority = F.col("priority") if "priority" in columns else F.lit(None).cast("int")
    good_mode = refused_unless(
        mode.isin("PERSISTENT", "NON_PERSISTENT"), mode, "delivery_mode is %s: it is PERSISTENT or NON_PERSISTENT"
    )
    good_priority = refused_unless(priority.between(0, 9), priority, "priority is %s: it is an int from 0 to 9")
    headers = F.array(
        header("JBMBody", kind, kind.isin("text", "map", "stream", "object")),
        header(CODEC_HEADER, F.when(kind == "object", _codec(columns))),
        header("JMSCorrelationID", _text(columns, "correlation_id")),
        header("JMSType", _text(columns, "type")),
        header(REPLY_TO_HEADER, _reply_to(columns)),
        header("JMSDeliveryMode", mode, good_mode == "NON_PERSISTENT"),
        header("JMSPriority", priority, good_priority != PRIORITY_DEFAULT),
        header("JMSExpiration", _instant(columns, "expiration")),
        header("JMSDeliveryTime", _instant(columns, "delivery_time")),
        header("JBMDuplicateID", _text(columns, "duplicate_id")),
    )
    return F.array_compact(headers).cast(HEADERS_TYPE)


def _codec(columns: AbstractSet[str]) -> Column:
    """Of an object that goes on, the codec that wrote it; an object of the frame's own is JSON."""
    if "kafka" not in columns:
        return F.lit(None).cast("string")
    found = F.filter(F.col("kafka.headers"), lambda each: (each["key"] == CODEC_HEADER) & (F.length(each["value"]) > 0))
    return F.try_element_at(found, F.lit(-1))["value"]


def _reply_to(columns: AbstractSet[str]) -> Column:
    """Also in a form that only somebody else can read, if the message came so."""
    given = _text(columns, "reply_to")
    is_good = given.rlike(_DESTINATION)
    if "kafka" in columns:
        same = F.exists(
            F.col("kafka.headers"),
            lambda found: (found["key"] == REPLY_TO_HEADER) & found["value"].cast("string").eqNullSafe(given),
        )
        is_good = is_good | F.coalesce(same, F.lit(False))
    return refused_unless(is_good, given, "reply_to is %s: write queue:<name> or topic:<name>")


def _instant(columns: AbstractSet[str], name: str) -> Column:
    if name not in columns:
        return F.lit(None).cast("bigint")
    instant = F.unix_millis(F.col(name))
    return refused_unless(instant > 0, instant, f"{name} is %s ms from 1970 on: it is later, or null for none")


def _are_texts(properties: DataType | None) -> bool:
    return isinstance(properties, MapType) and isinstance(properties.valueType, StringType)


def _carried(columns: AbstractSet[str], properties: DataType | None) -> Column:
    """Of the record that the message came with: what JMS cannot show, and the properties that are still the same."""
    nothing = F.array().cast(HEADERS_TYPE)
    if "kafka" not in columns:
        return nothing
    foreign = F.filter(F.col("kafka.headers"), lambda found: ~found["key"].isin(*sorted(OWN_HEADERS)))

    def is_kept(found: Column) -> Column:
        return ~_shows(found) | _is_same(found) if _are_texts(properties) else ~_shows(found)

    return F.coalesce(F.filter(foreign, is_kept).cast(HEADERS_TYPE), nothing)


def _shows(found: Column) -> Column:
    return is_plain(found) | is_typed(found)


def _is_same(found: Column) -> Column:
    """Whether the property that the header shows as is what `properties` has."""
    name = property_name(found)
    is_null = found["value"].isNull() | found["key"].startswith("jms.null.")
    text = F.when(~is_null, found["value"].cast("string"))
    has_it = F.coalesce(F.map_contains_key(F.col("properties"), name), F.lit(False))
    return has_it & text.eqNullSafe(F.try_element_at(F.col("properties"), name))


def _new_properties(columns: AbstractSet[str], properties: DataType | None) -> Column:
    nothing = F.array().cast(HEADERS_TYPE)
    if isinstance(properties, StructType):
        return _fields(properties) if properties.fields else nothing
    if not isinstance(properties, MapType):
        return nothing
    entries = F.array_sort(F.map_entries(F.col("properties")))
    if "kafka" in columns:
        is_carried = F.transform(F.filter(F.col("out_carried"), _shows), property_name)
        entries = F.filter(entries, lambda entry: ~F.array_contains(is_carried, entry["key"]))

    def written(entry: Column) -> Column:
        given = refused_unless(
            ~entry["key"].isin(*TOLD_BY_PROVIDER), entry["key"], "property %s is read-only: leave it out"
        )
        name = refused_unless(is_property_name(given), given, _NO_NAME)
        return _property(name, entry["value"], properties.valueType)

    return F.coalesce(F.transform(entries, written).cast(HEADERS_TYPE), nothing)


def _fields(properties: StructType) -> Column:
    """A field that is null is no property."""
    values = [(each.name, F.col("properties").getField(each.name), each.dataType) for each in properties.fields]
    headers = [F.when(value.isNotNull(), _property(F.lit(name), value, kind)) for name, value, kind in values]
    return F.array_compact(F.array(*headers)).cast(HEADERS_TYPE)


def _property(name: Column, value: Column, kind: DataType) -> Column:
    typed, null = (F.concat(F.lit(f"jms.{each}."), name) for each in (PROPERTY_TYPES[type(kind)], "null"))
    text = F.coalesce(value.cast("string"), F.lit("")).cast("binary")
    return F.struct(F.when(value.isNull(), null).otherwise(typed).alias("key"), text.alias("value"))
