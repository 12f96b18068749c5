"""The type of Spark's that a JSON Schema describes. What has no type of its own is a string, the JSON's text."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from pyspark.sql.types import ArrayType, BooleanType, DataType, DoubleType, LongType, MapType, StringType, StructType

_PLAIN = {"boolean": BooleanType, "integer": LongType, "number": DoubleType, "string": StringType}


def struct_of(schema: str) -> StructType:
    """The struct of an object's properties.

    Raises:
        ValueError: it describes no object with properties.
    """
    parsed = json.loads(schema)
    found = _type(parsed, parsed, frozenset())
    if isinstance(found, StructType):
        return found
    raise ValueError("it is no JSON Schema of an object with properties")


def _type(schema: Any, whole: Any, behind: frozenset[str]) -> DataType:
    schema, behind = _resolved(schema, whole, behind)
    kind = schema.get("type")
    if isinstance(kind, list):
        named = [each for each in kind if each != "null"]
        kind = named[0] if len(named) == 1 else None
    if kind == "object" and isinstance(schema.get("properties"), Mapping):
        struct = StructType()
        for name, held in schema["properties"].items():
            struct.add(name, _type(held, whole, behind))
        return struct
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return MapType(StringType(), _type(schema["additionalProperties"], whole, behind))
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return ArrayType(_type(schema["items"], whole, behind))
    return _PLAIN.get(kind, StringType)() if isinstance(kind, str) else StringType()


def _resolved(schema: Any, whole: Any, behind: frozenset[str]) -> tuple[Mapping[str, Any], frozenset[str]]:
    """The schema that is meant, beside a null or `behind` references within the document; one that is within itself has
    no type."""
    while isinstance(schema, Mapping):
        place = schema.get("$ref")
        several = schema.get("oneOf") or schema.get("anyOf")
        if isinstance(place, str) and place.startswith("#/"):
            if place in behind:
                break
            behind, schema = behind | {place}, whole
            for part in place[2:].split("/"):
                name = unquote(part).replace("~1", "/").replace("~0", "~")
                schema = schema.get(name) if isinstance(schema, Mapping) else None
        elif isinstance(several, list) and len(meant := [each for each in several if each != {"type": "null"}]) == 1:
            schema = meant[0]
        else:
            return schema, behind
    return {}, behind
