"""Bodies: text, bytes, nothing; and whatever else, as bytes with the reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.codec.bodies import BodyShape, decode_body, encode_body
from jbm_kafka.codec.scan import Header
from jbm_kafka.errors import MessageFormatError

TEXT, BYTES, NONE = BodyShape.TEXT, BodyShape.BYTES, BodyShape.NONE
bodies = st.one_of(
    st.tuples(st.just(TEXT), st.none() | st.text(st.characters(exclude_categories=["Cs"]))),
    st.tuples(st.just(BYTES), st.binary()),
    st.just((NONE, None)),
)


@given(body=bodies)
def test_a_body_reads_back_as_it_was_sent(body: tuple[BodyShape, str | bytes | None]) -> None:
    """Of MSG-1."""
    kind, value = encode_body(*body)
    headers: list[Header] = [] if kind is None else [("JBMBody", kind)]
    assert decode_body(headers, value) == (*body, None)


@pytest.mark.parametrize(
    ("headers", "value", "shape", "body"),
    [
        (None, b"x", BYTES, b"x"),
        ([], None, NONE, None),
        ([("JBMBody", b"bytes")], b"", BYTES, b""),
        ([("JBMBody", b"bytes")], None, NONE, None),
        ([("JBMBody", b"none")], None, NONE, None),
        ([("JBMBody", b"none")], b"", NONE, None),
        ([("JBMBody", None)], b"x", BYTES, b"x"),
        ([("JBMBody", b"text")], None, TEXT, None),
        ([("JBMBody", b"text"), ("JBMBody", b"bytes")], b"x", BYTES, b"x"),
    ],
)
def test_the_last_body_header_says_what_a_value_is(
    headers: list[Header] | None, value: bytes | None, shape: BodyShape, body: str | bytes | None
) -> None:
    assert decode_body(headers, value) == (shape, body, None)


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (b"text", b"\xff", "announced as text, but is not UTF-8"),
        (b"map", b"\xc3\x01", "announced as a map, but cannot be read: MapBody: 2 bytes that do not start as"),
        (b"map", b"\xc3\x01abcdefgh", "announced as a map, but cannot be read: MapBody: no known schema"),
        (b"stream", b"x", "announced as a stream, but cannot be read: StreamBody: 1 bytes"),
        (b"object", b"x", "announced as an object, but cannot be read as JSON: Expecting value"),
        (b"object", b'"\xff"', "cannot be read as JSON: 'utf-8' codec can't decode"),
        (b"object", b"", "cannot be read as JSON: Expecting value"),
        (b"object", b"[" * 200_000, "cannot be read as JSON: it is nested too deeply"),
        (b"video", b"x", "body kind 'video' is not known"),
        (b"\xffx", b"x", r"body kind '\\xffx' is not known"),
        (b"none", b"x", "no body is announced, but there is one"),
    ],
)
def test_what_cannot_be_read_as_announced_is_bytes_with_the_reason(kind: bytes, value: bytes, reason: str) -> None:
    """MSG-2: never dropped, never fatal."""
    shape, body, fault = decode_body([("JBMBody", kind)], value)
    assert (shape, body) == (BYTES, value)
    assert reason in str(fault)


def test_a_text_without_utf_8_form_is_refused() -> None:
    with pytest.raises(MessageFormatError, match="or send bytes"):
        encode_body(TEXT, "\ud800")
