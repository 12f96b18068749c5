"""Sizes of records: to the byte, at most, and compressed. What brokers say to them: tests/jms/test_refused_sends.py."""

import random

import pytest

from jbm_kafka.codec.record_size import batch_bytes, batch_bytes_at_most, compressed_bytes_max
from jbm_kafka.ports import Headers

RECORDS: list[tuple[bytes | None, bytes | None, Headers]] = [
    (None, None, ()),
    (b"", b"", ()),
    (b"k" * 64, b"v" * 8_192, [("JMSType", b"t"), ("jms.null.n", None)]),
    (None, b"v" * 1_048_576, [("jms.string.größe", b"x" * 300)] * 200),
    (None, b"", [("\U0001f600" * 100, b"")]),
]


@pytest.mark.parametrize(("key", "value", "headers"), RECORDS)
def test_the_quick_size_is_never_below_the_true_one(key: bytes | None, value: bytes | None, headers: Headers) -> None:
    assert batch_bytes(key, value, headers) <= batch_bytes_at_most(key, value, headers)


@pytest.mark.parametrize(("length", "more"), [(63, 0), (64, 1), (8_191, 1), (8_192, 2), (1_048_576, 3)])
def test_lengths_take_as_many_bytes_as_they_need(length: int, more: int) -> None:
    """A zigzag varint has six bits in its first byte and seven in each other."""
    without = batch_bytes(None, b"", [("n" * 20_000, b"")])  # so large that the record's own length stays as long
    if length < 1_000_000:
        assert batch_bytes(None, b"v" * length, [("n" * 20_000, b"")]) == without + length + more
    else:
        assert batch_bytes(None, b"v" * length, ()) == 61 + 4 + 3 + 1 + 4 + length + 1


def test_what_does_not_shrink_counts_as_more_than_it_is() -> None:
    value = random.Random(1).randbytes(100_000)
    assert compressed_bytes_max(None, value, ()) > batch_bytes(None, value, ())
    assert compressed_bytes_max(None, b"x" * 100_000, [("n", b"x" * 100_000)]) < 5_000
