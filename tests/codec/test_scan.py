"""Goal: what a channel decides by is read from any headers, and never fails.

The model reads the headers one by one as docs/topics.md describes them.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.codec.bodies import BODY_HEADER
from jbm_kafka.codec.scan import ALL_DEFAULT, DECIDING_HEADERS, Header, Scanned, scan

numbers = st.integers(0, 2**70).map(lambda number: str(number).encode())
odd = st.sampled_from([b"", b"-1", b"+4", b" 4", b"4 ", b"1_0", b"4.0", b"\xb2", b"\xc2\xb2", b"\xff", b"00", b"0009"])
names = st.sampled_from([*sorted(DECIDING_HEADERS), "JMSType", "x"])
headers = st.lists(st.tuples(names, st.one_of(st.none(), numbers, odd, st.integers(0, 12).map(lambda n: b"%d" % n))))


def model_scan(headers: list[Header]) -> tuple[int, int, int, bytes | None, bytes | None]:
    def good(name: str, most: int) -> list[int]:
        texts = [value.decode("latin-1") for key, value in headers if key == name and value is not None]
        digits = [text for text in texts if text and all(letter in "0123456789" for letter in text)]
        return [int(text) for text in digits if len(text) <= 19 and int(text) <= most]

    def last(name: str) -> bytes | None:
        return next((value for key, value in reversed(headers) if key == name and value is not None), None)

    longs = 2**63 - 1
    return (
        [4, *good("JMSPriority", 9)][-1],
        [0, *good("JMSExpiration", longs)][-1],
        [0, *good("JMSDeliveryTime", longs)][-1],
        last("JBMDuplicateID"),
        last("JBMSubscription"),
    )


@given(headers=headers)
def test_a_bad_number_counts_as_absent_and_the_last_good_one_counts(headers: list[Header]) -> None:
    """MSG-2: a bad JMSPriority, JMSExpiration or JMSDeliveryTime counts as absent."""
    assert tuple(scan(headers)) == model_scan(headers)


@pytest.mark.parametrize("headers", [None, [], [("JMSMessageID", b"ID:1"), ("JBMBody", b"text"), ("x", None)]])
def test_ordinary_headers_give_the_one_shared_value(headers: list[Header] | None) -> None:
    assert scan(headers) is ALL_DEFAULT
    assert Scanned() == (4, 0, 0, None, None) == ALL_DEFAULT


@pytest.mark.parametrize(("text", "expected"), [(2**63 - 1, 2**63 - 1), (2**63, 0), (10**19, 0)])
def test_a_time_beyond_a_java_long_counts_as_absent(text: int, expected: int) -> None:
    """MSG-2."""
    assert scan([("JMSExpiration", b"%d" % text)]).expiration_ms == expected


@pytest.mark.parametrize(("text", "expected"), [(b"0", 0), (b"9", 9), (b"10", 4)])
def test_a_priority_beyond_nine_counts_as_absent(text: bytes, expected: int) -> None:
    """MSG-2."""
    assert scan([("JMSPriority", text)]).priority == expected


def test_names_that_decide_begin_as_the_intake_expects() -> None:
    """It passes over every other header after one character."""
    assert all(name.startswith("J") for name in DECIDING_HEADERS | {BODY_HEADER})
