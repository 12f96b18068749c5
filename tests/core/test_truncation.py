"""Goal: nothing that anybody still needs lies below a cut.

Method: rows by hand for what one channel still needs; any set of pins for the cut, checked against all offsets.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.core.channel.entries import Position
from jbm_kafka.core.channel.truncation import (
    ChannelFacts,
    Pin,
    PinKind,
    decide_cut,
    is_truncated,
    needed_from,
    reader_pin,
)


def position(watermark: int, topic_id: str = "T") -> Position:
    return Position(topic_id, "jbm.f.0:1", watermark, watermark, watermark, 0)


NEEDED = {
    "both agree": (position(50), 50, None, 50),
    "the offset has expired": (position(50), None, None, 50),
    "the changelog is lost": (None, 50, None, 50),
    "an operator went back": (position(50), 20, None, 20),
    "an operator went forward, and no owner has recorded it": (position(50), 80, None, 50),
    "the topic was made anew, and a stale offset is there": (position(50, "old"), 50, None, 0),
    "a queue that nobody received from": (None, None, None, None),
    "a subscription that was just made": (None, None, 30, 30),
    "another subscription had the name": (position(50, "T/old"), 50, 70, 70),
    "a subscription's offset from before it was made anew": (None, 50, 70, 50),
}


@pytest.mark.parametrize("case", NEEDED.values(), ids=NEEDED.keys())
def test_what_a_channel_still_needs(case: tuple[Position | None, int | None, int | None, int | None]) -> None:
    """Of LOG-4: the lower of what is recorded."""
    recorded, committed, begin, needed = case
    assert needed_from(ChannelFacts("T", recorded, committed, begin)) == needed


PINS = st.lists(st.builds(Pin, st.sampled_from(PinKind), st.just("who"), st.integers(0, 40)), max_size=5)


@given(pins=PINS, begin=st.integers(0, 30), length=st.integers(0, 20))
def test_a_cut_leaves_all_that_is_needed_and_nothing_else(pins: list[Pin], begin: int, length: int) -> None:
    """Of LOG-4: and without a queue or subscription everything."""
    cut = decide_cut(begin=begin, end=begin + length, pins=pins)
    has_channel = any(pin.kind in (PinKind.CHANNEL, PinKind.PRIVATE) for pin in pins)
    gone = range(begin, cut.before)
    assert cut.frees == len(gone)
    assert begin <= cut.before <= begin + length
    assert not [offset for offset in gone for pin in pins if pin.offset <= offset]
    left = [offset for offset in range(begin, begin + length) if offset not in gone]
    if has_channel and left:
        assert [pin for pin in pins if pin.offset <= left[0]] == list(cut.pins)
        assert cut.pins
    elif not has_channel:
        assert not gone


def test_a_reader_needs_partitions_that_were_added_and_a_kept_original_needs_its_own_alone() -> None:
    """Of LOG-4, of REDELIVER-4."""
    assert reader_pin("spark|q", {0: 7}, 1, reads_all=True) == Pin(PinKind.READER, "spark|q", 0)
    assert reader_pin("letter|o", {0: 7}, 1, reads_all=False) is None
    assert reader_pin("letter|o", {0: 7}, 0, reads_all=False) == Pin(PinKind.READER, "letter|o", 7)


@pytest.mark.parametrize(
    ("setting", "is_ours", "is_so"),
    [
        (None, False, False), (None, True, True), ("never", True, False), ("never", False, False),
        ("settled", False, True), ("settled", True, True),
    ],
)  # fmt: skip
def test_what_others_made_is_deleted_only_where_the_setting_asks_for_it(
    setting: str | None, is_ours: bool, is_so: bool
) -> None:
    """LOG-4."""
    assert is_truncated(setting, is_ours=is_ours) is is_so
