"""The typed reading that map and stream messages share: a value as the type that is asked for, under one name for each
type."""

from jbm_kafka.codec.typed_values import TypedValue, Value, ValueType
from jbm_kafka.jms.messages.value_conversions import converted_value


def as_boolean(what: str, held: TypedValue | None) -> bool:
    """The value as a bool."""
    return bool(converted_value(what, held, "boolean"))


def as_integer(what: str, held: TypedValue | None, wanted: ValueType) -> int:
    """The value as an int of the type's bits."""
    value = converted_value(what, held, wanted)
    assert isinstance(value, int), value
    return value


def as_float(what: str, held: TypedValue | None, wanted: ValueType) -> float:
    """The value as a float."""
    value = converted_value(what, held, wanted)
    assert isinstance(value, float), value
    return value


def as_text(what: str, held: TypedValue | None) -> str | None:
    """The value as a str; None of a null."""
    value = converted_value(what, held, "string")
    assert value is None or isinstance(value, str), value
    return value


def as_char(what: str, held: TypedValue | None) -> str:
    """The value as a str of one character."""
    value = converted_value(what, held, "char")
    assert isinstance(value, str), value
    return value


def as_bytes(what: str, held: TypedValue | None) -> bytes | None:
    """The value as bytes; None of a null."""
    value = converted_value(what, held, "bytes")
    assert value is None or isinstance(value, bytes), value
    return value


def as_it_is(held: TypedValue | None) -> Value:
    """The value as it was set; None of one that is missing."""
    return None if held is None else held.value
