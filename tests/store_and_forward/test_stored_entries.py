"""What a stored send is on the disk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.codec.stored_sends import StoredEntry, StoredSend, decode_entry, encode_entry
from jbm_kafka.core.jms_errors import CorruptRecordError, NewerRecordError

MAYBE_BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(st.characters(codec="utf-8"), max_size=9), MAYBE_BYTES), max_size=4)
TIMES = st.integers(0, 2**62)
SENDS = st.builds(
    StoredSend,
    st.sampled_from(["queue:orders", "topic:prices"]),
    st.integers(0, 2**31 - 1),
    MAYBE_BYTES,
    MAYBE_BYTES,
    HEADERS.map(tuple),
    st.none() | TIMES,
)
ENTRIES = st.builds(
    StoredEntry, TIMES, st.lists(SENDS, max_size=3), st.text(st.characters(codec="utf-8")), TIMES, st.integers(0, 9)
)


@given(ENTRIES)
def test_it_is_read_as_it_was_written(entry: StoredEntry) -> None:
    assert decode_entry(encode_entry(entry)) == entry


@given(ENTRIES, st.data())
def test_a_part_of_it_is_told_from_all_of_it(entry: StoredEntry, data: st.DataObject) -> None:
    whole = encode_entry(entry)
    for part in (whole[: data.draw(st.integers(0, len(whole) - 1))], whole + b"\0"):
        with pytest.raises(CorruptRecordError):
            decode_entry(part)


def test_a_newer_version_is_no_damage() -> None:
    whole = encode_entry(StoredEntry(1, []))
    with pytest.raises(NewerRecordError, match="version 2, and this program knows 1"):
        decode_entry(b"\2" + whole[1:])


def test_the_first_version_stays_readable() -> None:
    """The bytes that version 1 wrote."""
    sent = StoredSend("queue:q", 7, b"u", b"hi", (("JMSType", b"t"), ("n", None)), 1_000)
    written = bytes.fromhex(
        "0100000000000003e800000000000000000000000000000000000000010007000000070000000000"
        "0003e800000001000000020000000271756575653a717568690007000000014a4d5354797065740001ffffffff6e"
    )
    assert encode_entry(StoredEntry(1_000, [sent])) == written
    assert decode_entry(written) == StoredEntry(1_000, [sent])
