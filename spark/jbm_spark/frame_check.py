"""Checks that a frame's columns are those of messages to write. Looks at the schema only: nothing is computed."""

import sys
import warnings
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from jbm_kafka.codec.identity import GROUP_ID
from jbm_kafka.core.jms_errors import MessageFormatError
from jbm_kafka.jms.messages.message_properties import checked_property_name
from jbm_spark.errors import ColumnsIgnoredWarning, FrameRefusedError

TEXT_COLUMNS = (
    "body_text", "body_kind", "unit_of_order", "message_id", "correlation_id", "type", "reply_to", "duplicate_id",
    "delivery_mode",
)  # fmt: skip
INSTANT_COLUMNS = ("expiration", "delivery_time")
WHOLE_NUMBERS = (ByteType, ShortType, IntegerType, LongType)
NOT_WRITTEN = ("timestamp",)
"""`messages` gives it, and every send sets it anew."""

WRITTEN = (*TEXT_COLUMNS, *INSTANT_COLUMNS, "body_bytes", "priority", "properties", "kafka")

PROPERTY_TYPES: Mapping[type[DataType], str] = {
    StringType: "string", BooleanType: "boolean", ByteType: "byte", ShortType: "short", IntegerType: "int",
    LongType: "long", FloatType: "float", DoubleType: "double",
}  # fmt: skip
"""Spark's type -> the property's."""

_OURS = ("jbm_spark", "jbm_kafka")

_KAFKA_FIELDS = {"topic": StringType, "partition": IntegerType, "offset": LongType, "key": BinaryType}


def checked_columns(frame: DataFrame, order_by: Sequence[str] = ()) -> frozenset[str]:
    """As `checked_fields`, of a frame."""
    return checked_fields(frame.schema, order_by)


def checked_fields(schema: StructType, order_by: Sequence[str] = ()) -> frozenset[str]:
    """The columns that are written; a warning names the others.

    Raises:
        FrameRefusedError: no body, a column of a wrong type or twice, a column to sort by that is not there.
    """
    fields = {field.name: field.dataType for field in schema.fields}
    _check_once([field.name for field in schema.fields], order_by)
    if not {"body_text", "body_bytes"} & fields.keys():
        raise FrameRefusedError(
            f"the frame has no body among its columns ({', '.join(fields) or 'none'}): name the column with the body "
            "`body_text` (a string) or `body_bytes` (binary)"
        )
    for name in order_by:
        if name not in fields:
            raise FrameRefusedError(f"order_by: the frame has no column {name!r}; it has {', '.join(fields)}")
    for name, held in fields.items():
        fault = _fault(name, held)
        if fault is not None:
            raise FrameRefusedError(f"column {name} is {held.simpleString()}: {fault}")
    ignored = sorted(fields.keys() - {*WRITTEN, *NOT_WRITTEN, *order_by})
    if ignored:
        warnings.warn(
            f"not written, for no message has such a column: {', '.join(ignored)}; what receivers shall see goes into "
            f"the body or into `properties`. Columns of a message are {', '.join(WRITTEN)}",
            ColumnsIgnoredWarning,
            stacklevel=_level_of_caller(),
        )
    return frozenset(fields.keys() & {*WRITTEN})


def _check_once(names: Sequence[str], order_by: Sequence[str]) -> None:
    """Spark takes names in any case, and finds none of two that are the same."""
    for name in (*WRITTEN, *order_by):
        alike = [each for each in names if each.lower() == name.lower()]
        if len(alike) > 1:
            raise FrameRefusedError(
                f"the frame has {len(alike)} columns {', '.join(alike)}: rename or drop all of them but one"
            )


def _level_of_caller() -> int:
    """Return the level of a warning, for it to point to the line that called us: wrappers lie between, by the way of
    the call."""
    level, frame = 0, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        level, frame = level + 1, frame.f_back
    return level


def _fault(name: str, held: DataType) -> str | None:
    """Why the column cannot have this type, with the remedy."""
    if name in TEXT_COLUMNS:
        return None if isinstance(held, StringType) else f"it must be a string; {_remedy(name, 'string')}"
    if name in INSTANT_COLUMNS:
        # Without a zone nobody knows which instant it is.
        return None if isinstance(held, TimestampType) else f"it must be a timestamp; {_remedy(name, 'timestamp')}"
    if name == "body_bytes":
        return None if isinstance(held, BinaryType) else f"it must be binary; {_remedy(name, 'binary')}"
    if name == "priority":
        return None if isinstance(held, WHOLE_NUMBERS) else f"it must be an int, 0 to 9; {_remedy(name, 'int')}"
    if name == "properties":
        return _properties_fault(held)
    return _kafka_fault(held) if name == "kafka" else None


def _remedy(name: str, wanted: str) -> str:
    return f'write F.col("{name}").cast("{wanted}").alias("{name}")'


def _properties_fault(held: DataType) -> str | None:
    names = ", ".join(kind().simpleString() for kind in PROPERTY_TYPES)
    if isinstance(held, MapType):
        if not isinstance(held.keyType, StringType):
            return "the names of properties are strings"
        is_known = type(held.valueType) in PROPERTY_TYPES
        return None if is_known else f"a property is one of {names}; cast the values, or put them into the body"
    if not isinstance(held, StructType):
        return "it must be a map of strings, or a struct with a field for each property"
    for field in held.fields:
        if type(field.dataType) not in PROPERTY_TYPES:
            return f"its field {field.name} must be one of {names}; cast it, or put it into the body"
        try:
            checked_property_name(field.name)
        except MessageFormatError as error:
            return f"its field {field.name}: {error}"
        if field.name == GROUP_ID and not isinstance(field.dataType, StringType):
            return f"its field {GROUP_ID} must be a string, the unit of order; cast it"
    return None


def _kafka_fault(held: DataType) -> str | None:
    fields = {field.name: type(field.dataType) for field in held.fields} if isinstance(held, StructType) else {}
    if _KAFKA_FIELDS.items() <= fields.items() and "headers" in fields:
        return None
    if {"topic", "partition", "offset"} <= fields.keys():
        return (
            "the records' key and headers are not known any more, after Spark Connect, a file, an aggregation, a union "
            "or a view: read them with raw=True, or drop the column to write new messages"
        )
    return "it must be what messages() and message_stream() give; rename your own"
