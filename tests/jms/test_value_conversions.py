"""Of MSG-1: a property, map entry or stream value of one type is read as others as the JMS tables have it, and only so.

The tables are written out from the specification (Jakarta Messaging 3.1, 3.5.4 and 3.11.3), not taken from the code.
"""

from collections.abc import Callable
from typing import Any

import pytest

from jbm_kafka import MapMessage, StreamMessage, TextMessage, errors

TYPES = ("boolean", "byte", "short", "char", "int", "long", "float", "double", "string", "bytes")
#            read as: boolean byte short char int long float double string bytes
TABLE = {
    "boolean": "x . . . . . . . x .",
    "byte":    ". x x . x x . . x .",
    "short":   ". . x . x x . . x .",
    "char":    ". . . x . . . . x .",
    "int":     ". . . . x x . . x .",
    "long":    ". . . . . x . . x .",
    "float":   ". . . . . . x x x .",
    "double":  ". . . . . . . x x .",
    "string":  "x x x . x x x x x .",
    "bytes":   ". . . . . . . . . x",
}  # fmt: skip
SET: dict[str, Any] = {
    "boolean": True, "byte": 7, "short": 7, "char": "c", "int": 7, "long": 7, "float": 0.5, "double": 0.5,
    "string": "7", "bytes": b"7",
}  # fmt: skip
READ: dict[tuple[str, str], Any] = {
    ("boolean", "string"): "true", ("float", "string"): "0.5", ("double", "string"): "0.5", ("char", "string"): "c",
    ("string", "boolean"): False, ("string", "float"): 7.0, ("string", "double"): 7.0, ("string", "string"): "7",
    **{(kind, "string"): "7" for kind in ("byte", "short", "int", "long")},
    **{("string", kind): 7 for kind in ("byte", "short", "int", "long")},
}  # fmt: skip
CELLS = [(was, read, cell == "x") for was, row in TABLE.items() for read, cell in zip(TYPES, row.split(), strict=True)]


def from_property(was: str, value: Any, read: str) -> Any:
    message = TextMessage()
    getattr(message, f"set_{was}_property")("p", value)
    return getattr(message, f"get_{read}_property")("p")


def from_map(was: str, value: Any, read: str) -> Any:
    message = MapMessage()
    getattr(message, f"set_{was}")("n", value)
    return getattr(message, f"get_{read}")("n")


def from_stream(was: str, value: Any, read: str) -> Any:
    message = StreamMessage()
    getattr(message, f"write_{was}")(value)
    message.reset()
    try:
        return getattr(message, f"read_{read}")()
    except errors.MessageFormatError:
        assert message.read_object() == value, "a value that could not be read so is not the next one any more"
        raise


ALL = pytest.mark.parametrize("through", [from_map, from_stream, from_property])
NOT_OF_PROPERTIES = {"char", "bytes"}


@ALL
@pytest.mark.parametrize(("was", "read", "may"), CELLS, ids=str)
def test_the_table_of_the_specification(through: Callable[..., Any], was: str, read: str, may: bool) -> None:
    if through is from_property and {was, read} & NOT_OF_PROPERTIES:
        return
    if may:
        got = through(was, SET[was], read)
        assert got == READ.get((was, read), SET[was])
        assert type(got) is type(READ.get((was, read), SET[was]))
        return
    with pytest.raises(errors.MessageFormatError, match=f"is of type {was} and cannot be read as {read}; it can as"):
        through(was, SET[was], read)


@ALL
@pytest.mark.parametrize(
    ("text", "read"),
    [
        *[
            ("x", "int"),
            ("", "long"),
            ("1.5", "short"),
            ("128", "byte"),
            ("x", "double"),
            ("1_0", "int"),
            (" 1", "int"),
        ],
        *[("1 ", "byte"), ("1,5", "float")],
    ],
)
def test_a_text_that_is_no_such_number_is_a_value_error(through: Callable[..., Any], text: str, read: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be read as {read}") as caught:
        through("string", text, read)
    assert isinstance(caught.value, errors.MessageFormatError)


@ALL
@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), ("yes", False), ("", False)])
def test_only_the_word_true_reads_as_true(through: Callable[..., Any], text: str, value: bool) -> None:
    assert through("string", text, "boolean") is value


@ALL
@pytest.mark.parametrize(("read", "value"), [("string", None), ("bytes", None), ("boolean", False)])
def test_a_null_is_read_as_text_bytes_and_boolean(through: Callable[..., Any], read: str, value: object) -> None:
    if through is not from_property or read not in NOT_OF_PROPERTIES:
        assert through("object", None, read) is value


@ALL
@pytest.mark.parametrize("read", ["byte", "short", "int", "long", "float", "double", "char"])
def test_a_null_is_no_number_and_no_character(through: Callable[..., Any], read: str) -> None:
    if through is not from_property or read not in NOT_OF_PROPERTIES:
        with pytest.raises(ValueError, match=f"is null, (and|which) cannot be read as {read}"):
            through("object", None, read)


def test_an_entry_that_is_missing_reads_as_a_null_does() -> None:
    message = MapMessage()
    assert message.get_object("n") is None
    assert message.get_string("n") is None
    assert message.get_bytes("n") is None
    assert message.get_boolean("n") is False
    with pytest.raises(ValueError, match="map entry 'n' is not set"):
        message.get_int("n")


def test_a_property_that_is_not_set_reads_as_a_null_does() -> None:
    message = TextMessage()
    assert not message.property_exists("p")
    assert message.get_string_property("p") is None
    assert message.get_object_property("p") is None
    assert message.get_boolean_property("p") is False
    with pytest.raises(ValueError, match="property p is not set, and cannot be read as int"):
        message.get_int_property("p")
    message.set_string_property("p", None)
    assert message.property_exists("p")


@ALL
@pytest.mark.parametrize(
    ("was", "value", "rule"),
    [
        ("byte", 128, "from -128 to 127"),
        ("short", -32769, "from -32768 to 32767"),
        ("int", 2**31, "from -2147483648 to 2147483647"),
        ("long", 2**63, "it is an int from"),
        ("int", True, "it is an int from"),
        ("boolean", 1, "it is True or False"),
        ("char", "ab", "one character"),
        ("char", "\U0001f600", "one character"),
        ("float", "1", "it is a number"),
        ("double", 10**400, "too large for a double"),
        ("float", 1e39, "too large for a float; use a double"),
        ("string", b"x", "it is a str, or None"),
        ("bytes", "x", "it is bytes, or None"),
        ("object", [1], "send nested ones in an ObjectMessage|put other values into the body"),
        ("object", 2**63, "does not fit 64 bits"),
    ],
)
def test_what_is_not_of_the_type_is_refused_with_the_rule(
    through: Callable[..., Any], was: str, value: object, rule: str
) -> None:
    if through is not from_property or was not in NOT_OF_PROPERTIES:
        with pytest.raises(errors.MessageFormatError, match=rule):
            through(was, value, "string")


@ALL
def test_a_float_is_rounded_as_java_rounds_it(through: Callable[..., Any]) -> None:
    assert through("float", 0.1, "float") == 0.10000000149011612
    assert through("float", 0.1, "string") == "0.1"
    assert through("float", 0.1, "double") == 0.10000000149011612
    assert through("object", 2**40, "long") == 2**40
    assert through("float", float("inf"), "double") == float("inf")
