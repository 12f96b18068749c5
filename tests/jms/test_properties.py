"""Reading properties as other types than they were set as: the table of the Jakarta Messaging specification, 3.5.4.

SPEC is that table, copied by hand: a property set as the row may be read as the columns, and as nothing else.
"""

from itertools import product
from typing import Any

import pytest

from jbm_kafka.errors import MessageFormatError
from jbm_kafka.jms.message import TextMessage

TYPES = ["boolean", "byte", "short", "int", "long", "float", "double", "string"]
SPEC: dict[str, str] = {
    "boolean": "boolean string",
    "byte": "byte short int long string",
    "short": "short int long string",
    "int": "int long string",
    "long": "long string",
    "float": "float double string",
    "double": "double string",
    "string": "boolean byte short int long float double string",
}
SAMPLES: dict[str, Any] = {
    "boolean": True,
    "byte": 7,
    "short": 7,
    "int": 7,
    "long": 7,
    "float": 0.5,
    "double": 0.5,
    "string": "7",
}
READ: dict[tuple[str, str], Any] = {
    ("boolean", "string"): "true",
    ("float", "string"): "0.5",
    ("double", "string"): "0.5",
    ("string", "string"): "7",
    ("string", "boolean"): False,
    ("string", "float"): 7.0,
    ("string", "double"): 7.0,
}


def message_with(kind: str, value: Any) -> TextMessage:
    message = TextMessage()
    getattr(message, f"set_{kind}_property")("p", value)
    return message


@pytest.mark.parametrize(("written", "wanted"), list(product(TYPES, TYPES)))
def test_a_property_reads_as_the_table_allows_and_as_nothing_else(written: str, wanted: str) -> None:
    """Of MSG-1: with the conversions of the specification."""
    message = message_with(written, SAMPLES[written])
    read = getattr(message, f"get_{wanted}_property")
    if wanted not in SPEC[written].split():
        with pytest.raises(MessageFormatError, match=f"is of type {written} and cannot be read as {wanted}"):
            read("p")
        return
    number_as_text = "7" if wanted == "string" else 7
    expected = READ.get((written, wanted), SAMPLES[written] if written == wanted else number_as_text)
    if written == "float" and wanted == "double":
        expected = 0.5
    assert read("p") == expected
    assert type(read("p")) is type(expected)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), ("yes", False), ("", False)])
def test_only_the_word_true_reads_as_true(text: str, value: bool) -> None:
    assert message_with("string", text).get_boolean_property("p") is value


@pytest.mark.parametrize("kind", ["byte", "short", "int", "long", "float", "double"])
@pytest.mark.parametrize("text", ["", "x", "1 ", "1,5"])
def test_a_string_that_is_no_number_is_a_value_error(kind: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"property p cannot be read as {kind}"):
        getattr(message_with("string", text), f"get_{kind}_property")("p")


@pytest.mark.parametrize("is_set", [False, True])
def test_a_property_not_set_reads_as_null_does(is_set: bool) -> None:
    message = message_with("string", None) if is_set else TextMessage()
    assert message.property_exists("p") is is_set
    assert message.get_string_property("p") is None
    assert message.get_object_property("p") is None
    assert message.get_boolean_property("p") is False
    for kind in ("byte", "short", "int", "long", "float", "double"):
        with pytest.raises(ValueError, match=r"property p (is not set, and|is null, which) cannot be read as"):
            getattr(message, f"get_{kind}_property")("p")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", 1),
        ("byte", 128),
        ("byte", True),
        ("short", -32_769),
        ("int", 2**31),
        ("long", 2**63),
        ("int", 1.0),
        ("float", "1"),
        ("double", False),
        ("string", 5),
        ("object", [1]),
    ],
)
def test_a_value_of_another_type_or_size_is_refused(kind: str, value: Any) -> None:
    with pytest.raises(MessageFormatError):
        message_with(kind, value)


def test_a_float_is_kept_as_32_bits() -> None:
    message = message_with("float", 0.1)
    assert message.get_double_property("p") == 0.10000000149011612
    assert message.get_string_property("p") == "0.1"
    assert message_with("double", 3).get_object_property("p") == 3.0


def test_an_object_property_gets_the_type_of_its_value() -> None:
    message = message_with("object", 2**40)
    assert message.get_long_property("p") == 2**40
    with pytest.raises(MessageFormatError, match="is of type long and cannot be read as int"):
        message.get_int_property("p")
