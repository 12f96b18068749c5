"""Map and stream bodies: what is written is what is read, version 1's bytes stay readable, and damage is told."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.codec.bodies import BodyShape, ObjectBody, decode_body, encode_body
from jbm_kafka.codec.property_header import nearest_float32
from jbm_kafka.codec.schemas import codec
from jbm_kafka.codec.typed_values import CHUNK, TypedValue, encode_map, encode_stream
from jbm_kafka.errors import MessageFormatError

GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden/bodies.json").read_text(encoding="utf-8")
)["cases"]
texts = st.text(st.characters(exclude_categories=["Cs"]))


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


typed_values = st.one_of(
    st.builds(TypedValue, st.just("boolean"), st.booleans()),
    st.builds(TypedValue, st.just("byte"), integers(8)),
    st.builds(TypedValue, st.just("short"), integers(16)),
    st.builds(TypedValue, st.just("char"), st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])),
    st.builds(TypedValue, st.just("int"), integers(32)),
    st.builds(TypedValue, st.just("long"), integers(64)),
    st.builds(TypedValue, st.just("float"), st.floats(width=32, allow_nan=False)),
    st.builds(TypedValue, st.just("double"), st.floats(allow_nan=False)),
    st.builds(TypedValue, st.just("string"), texts),
    st.builds(TypedValue, st.just("bytes"), st.binary()),
    st.just(TypedValue("null", None)),
)


def read_back(kind: BodyShape, body: Any) -> Any:
    name, value = encode_body(kind, body)
    shape, again, fault = decode_body([("JBMBody", name)], value)
    assert (shape, fault) == (kind, None)
    return again


@given(entries=st.dictionaries(texts, typed_values))
def test_a_map_reads_back_as_it_was_sent_with_its_types_and_in_order(entries: dict[str, TypedValue]) -> None:
    """Of MSG-1: of map bodies."""
    again = read_back(BodyShape.MAP, entries)
    assert list(again.items()) == list(entries.items())
    assert [type(held.value) for held in again.values()] == [type(held.value) for held in entries.values()]


@given(values=st.lists(typed_values).map(tuple))
def test_a_stream_reads_back_as_it_was_sent_with_its_types(values: tuple[TypedValue, ...]) -> None:
    """Of MSG-1: of stream bodies."""
    again = read_back(BodyShape.STREAM, values)
    assert again == values
    assert [type(held.value) for held in again] == [type(held.value) for held in values]


def test_no_number_stays_no_number() -> None:
    (again,) = read_back(BodyShape.STREAM, (TypedValue("double", math.nan),))
    assert math.isnan(again.value)


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["about"])
def test_bytes_of_version_1_are_the_values_that_the_golden_file_says(case: dict[str, Any]) -> None:
    """Of MSG-1: and whatever wrote them, in any language."""
    shape, body, fault = decode_body([("JBMBody", case["kind"].encode())], bytes.fromhex(case["value"]))
    assert (shape.value, fault) == (case["kind"], None)
    assert isinstance(body, dict | tuple)
    assert not isinstance(body, ObjectBody)
    held = [[name, *value] for name, value in body.items()] if isinstance(body, dict) else [list(v) for v in body]
    shown = [[{"hex": part.hex()} if isinstance(part, bytes) else part for part in each] for each in held]
    assert shown == case["means"]
    assert encode_body(shape, body)[1] == bytes.fromhex(case["value"])


@given(
    value=st.binary(max_size=40)
    | st.binary(max_size=30).map(lambda tail: bytes.fromhex(GOLDEN[0]["value"][:20]) + tail)
)
def test_whatever_is_announced_as_a_map_is_a_map_or_bytes_with_the_reason(value: bytes) -> None:
    """MSG-2: never fatal."""
    shape, body, fault = decode_body([("JBMBody", b"map")], value)
    assert (shape is BodyShape.MAP) == (fault is None)
    assert shape is BodyShape.MAP or (shape, body) == (BodyShape.BYTES, value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("byte", 128), ("int", None), ("int", 1.5), ("boolean", 1), ("char", "ab"), ("string", b"x"), ("uuid", "x")],
)
def test_a_value_that_is_not_of_its_type_makes_the_body_bytes_with_the_reason(kind: str, value: object) -> None:
    """MSG-2: of what another program wrote."""
    data = codec("StreamBody").encode({"entries": [{"type": kind, "value": value}]})
    shape, body, fault = decode_body([("JBMBody", b"stream")], data)
    assert (shape, body) == (BodyShape.BYTES, data)
    assert f"value 0 of type '{kind}'" in str(fault)


def test_a_float_is_read_as_java_holds_it() -> None:
    data = codec("StreamBody").encode({"entries": [{"type": "float", "value": 0.1}]})
    _, body, _ = decode_body([("JBMBody", b"stream")], data)
    assert body == (TypedValue("float", nearest_float32(0.1)),)


def test_a_text_without_utf_8_form_in_a_map_is_refused() -> None:
    with pytest.raises(MessageFormatError, match=r"no UTF-8 form: .* or send bytes"):
        encode_body(BodyShape.MAP, {"a": TypedValue("string", "\ud800")})


@pytest.mark.parametrize("count", [CHUNK, CHUNK + 1, 5 * CHUNK])
def test_many_entries_are_encoded_in_portions_to_the_same_bytes(count: int) -> None:
    """Of AMQP-10: at once they would let no other thread run for seconds."""
    held = [TypedValue("int", number) for number in range(count)]
    rows = [{"type": "int", "value": number} for number in range(count)]
    assert encode_stream(held) == codec("StreamBody").encode({"entries": rows})
    names = [f"k{number}" for number in range(count)]
    mapped = dict(zip(names, rows, strict=True))
    assert encode_map(dict(zip(names, held, strict=True))) == codec("MapBody").encode({"entries": mapped})
