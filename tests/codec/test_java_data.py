"""Values as `java.io.DataOutput` writes them; tests/golden/java_data.json was written by Java itself."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.codec.java_data import decode_fixed, decode_utf, encode_fixed, encode_utf
from jbm_kafka.errors import MessageFormatError


@given(text=st.text(max_size=300))
def test_a_text_reads_back_as_it_was_written(text: str) -> None:
    """Of MSG-1: also one with halves of surrogate pairs, which Java has and UTF-8 does not."""
    data = encode_utf(text)
    assert int.from_bytes(data[:2], "big") == len(data) - 2
    assert b"\0" not in data[2:]
    assert decode_utf(data[2:]) == text


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", ""),
        ("a", "61"),
        ("\0", "c080"),
        ("ß", "c39f"),
        ("注", "e6b3a8"),
        ("\U0001f600", "eda0bdedb880"),
        ("\ud83d", "eda0bd"),
    ],
)
def test_a_text_is_in_modified_utf_8(text: str, data: str) -> None:
    assert encode_utf(text)[2:].hex() == data
    assert decode_utf(bytes.fromhex(data)) == text


@pytest.mark.parametrize(("data", "text"), [("00", "\0"), ("c1a1", "a"), ("e081a1", "a"), ("edb880", "\ude00")])
def test_what_java_reads_of_other_writers_is_read(data: str, text: str) -> None:
    assert decode_utf(bytes.fromhex(data)) == text


@pytest.mark.parametrize("data", ["80", "c3", "c341", "e6b3", "e6b341", "f09f9880", "ff"])
def test_what_java_refuses_is_refused_with_its_place(data: str) -> None:
    with pytest.raises(ValueError, match="byte 1 of the text is 0x"):
        decode_utf(b"a" + bytes.fromhex(data))


def test_a_text_may_have_65535_bytes_and_no_more() -> None:
    assert len(encode_utf("ß" * 32_767 + "a")) == 65_537
    with pytest.raises(MessageFormatError, match=r"32768 characters and needs 65536 bytes: write_utf takes 65535"):
        encode_utf("ß" * 32_768)


def test_a_float_beyond_its_range_is_infinite_as_in_java() -> None:
    assert decode_fixed("float", encode_fixed("float", 1e300), 0) == math.inf
    assert decode_fixed("float", encode_fixed("float", 0.1), 0) == 0.10000000149011612
