"""A message property: its JMS type, its value, and its text in a record header.

The text of a number is decimal, of a float the shortest that reads back as the same float; so a property written
here reads the same in Java and in Spark SQL, and the other way round.
"""

import math
import re
from collections.abc import Callable, Mapping
from struct import pack, unpack
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from jbm_kafka.core.jms_errors import MessageFormatError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.selectors.tokens import KEYWORDS
from jbm_kafka.core.wrong_values import shown, shown_name

PropertyType = Literal["string", "boolean", "byte", "short", "int", "long", "float", "double", "null"]
PropertyValue = str | bool | int | float | None

HEADER_PREFIX = "jms."
PROPERTY_TYPES = frozenset(get_args(PropertyType))
INTEGER_BITS: Mapping[str, int] = MappingProxyType({"byte": 8, "short": 16, "int": 32, "long": 64})

_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|Infinity)|NaN")


class Property(NamedTuple):
    """A property's type and its value; the value fits the type."""

    type: PropertyType
    value: PropertyValue


NULL = Property("null", None)


def integer_fits(value: int, bits: int) -> bool:
    """Return True if the value is a signed integer of that many bits."""
    return -(1 << bits - 1) <= value < 1 << bits - 1


def nearest_float32(value: float) -> float:
    """The value as a Java `float` holds it, infinite beyond its range."""
    try:
        nearest: float = unpack("<f", pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return nearest


def float_of(what: str, value: float, **error_values: object) -> float:
    """The value as a Java `float` holds it; the error carries `error_values`.

    Raises:
        MessageFormatError: it is finite, and beyond the range of one.
    """
    nearest = nearest_float32(value)
    if math.isinf(nearest) and not math.isinf(value):
        raise MessageFormatError(
            f"{what} is {shown(value)}: it is too large for a float; use a double", value=value, **error_values
        )
    return nearest


def double_of(what: str, value: float, **error_values: object) -> float:
    """The value as a double; the error carries `error_values`.

    Raises:
        MessageFormatError: it is an int that is too large for one.
    """
    try:
        return float(value)
    except OverflowError:
        raise MessageFormatError(
            f"{what} is {shown(value)}: it is too large for a double", value=value, **error_values
        ) from None


def is_legal_name(name: str) -> bool:
    """Return True if a property may have this name: a Java identifier that no selector would take for a word of its
    own.

    `JMSX...` and `JMS_...` are for properties that JMS and its providers define; any other `JMS...` is a header.
    """
    if not name.replace("$", "_").isidentifier() or name.upper() in KEYWORDS:
        return False
    return not name.startswith("JMS") or name.startswith(("JMSX", "JMS_"))


def property_of(name: object, value: object) -> Property:
    """The property of this name that a Python value becomes: int by its size, float as double.

    Raises:
        MessageFormatError: no property type holds the value.
    """
    # bool first: it is an int to Python.
    if isinstance(value, bool):
        return Property("boolean", value)
    if isinstance(value, str):
        return Property("string", plain_text(value))
    if isinstance(value, int):
        if integer_fits(value, 32):
            return Property("int", int(value))
        if integer_fits(value, 64):
            return Property("long", int(value))
        raise MessageFormatError(
            f"property {shown_name(name)} is {shown(value)}: it does not fit 64 bits; send it as a str",
            property=name,
            value=value,
        )
    if isinstance(value, float):
        return Property("double", float(value))
    if value is None:
        return NULL
    raise MessageFormatError(
        f"property {shown_name(name)} is {shown(value)}: it is a str, bool, int, float or None; put other values "
        "into the body",
        property=name,
        value=value,
    )


def property_text(held: Property) -> str:
    """The text of the value in a header; empty for a null."""
    kind, value = held
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _float_text(value, single=kind == "float")
    return "" if value is None else str(value)


def _float_text(value: float, *, single: bool) -> str:
    if math.isfinite(value):
        return _shortest_float32(value) if single else repr(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _shortest_float32(value: float) -> str:
    # Nine digits always bring a 32-bit float back. The digits found are written as a double's are: 5.0, not 5.
    candidates = (float(f"{value:.{digits}g}") for digits in range(1, 9))
    return repr(next((short for short in candidates if nearest_float32(short) == value), float(f"{value:.9g}")))


def parse_boolean(text: str) -> bool:
    """Raises ValueError unless the text is `true` or `false`."""
    if text not in ("true", "false"):
        raise ValueError(f"{shown(text)} is not true or false")
    return text == "true"


def parse_integer(text: str, bits: int) -> int:
    """Raises ValueError unless the text is a signed decimal integer of that many bits."""
    if _INTEGER.fullmatch(text) is None:
        raise ValueError(f"{shown(text)} is not a decimal integer")
    # Python refuses to convert texts of thousands of digits.
    if len(text) > 40 or not integer_fits(value := int(text), bits):
        raise ValueError(f"{shown(text)} does not fit {bits} bits")
    return value


def parse_float(text: str) -> float:
    """Raises ValueError unless the text is a decimal number, `NaN` or an `Infinity`."""
    if _FLOAT.fullmatch(text) is None:
        raise ValueError(f"{shown(text)} is not a number")
    return float(text)


_PARSERS: Mapping[str, Callable[[str], PropertyValue]] = MappingProxyType(
    {
        "string": str,
        "boolean": parse_boolean,
        "byte": lambda text: parse_integer(text, 8),
        "short": lambda text: parse_integer(text, 16),
        "int": lambda text: parse_integer(text, 32),
        "long": lambda text: parse_integer(text, 64),
        "float": lambda text: nearest_float32(parse_float(text)),
        "double": parse_float,
        "null": lambda _: None,
    }
)


def parse_property(kind: PropertyType, text: str) -> Property:
    """The property of a header `jms.<kind>.<name>` with this text.

    Raises:
        ValueError: the text is no value of the type; the message says why.
    """
    return Property(kind, _PARSERS[kind](text))


def property_header(name: str, held: Property) -> tuple[str, bytes]:
    """The record header that carries the property."""
    kind, value = held
    text = value if isinstance(value, str) else property_text(held)
    return f"jms.{kind}.{name}", text.encode()
