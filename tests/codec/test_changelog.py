"""Goal: what a checkpoint writes is what recovery reads, today's bytes stay readable, and damage is told, not believed.

The golden bytes in tests/golden/changelog.json were written by the version that released their schemas. They are never
regenerated: a change that cannot read them is a change of format.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from jbm_kafka.codec.changelog import decode_entry, encode_entry, group_of
from jbm_kafka.codec.events import decode_events, encode_events, in_portions
from jbm_kafka.core.channel.entries import (
    UNIT_BYTES_MAX,
    Attempted,
    ChannelEvents,
    DeliveryRun,
    Duplicates,
    Entry,
    Failure,
    FailureGone,
    Held,
    HeldGone,
    MessageEvent,
    MessageFate,
    OffsetRange,
    Parked,
    ParkedGone,
    Position,
    Prepared,
    SeenId,
    Settled,
)
from jbm_kafka.core.jms_errors import CorruptRecordError, NewerRecordError

ROOT = Path(__file__).parents[2]
GOLDEN: dict[str, Any] = json.loads((ROOT / "tests/golden/changelog.json").read_text(encoding="utf-8"))
GROUP = "jbm.queue.orders%2Eeu"

longs = st.integers(0, 2**63 - 1)
ints = st.integers(0, 2**31 - 1)
bitmaps = st.frozensets(st.integers(0, 65_535), max_size=50).map(lambda offsets: bytes(BitMap(offsets).serialize()))
units = st.none() | st.binary(max_size=20)
header_rows = st.lists(st.tuples(st.text(), units)).map(tuple)
offset_rows = st.frozensets(longs, max_size=20).map(sorted).map(tuple)
entries: st.SearchStrategy[Entry] = st.one_of(
    st.builds(Position, st.text(), st.text(), longs, longs, longs, longs),
    st.builds(Settled, longs, st.none() | bitmaps),
    st.builds(Attempted, longs, st.none() | bitmaps),
    st.builds(Held, longs, ints, longs, longs, units, st.text()),
    st.builds(HeldGone, longs),
    st.builds(Failure, longs, st.text()),
    st.builds(FailureGone, longs),
    st.builds(Parked, longs, units, units, header_rows, ints, longs),
    st.builds(ParkedGone, longs),
    st.builds(Prepared, st.sampled_from(["0f", "ab12"]), st.none() | offset_rows),
    st.builds(Duplicates, longs, st.none() | st.lists(st.builds(SeenId, st.binary(), longs, longs)).map(tuple)),
)
message_events = st.builds(
    MessageEvent,
    st.sampled_from(MessageFate),
    longs,
    units,
    ints,
    st.none() | st.text(),
    st.text(),
    st.none() | longs,
    st.none() | longs,
    st.none() | longs,
    st.none() | ints,
    st.none() | st.text(),
)
delivery_runs = st.builds(
    DeliveryRun, longs, ints, ints, st.sampled_from(["a", "b"]), st.sampled_from(["AUTO", "PRE"]), longs
)
channel_events = st.builds(
    ChannelEvents,
    st.text(),
    st.text(),
    ints,
    st.text(),
    longs,
    st.lists(st.builds(OffsetRange, longs, longs), max_size=3).map(tuple),
    st.lists(message_events, max_size=3).map(tuple),
    st.none() | st.text(),
    st.lists(delivery_runs, max_size=3).map(tuple),
)


def field_of(value: Any) -> Any:
    if isinstance(value, dict):
        return bytes.fromhex(value["hex"])
    if isinstance(value, list):
        return tuple(SeenId(**{name: field_of(each) for name, each in row.items()}) for row in value)
    return value


def from_json(case: dict[str, Any]) -> Entry:
    kinds: dict[str, Any] = {each.__name__: each for each in (Position, Settled, Attempted, Held, HeldGone, Duplicates)}
    fields = {name: field_of(value) for name, value in case.items() if name != "entry"}
    entry: Entry = kinds[case["entry"]](**fields)
    return entry


@given(entry=entries)
def test_an_entry_reads_back_as_it_was_written(entry: Entry) -> None:
    key, value = encode_entry(GROUP, entry)
    assert decode_entry(key, value) == (GROUP, entry)
    assert group_of(key) == GROUP


def test_why_messages_failed_stands_where_versions_before_it_do_not_look() -> None:
    """REDELIVER-10: a process that does not know the kind of an entry would leave the partition closed."""
    before_it_read = f"{GROUP}|".encode()
    assert not encode_entry(GROUP, Failure(7, "ValueError: no such customer"))[0].startswith(before_it_read)


@given(events=channel_events)
def test_events_read_back_as_they_were_written(events: ChannelEvents) -> None:
    key, value = encode_events(events)
    assert key == events.group.encode()
    assert decode_events(value) == events


@given(events=channel_events)
def test_few_events_are_one_record(events: ChannelEvents) -> None:
    assert list(in_portions(events)) == [events]


def test_however_many_events_each_record_stays_small_and_none_is_missing() -> None:
    """Of LOG-5: one record of all of them was more than a topic takes, and no checkpoint could commit any more."""
    ranges = tuple(OffsetRange(3 * number, 3 * number + 1) for number in range(100_000))
    messages = tuple(
        MessageEvent(MessageFate.EXPIRED, 10**9 + number, b"u" * 64, 1, "queue:ExpiryQueue", "expired")
        for number in range(15_000)
    )
    runs = tuple(DeliveryRun(2 * each, 1, 1, f"s-{each}", "INDIVIDUAL", 10**12 + each) for each in range(15_000))
    portions = list(in_portions(ChannelEvents(GROUP, "orders", 0, "c-1", 1, ranges, messages, "id-1", runs)))
    assert max(len(encode_events(portion)[1]) for portion in portions) < 300_000
    assert tuple(each for portion in portions for each in portion.acknowledged) == ranges
    assert tuple(each for portion in portions for each in portion.messages) == messages
    assert tuple(each for portion in portions for each in portion.deliveries) == runs
    assert {portion.topic_id for portion in portions} == {"id-1"}


def test_a_message_with_a_huge_unit_makes_no_record_that_a_topic_refuses() -> None:
    """Of LOG-5: the event repeated a key of a megabyte, was refused, and nothing of its group was recorded any more."""
    huge = [b"u" * size for size in (UNIT_BYTES_MAX, UNIT_BYTES_MAX + 1, 1_000_000)]
    messages = tuple(MessageEvent(MessageFate.RETURNED, 7, unit, 1, None, "returned") for unit in huge)
    [portion] = in_portions(ChannelEvents(GROUP, "orders", 0, "c-1", 1, (), messages))
    _, value = encode_events(portion)
    read = decode_events(value).messages
    assert [each.unit for each in read] == [huge[0], None, None]
    assert read[2].reason == "returned (its unit of 1000000 bytes is left out)"
    held = [encode_entry(GROUP, Held(7, 1, 0, 0, unit, "returned")) for unit in huge]
    assert [entry.unit for _, entry in (decode_entry(*row) for row in held) if isinstance(entry, Held)] == [
        huge[0],
        None,
        None,
    ]
    assert max(len(row[1] or b"") for row in held) < 5_000


@pytest.mark.parametrize("case", GOLDEN["entries"], ids=lambda case: case["key"])
def test_bytes_of_every_release_read_as_the_same_entry(case: dict[str, Any]) -> None:
    value = None if case["value"] is None else bytes.fromhex(case["value"])
    group, entry = decode_entry(case["key"].encode(), value)
    assert group == GROUP
    assert entry == from_json(case["means"])


def test_a_parked_record_of_the_first_release_reads_as_the_same_record() -> None:
    """LOG-8."""
    value = bytes.fromhex(
        "c301c71c3b5ff02b63f202066a6f650208626f647904164a4d535072696f72697479020234086e6f6e6500000280a0abfef962"
    )
    row = Parked(65, b"joe", b"body", (("JMSPriority", b"4"), ("none", None)), 1, 1_700_000_000_000)
    assert decode_entry(f"{GROUP}|parked|65".encode(), value) == (GROUP, row)
    assert row.size == len("joebodyJMSPriority4none")


def test_events_of_every_release_read_as_the_same_events() -> None:
    acknowledged = (OffsetRange(0, 9), OffsetRange(12, 12))
    letter = MessageEvent(MessageFate.DEAD_LETTERED, 10, b"joe", 3, "queue:DLQ", "max-delivery-attempts")
    first = ChannelEvents(GROUP, "orders.eu", 2, "c-7", 1_700_000_000_000, acknowledged, (letter,))
    back = MessageEvent(
        MessageFate.RETURNED, 14, b"joe", 1, None, "returned", 1_700_000_000_190, 1_700_000_005_190, 5_000, 10, "hold"
    )
    runs = (
        DeliveryRun(0, 10, 1, "c-1.1", "AUTO", 1_700_000_000_100),
        DeliveryRun(14, 1, 1, "c-1.2", "CLIENT", 1_700_000_000_130),
    )
    second = replace(first, messages=(letter, back), topic_id="AAAAAAAAAAAAAAAAAAAAAQ", deliveries=runs)
    assert [decode_events(bytes.fromhex(value)) for value in GOLDEN["events"]] == [first, second]


def test_keys_are_text_that_any_tool_can_show() -> None:
    keys = [encode_entry(GROUP, entry)[0].decode() for entry in (HeldGone(17), Settled(2, None), Attempted(0, None))]
    assert keys == [f"{GROUP}|held|17", f"{GROUP}|settled|2", f"{GROUP}|attempted|0"]


GOOD_HELD = encode_entry(GROUP, Held(1, 1, 0, 0, None, "r"))[1] or b""
BAD_RECORDS: list[tuple[bytes | None, bytes | None, str]] = [
    (None, None, "is not <group>|<kind>|<index>"),
    (b"", None, "is not <group>|<kind>|<index>"),
    (b"g|held", None, "is not <group>|<kind>|<index>"),
    (b"|held|1", None, "is not <group>|<kind>|<index>"),
    (b"g|held|-1", None, "is not <group>|<kind>|<index>"),
    (b"g|held|\xc2\xb2", None, "is not <group>|<kind>|<index>"),
    (b"g|held|1|2", None, "is not <group>|<kind>|<index>"),
    (b"\xff|held|1", None, "is not <group>|<kind>|<index>"),
    (b"g|position|0", None, "position 0 without a value"),
    (b"g|position|1", b"", "a position of index 1"),
    (b"g|held|1", b"", "0 bytes that do not start"),
    (b"g|held|1", b"\xc3\x01\x00\x00", "4 bytes that do not start"),
    (b"g|prepared|x", b"", "is not <group>|prepared|<branch in hex>"),
    (b"g|held|1", GOOD_HELD[:-1], "damaged data"),
    (b"g|held|1", GOOD_HELD + b"x", "1 bytes follow the data"),
    (b"g|held|1", GOOD_HELD[:10] + b"\x01" + GOOD_HELD[11:], "attempts is -1"),
    (b"g|settled|1", encode_entry("g", Settled(1, b"abc"))[1], "3 bytes that are no roaring bitmap"),
    (b"g|settled|1", encode_entry("g", Settled(1, b"\x3a\x30" + b"\xff" * 6))[1], "8 bytes that are no roaring bitmap"),
    (b"g|attempted|1", encode_entry("g", Attempted(1, BitMap([65_536]).serialize()))[1], "65536 is beyond its block"),
]


@pytest.mark.parametrize(("key", "value", "reason"), BAD_RECORDS)
def test_a_damaged_record_is_refused_with_what_is_wrong(key: bytes | None, value: bytes | None, reason: str) -> None:
    with pytest.raises(CorruptRecordError) as caught:
        decode_entry(key, value)
    assert reason in str(caught.value)
    assert not isinstance(caught.value, NewerRecordError), "it would never be dropped"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"g|afterwards|1", None, "kind 'afterwards' is not known"),
        (b"g|later|a|b", b"", "kind 'later' is not known"),
        (b"g|held|1", b"\xc3\x01" + b"\x00" * 8, "no known schema has fingerprint 0000000000000000"),
        (b"g|settled|1", GOOD_HELD, "no known schema has fingerprint"),
    ],
)
def test_a_newer_versions_record_is_told_from_a_damaged_one(key: bytes, value: bytes | None, reason: str) -> None:
    with pytest.raises(NewerRecordError) as caught:
        decode_entry(key, value)
    assert reason in str(caught.value)


@given(value=st.binary(max_size=40), kind=st.sampled_from(["position", "held", "settled", "attempted"]))
def test_random_bytes_are_refused_and_nothing_else_happens(value: bytes, kind: str) -> None:
    with pytest.raises(CorruptRecordError):
        decode_entry(f"g|{kind}|0".encode(), value)


@given(cut=st.integers(0, len(GOOD_HELD) - 1), flip=st.integers(1, 255))
def test_a_changed_byte_is_refused_or_gives_another_entry_never_a_crash(cut: int, flip: int) -> None:
    damaged = GOOD_HELD[:cut] + bytes([GOOD_HELD[cut] ^ flip]) + GOOD_HELD[cut + 1 :]
    try:
        group, entry = decode_entry(b"g|held|1", damaged)
    except CorruptRecordError:
        return
    assert group == "g"
    assert isinstance(entry, Held)


def test_events_of_an_unknown_fate_are_refused() -> None:
    message = MessageEvent(MessageFate.MOVED, 1, None, 0, None, "")
    _, value = encode_events(ChannelEvents("g", "t", 0, "c", 0, (), (message,)))
    with pytest.raises(CorruptRecordError, match="fate 'loved' is not known"):
        decode_events(value.replace(b"moved", b"loved"))


def test_a_run_of_no_session_is_refused() -> None:
    run = DeliveryRun(1, 1, 1, "a", "AUTO", 5)
    _, value = encode_events(ChannelEvents("g", "t", 0, "c", 0, (), (), None, (run,)))
    assert value.endswith(b"\x02\x02\x02\x02\x00\x00\x00")
    with pytest.raises(CorruptRecordError, match="session 1 of 1"):
        decode_events(value[:-3] + b"\x02\x00\x00")


def schema_files() -> list[Path]:
    return sorted((ROOT / "schemas").glob("*.avsc"))


@pytest.mark.parametrize("file", schema_files(), ids=lambda file: file.stem)
def test_every_schema_says_what_it_is_and_was_released_unchanged(file: Path) -> None:
    schema = json.loads(file.read_text(encoding="utf-8"))
    fastavro.parse_schema(schema)
    assert schema["name"] == file.stem
    assert schema["doc"]
    assert all(field["doc"].endswith(".") for field in schema["fields"])
    released = [
        json.loads(each.read_text(encoding="utf-8")) for each in file.parent.glob(f"released/{file.stem}.*.avsc")
    ]
    assert any(each["fields"] == schema["fields"] for each in released)
