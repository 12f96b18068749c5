"""Codecs of object bodies: what JSON carries unchanged, what it refuses, and what an application registers."""

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.codec.bodies import BodyShape, ObjectBody, decode_body, encode_body
from jbm_kafka.codec.object_codecs import decode_object, encode_object, register_object_codec
from jbm_kafka.codec.scan import Header
from jbm_kafka.errors import InvalidSettingError, InvalidTypeError, MessageFormatError

texts = st.text(st.characters(exclude_categories=["Cs"]))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=20,
)


@given(value=json_values)
def test_a_value_of_json_reads_back_as_it_was_sent(value: Any) -> None:
    """Of MSG-1: of object bodies."""
    kind, data = encode_body(BodyShape.OBJECT, ObjectBody("json", encode_object("json", value)))
    shape, body, fault = decode_body([("JBMBody", kind)], data)
    assert (shape, fault) == (BodyShape.OBJECT, None)
    assert isinstance(body, ObjectBody)
    assert body.data is not None
    again = decode_object(body.codec, body.data)
    assert again == value
    assert type(again) is type(value)


def test_json_is_short_and_in_utf_8() -> None:
    assert encode_object("json", {"name": "Zoë", "qty": [1, 2.5, None, True]}) == (
        '{"name":"Zoë","qty":[1,2.5,null,true]}'.encode()
    )


def test_json_from_outside_with_a_number_that_python_does_not_read_says_so() -> None:
    """It was advice to change Python."""
    _, _, fault = decode_body([("JBMBody", b"object")], b"[" + b"9" * 5_000 + b"]")
    assert fault is not None
    assert fault.endswith("cannot be read as JSON: a number has more than 4,300 digits")


def endless() -> list[object]:
    inner: list[object] = []
    inner.append(inner)
    return inner


def deep() -> object:
    value: object = None
    for _ in range(200_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: {1: "a"}, "1 is the name of a value"),
        (lambda: {"a": [{True: 1}]}, "True is the name of a value"),
        (lambda: {(1, 2): "a"}, "keys must be str"),
        (lambda: {"a": b"x"}, "Object of type bytes is not JSON serializable"),
        (lambda: object, "Object of type type is not JSON serializable"),
        (lambda: [float("nan")], "not JSON compliant"),
        (lambda: "\ud800", r"'\\ud800' at position 2 has no UTF-8 form: a wrong decoding"),
        (endless, "Circular reference"),
        (deep, "it is nested too deeply"),
        (lambda: 10**5000, "a number has more than 4,300 digits"),
    ],
)
def test_what_json_does_not_have_is_refused_with_the_remedy(make: Callable[[], object], reason: str) -> None:
    with pytest.raises(MessageFormatError, match=reason) as caught:
        encode_object("json", make())
    assert "register a codec: jbm_kafka.register_object_codec('NAME', encode=…, decode=…)" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_object_whose_codec_is_not_registered_stays_an_object_with_the_reason() -> None:
    """MSG-2: its bytes are there, and what is missing is told."""
    headers: list[Header] = [("JBMBody", b"object"), ("JBMCodec", b"nobody's")]
    shape, body, fault = decode_body(headers, b"\x00")
    assert (shape, body) == (BodyShape.OBJECT, ObjectBody("nobody's", b"\x00"))
    assert str(fault) == (
        'the object was written by codec "nobody\'s", which is not registered in this process: call '
        'jbm_kafka.register_object_codec("nobody\'s", encode=…, decode=…) before receiving'
    )


def test_the_last_codec_header_that_has_a_value_counts() -> None:
    headers: list[Header] = [("JBMBody", b"object"), ("JBMCodec", b"\xff"), ("JBMCodec", b""), ("JBMCodec", None)]
    assert decode_body(headers, b"1")[1] == ObjectBody(r"\xff", b"1")
    assert decode_body([*headers, ("JBMCodec", b"json")], b"1")[1] == ObjectBody("json", b"1")


def test_another_application_s_codec_of_the_same_name_replaced_the_first_in_silence() -> None:
    register_object_codec("taken", encode=json.dumps, decode=json.loads)  # type: ignore[arg-type]
    register_object_codec("taken", encode=json.dumps, decode=json.loads)  # type: ignore[arg-type]
    with pytest.raises(InvalidSettingError, match=r"^decode is .*: the codec 'taken' has <function loads "):
        register_object_codec("taken", encode=json.dumps, decode=bytes.decode)  # type: ignore[arg-type]
    bound = functools.partial(str, encoding="utf-8")
    with pytest.raises(InvalidSettingError, match=r"^encode is functools\.partial"):
        register_object_codec("taken", encode=bound, decode=json.loads)  # type: ignore[arg-type]


def test_functions_of_a_module_that_was_loaded_again_replace_their_former_ones() -> None:
    """A notebook runs its cells again."""
    register_object_codec("later", encode=lambda value: b"1", decode=lambda data: 1)
    register_object_codec("later", encode=lambda value: b"2", decode=lambda data: 2)
    assert (encode_object("later", None), decode_object("later", b"")) == (b"2", 2)


@pytest.mark.parametrize("name", ["", "a b", "-a", "ä", "a" * 101, "json"])
def test_a_name_that_no_codec_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidSettingError, match=r"^name is '"):
        register_object_codec(name, encode=json.dumps, decode=json.loads)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "encode", "decode", "says"),
    [
        (5, bytes, bytes, "name is 5: it is up to 100 letters"),
        ("x", None, bytes, "encode is None: it is a function"),
        ("x", bytes, "y", "decode is 'y': it is a function"),
    ],
)
def test_a_registration_of_a_wrong_type_is_refused(name: Any, encode: Any, decode: Any, says: str) -> None:
    with pytest.raises(InvalidTypeError, match=says):
        register_object_codec(name, encode=encode, decode=decode)


def test_what_an_application_s_codec_raises_or_makes_is_told_with_its_name() -> None:
    def fail(_: object) -> Any:
        raise KeyError("colour")

    register_object_codec("failing", encode=fail, decode=fail)
    register_object_codec("textual", encode=lambda value: "x", decode=fail)  # type: ignore[arg-type, return-value]
    with pytest.raises(MessageFormatError, match="codec 'failing' cannot encode it: KeyError: 'colour'") as caught:
        encode_object("failing", 5)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(MessageFormatError, match="cannot decode it here: KeyError: 'colour'"):
        decode_object("failing", b"")
    with pytest.raises(MessageFormatError, match="codec 'textual' made 'x' of it, and not bytes"):
        encode_object("textual", 5)
