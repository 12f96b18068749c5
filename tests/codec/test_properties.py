"""Properties keep type and value on their way through the text of a header."""

import math
from struct import pack, unpack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.codec.property_header import (
    INTEGER_BITS,
    Property,
    PropertyType,
    is_legal_name,
    nearest_float32,
    parse_property,
    property_of,
    property_text,
)
from jbm_kafka.errors import MessageFormatError


def integers(kind: PropertyType) -> st.SearchStrategy[Property]:
    half = 1 << INTEGER_BITS[kind] - 1
    return st.integers(-half, half - 1).map(lambda value: Property(kind, value))


texts = st.text(st.characters(exclude_categories=["Cs"]))
properties: st.SearchStrategy[Property] = st.one_of(
    integers("byte"),
    integers("short"),
    integers("int"),
    integers("long"),
    texts.map(lambda value: Property("string", value)),
    st.booleans().map(lambda value: Property("boolean", value)),
    st.floats(width=32).map(lambda value: Property("float", value)),
    st.floats().map(lambda value: Property("double", value)),
)


@given(held=properties)
def test_a_property_reads_back_with_its_type_and_value(held: Property) -> None:
    """Of MSG-1: all property types go through unchanged."""
    again = parse_property(held.type, property_text(held))
    assert again.type == held.type
    assert again.value == held.value or (again.value != again.value and held.value != held.value)


@pytest.mark.parametrize(
    ("held", "text"),
    [
        (Property("boolean", True), "true"),
        (Property("boolean", False), "false"),
        (Property("long", -(2**63)), "-9223372036854775808"),
        (Property("float", nearest_float32(0.1)), "0.1"),
        (Property("float", 16777216.0), "16777216.0"),
        (Property("float", nearest_float32(3.4028234e38)), "3.4028235e+38"),
        (Property("double", 0.1), "0.1"),
        (Property("double", 1e300), "1e+300"),
        (Property("double", math.nan), "NaN"),
        (Property("float", -math.inf), "-Infinity"),
        (Property("double", math.inf), "Infinity"),
        (Property("null", None), ""),
    ],
)
def test_the_text_of_a_value_is_what_java_and_spark_read(held: Property, text: str) -> None:
    """Of MSG-1."""
    assert property_text(held) == text


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("byte", "128", "does not fit 8 bits"),
        ("byte", "-129", "does not fit 8 bits"),
        ("short", "32768", "does not fit 16 bits"),
        ("int", "2147483648", "does not fit 32 bits"),
        ("long", "9223372036854775808", "does not fit 64 bits"),
        ("long", "9" * 5000, "does not fit 64 bits"),
        ("int", "", "not a decimal integer"),
        ("int", "1_000", "not a decimal integer"),
        ("int", " 1", "not a decimal integer"),
        ("int", "1.0", "not a decimal integer"),
        ("int", "²", "not a decimal integer"),
        ("double", "1_0.0", "not a number"),
        ("double", "inf", "not a number"),
        ("double", "-NaN", "not a number"),
        ("float", ".", "not a number"),
        ("float", "1e", "not a number"),
        ("boolean", "True", "not true or false"),
        ("boolean", "1", "not true or false"),
    ],
)
def test_a_text_that_is_no_value_of_its_type_is_refused(kind: PropertyType, text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_property(kind, text)


@pytest.mark.parametrize(("text", "value"), [("+5", 5), ("-0", 0), ("007", 7)])
def test_signs_and_leading_zeros_are_understood(text: str, value: int) -> None:
    assert parse_property("int", text) == Property("int", value)


@pytest.mark.parametrize(
    ("text", "value"), [("1.", 1.0), (".5", 0.5), ("1E5", 1e5), ("+Infinity", math.inf), ("1e999", math.inf)]
)
def test_other_spellings_of_numbers_are_understood(text: str, value: float) -> None:
    assert parse_property("double", text).value == value


@given(value=st.floats(allow_nan=False))
def test_a_float_is_the_nearest_one_of_32_bits(value: float) -> None:
    nearest = nearest_float32(value)
    assert unpack("<f", pack("<f", nearest))[0] == nearest
    if abs(value) < 3e38:
        assert nearest == unpack("<f", pack("<f", value))[0]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, Property("boolean", True)),
        (2**31 - 1, Property("int", 2**31 - 1)),
        (2**31, Property("long", 2**31)),
        (-(2**63), Property("long", -(2**63))),
        (1.0, Property("double", 1.0)),
        ("", Property("string", "")),
        (None, Property("null", None)),
    ],
)
def test_a_python_value_gets_the_type_that_holds_it(value: object, expected: Property) -> None:
    """Of MSG-1: bool before int, int by its size, float as double."""
    assert property_of("p", value) == expected


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, [1], b"x", {"a": 1}, 1j])
def test_a_value_no_property_holds_is_refused(value: Any) -> None:
    """Of MSG-1: beyond 64 bits, or of no property type."""
    with pytest.raises(MessageFormatError):
        property_of("p", value)


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("region", True),
        ("_JBM_X", True),
        ("$a", True),
        ("größe", True),
        ("a1", True),
        ("JMSXGroupID", True),
        ("JMS_BEA_UnitOfOrder", True),
        ("jmsType", True),
        ("", False),
        ("1a", False),
        ("content-type", False),
        ("a.b", False),
        ("a b", False),
        ("JMSType", False),
        ("Between", False),
        ("null", False),
    ],
)
def test_a_property_name_is_an_identifier_that_no_selector_takes_for_a_word(name: str, legal: bool) -> None:
    assert is_legal_name(name) is legal
