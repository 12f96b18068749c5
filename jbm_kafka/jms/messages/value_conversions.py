"""The conversion table of JMS for the values of map and stream messages: what was set as one type is read as others.

It is the table of properties with two more types: a char, read also as text, and bytes, read as bytes only.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from jbm_kafka.codec.property_header import (
    INTEGER_BITS,
    Property,
    PropertyType,
    double_of,
    float_of,
    integer_fits,
    parse_property,
    property_text,
)
from jbm_kafka.codec.typed_values import NULL_VALUE, TypedValue, Value, ValueType, is_char
from jbm_kafka.core.jms_errors import MessageFormatError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.jms.messages.message_properties import READABLE_AS as PROPERTY_READABLE_AS

READABLE_AS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        **{kind: frozenset[str](others) for kind, others in PROPERTY_READABLE_AS.items()},
        "char": frozenset({"char", "string"}),
        "bytes": frozenset({"bytes"}),
    }
)
"""The types that a value may be read as, by the type it was set as."""

MAP_ENTRY = "map entry "
"""Before its name, where errors name it."""

_RULES: Mapping[str, str] = MappingProxyType(
    {
        "string": "it is a str, or None",
        "boolean": "it is True or False",
        "char": "it is a str of one character up to U+FFFF",
        "float": "it is a number",
        "double": "it is a number",
        "bytes": "it is bytes, or None",
    }
)


def converted_value(what: str, held: TypedValue | None, wanted: ValueType) -> Value:
    """The value read as the wanted type; what is missing reads as null does. `what` names it in errors.

    Raises:
        MessageFormatError: the table does not have it, or the text is not such a number (a ValueError too).
    """
    if held is None or held.value is None:
        if wanted in ("string", "bytes", "boolean"):
            return False if wanted == "boolean" else None
        if held is not None:
            raise MessageFormatError(f"{what} is null, and cannot be read as {wanted}")
        first = f"ask item_exists({what.removeprefix(MAP_ENTRY)}) first"  # a stream has no entry after its last
        raise MessageFormatError(f"{what} is not set, and cannot be read as {wanted}; {first}")
    kind, value = held
    if wanted not in READABLE_AS[kind]:
        others = ", ".join(sorted(READABLE_AS[kind]))
        raise MessageFormatError(f"{what} is of type {kind} and cannot be read as {wanted}; it can as {others}")
    if wanted in (kind, "char", "bytes"):
        return value
    if wanted == "string":
        return _text(held)
    if not isinstance(value, str):
        return value
    if wanted == "boolean":
        return value.lower() == "true"
    try:
        return parse_property(_number_type(wanted), value).value
    except ValueError as fault:
        raise MessageFormatError(f"{what} cannot be read as {wanted}: {fault}") from None


def checked_value(what: str, kind: ValueType, value: object, **error_values: object) -> TypedValue:
    """The value with its type, when it is one of the type; an error carries `error_values` beside `value`.

    Raises:
        MessageFormatError: it is not.
    """
    if value is None and kind in ("string", "bytes"):
        return NULL_VALUE
    if kind == "string" and isinstance(value, str):
        return TypedValue(kind, plain_text(value))
    if kind == "bytes" and isinstance(value, bytes | bytearray | memoryview):
        return TypedValue(kind, bytes(value))
    if kind == "boolean" and isinstance(value, bool):
        return TypedValue(kind, value)
    if kind == "char" and isinstance(value, str) and is_char(value):
        return TypedValue(kind, plain_text(value))
    if kind in INTEGER_BITS and isinstance(value, int) and not isinstance(value, bool):
        if integer_fits(value, INTEGER_BITS[kind]):
            return TypedValue(kind, int(value))
    elif kind in ("float", "double") and isinstance(value, int | float) and not isinstance(value, bool):
        number = double_of(what, value, **error_values)
        return TypedValue(kind, float_of(what, number, **error_values) if kind == "float" else number)
    raise MessageFormatError(
        f"{what} is {shown(value)}: {_RULES.get(kind) or _integer_rule(kind)}", value=value, **error_values
    )


def value_of(what: str, value: object, **error_values: object) -> TypedValue:
    """The value with the type that a Python value has by itself: int by its size, float as double; an error as above.

    Raises:
        MessageFormatError: no type holds it.
    """
    # bool first: it is an int to Python.
    if isinstance(value, bool):
        return TypedValue("boolean", value)
    if isinstance(value, str):
        return TypedValue("string", plain_text(value))
    if isinstance(value, int) and integer_fits(value, 64):
        return TypedValue("int" if integer_fits(value, 32) else "long", int(value))
    if isinstance(value, float):
        return TypedValue("double", float(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return TypedValue("bytes", bytes(value))
    if value is None:
        return NULL_VALUE
    if isinstance(value, int):
        text = f"{what} is {shown(value)}: it does not fit 64 bits; send it as a str"
        raise MessageFormatError(text, value=value, **error_values)
    raise MessageFormatError(
        f"{what} is {shown(value)}: it is a str, bool, int, float, bytes or None; send nested ones in an ObjectMessage",
        value=value,
        **error_values,
    )


def _text(held: TypedValue) -> str:
    kind, value = held
    if isinstance(value, str):
        return value
    assert not isinstance(value, bytes), value
    return property_text(Property("float" if kind == "float" else "double", value))


def _number_type(kind: ValueType) -> PropertyType:
    assert kind in PROPERTY_READABLE_AS, kind
    return cast(PropertyType, kind)


def _integer_rule(kind: str) -> str:
    most = (1 << INTEGER_BITS[kind] - 1) - 1
    return f"it is an int from {-most - 1} to {most}"
