"""What the registry says of readers without a group."""

from __future__ import annotations

import pytest

from jbm_kafka.codec.reader_record import RegisteredReader, decode_reader, encode_reader, reader_key, readers_in
from jbm_kafka.core.jms_errors import CorruptRecordError

ARCHIVE = RegisteredReader("spark", "archive|of orders", "orders", "t1", {0: 5, 11: 2**40}, at_ms=7, lease_until_ms=9)
BY_THE_FIRST_VERSION = bytes.fromhex("c3013e082d05fe4dba690c6f72646572730474310402300a043131808080808040000e12")
"""ARCHIVE; never written anew."""


def test_a_reader_is_read_as_it_was_written() -> None:
    key = reader_key("spark", "archive|of orders")
    assert key == b"reader|spark|archive|of orders"
    assert decode_reader(key, encode_reader(ARCHIVE)) == ARCHIVE
    assert decode_reader(key, BY_THE_FIRST_VERSION) == ARCHIVE


def test_a_reader_that_cannot_be_read_is_listed_as_such() -> None:
    """Who deletes must not take it for no reader."""
    key = reader_key("spark", "a newer one")
    assert [*readers_in({key: b"\xc3\x01 newer", b"pause|orders": b""})] == [(key, None)]
    with pytest.raises(CorruptRecordError):
        decode_reader(key, b"no Avro")


def test_a_reader_counts_until_its_lease_ends() -> None:
    assert ARCHIVE.counts(8)
    assert not ARCHIVE.counts(9)
