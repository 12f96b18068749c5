"""Goal: every held record comes back once, as it was, lowest offset of its gate first.

Method: the real store and its twin pass the same tests.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jbm_kafka.core.jms_errors import ChannelLost, ResourceAllocationError
from jbm_kafka.memory.memory_held import MemoryHeldStore
from jbm_kafka.ports import HeldStore, KafkaRecord
from jbm_kafka.store.held import RocksHeldStore
from jbm_kafka.store.rocks import Rocks
from tests.support.store_parts import MadeRecord


class RocksUnderTest:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.rocks = Rocks(path)
        self.store: HeldStore = RocksHeldStore(self.rocks)

    def close(self) -> None:
        self.store.close()
        self.rocks.close()


class MemoryUnderTest:
    def __init__(self, path: Path) -> None:
        self.store: HeldStore = MemoryHeldStore()

    def close(self) -> None:
        self.store.close()


UnderTest = RocksUnderTest | MemoryUnderTest
Make = Callable[[Path], UnderTest]
KINDS: list[Make] = [RocksUnderTest, MemoryUnderTest]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HeldStore]:
    made: UnderTest = request.param(tmp_path / "rocks")
    yield made.store
    made.close()


def told(record: KafkaRecord) -> tuple[object, ...]:
    headers = record.headers()
    return (
        record.topic(),
        record.partition(),
        record.offset(),
        record.key(),
        record.value(),
        None if headers is None else list(headers),
        record.timestamp(),
    )


def offsets(records: object) -> list[int]:
    assert isinstance(records, list)
    return [record.offset() for record in records]


def test_a_gate_gives_its_lowest_offsets_first_and_once(store: HeldStore) -> None:
    store.put("c", [(b"u", offset, MadeRecord(offset)) for offset in (3, 5, 260, 70_000)])
    store.put("c", [(b"v", 4, MadeRecord(4))])
    assert offsets(store.take("c", b"u", 2)) == [3, 5]
    store.put("c", [(b"u", 1 << 40, MadeRecord(1 << 40))])
    assert offsets(store.take("c", b"u", 10)) == [260, 70_000, 1 << 40]
    assert offsets(store.take("c", b"u", 10)) == []
    assert offsets(store.take("c", b"v", 10)) == [4]


def test_what_was_taken_may_be_put_back(store: HeldStore) -> None:
    store.put("c", [(b"u", offset, MadeRecord(offset)) for offset in range(10)])
    taken = store.take("c", b"u", 5)
    store.put("c", [(b"u", record.offset() or 0, record) for record in taken[2:]])
    assert offsets(store.take("c", b"u", 100)) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_what_is_read_stays_and_what_is_removed_is_gone(store: HeldStore) -> None:
    store.put("c", [(b"u", offset, MadeRecord(offset)) for offset in (3, 5, 260, 70_000)])
    store.put("c", [(b"v", 4, MadeRecord(4))])
    assert offsets(store.read("c", b"u", 0, 2)) == [3, 5]
    assert offsets(store.read("c", b"u", 4, 2)) == [5, 260]
    assert offsets(store.read("c", b"u", 70_001, 2)) == []
    store.remove("c", b"u", [5, 6, 70_000])
    assert offsets(store.read("c", b"u", 0, 9)) == [3, 260]
    assert offsets(store.take("c", b"u", 1)) == [3]
    assert offsets(store.read("c", b"u", 0, 9)) == [260]
    assert offsets(store.take("c", b"v", 9)) == [4]


def test_gates_whose_names_begin_alike_do_not_mix(store: HeldStore) -> None:
    gates = [b"", b"a", b"a\x00", b"a\x00\x00\x00\x00\x00\x00\x00\x05", b"ab", b"\xff", b"\xff" * 9]
    store.put("c", [(gate, 5, MadeRecord(5, key=gate)) for gate in gates])
    for gate in gates:
        assert [record.key() for record in store.take("c", gate, 10)] == [gate]


def test_clearing_a_channel_leaves_the_others(store: HeldStore) -> None:
    for channel in ("a", "b", "aa"):
        store.put(channel, [(b"u", 1, MadeRecord(1))])
    store.clear("a")
    store.clear("never used")
    assert offsets(store.take("a", b"u", 9)) == []
    assert offsets(store.take("b", b"u", 9)) == [1]
    store.put("a", [(b"u", 0, MadeRecord(0))])
    assert offsets(store.take("a", b"u", 9)) == [0]
    assert offsets(store.take("aa", b"u", 9)) == [1]


HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=4)
RECORDS = st.builds(
    MadeRecord,
    st.integers(0, (1 << 63) - 1),
    topic=st.none() | st.text(max_size=5),
    partition=st.none() | st.integers(0, 1 << 20),
    key=st.none() | st.binary(max_size=8),
    value=st.none() | st.binary(max_size=64),
    headers=HEADERS,
    timestamp=st.tuples(st.sampled_from([0, 1, 2]), st.integers(-1, 1 << 50)),
)


@pytest.mark.parametrize("make", KINDS)
@settings(max_examples=40, deadline=None)
@given(records=st.lists(RECORDS, max_size=20, unique_by=lambda record: record.offset()))
def test_every_record_comes_back_as_it_was(make: Make, records: list[MadeRecord]) -> None:
    """MSG-2: foreign records too: no key, null value, repeated and null headers."""
    folder = Path(tempfile.mkdtemp())
    under_test = make(folder / "rocks")
    try:
        ordered = sorted(records, key=lambda record: record.offset() or 0)
        under_test.store.put("c", [(b"g", record.offset() or 0, record) for record in ordered])
        taken = under_test.store.take("c", b"g", 100)
        assert [told(record) for record in taken] == [told(record) for record in ordered]
    finally:
        under_test.close()
        shutil.rmtree(folder)


ACTS = st.sampled_from(["put", "put", "take", "clear"])
STEPS = st.tuples(ACTS, st.sampled_from([b"u", b"v", b""]), st.integers(1, 6))


@pytest.mark.parametrize("make", KINDS)
@settings(max_examples=40, deadline=None)
@given(steps=st.lists(STEPS, max_size=40))
def test_a_held_store_is_a_sorted_list_per_gate(make: Make, steps: list[tuple[str, bytes, int]]) -> None:
    folder = Path(tempfile.mkdtemp())
    under_test = make(folder / "rocks")
    expected: dict[bytes, list[int]] = {}
    offset = 0
    try:
        for act, gate, count in steps:
            if act == "put":
                under_test.store.put("c", [(gate, offset + n, MadeRecord(offset + n)) for n in range(count)])
                expected.setdefault(gate, []).extend(range(offset, offset + count))
                offset += count
            elif act == "take":
                held = expected.setdefault(gate, [])
                assert offsets(under_test.store.take("c", gate, count)) == held[:count]
                del held[:count]
            else:
                under_test.store.clear("c")
                expected.clear()
        for gate, held in expected.items():
            assert offsets(under_test.store.take("c", gate, 1000)) == held
    finally:
        under_test.close()
        shutil.rmtree(folder)


def test_a_store_is_empty_at_open_and_the_journal_is_not(tmp_path: Path) -> None:
    first = RocksUnderTest(tmp_path / "rocks")
    first.rocks.journal.put(b"k", b"v")
    first.store.put("c", [(b"u", offset, MadeRecord(offset, value=b"x" * 1000)) for offset in range(30_000)])
    first.close()
    second = RocksUnderTest(tmp_path / "rocks")
    assert offsets(second.store.take("c", b"u", 10)) == []
    assert second.rocks.journal.get(b"k") == b"v"
    second.close()


def test_more_gates_than_fronts_are_remembered_cost_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of LOG-9: what is remembered of gates is bounded."""
    monkeypatch.setattr("jbm_kafka.store.held.FRONTS_MAX", 3)
    under_test = RocksUnderTest(tmp_path / "rocks")
    gates = [b"%d" % number for number in range(10)]
    under_test.store.put("c", [(gate, offset, MadeRecord(offset)) for gate in gates for offset in (1, 2, 3)])
    for count in (1, 2):
        for gate in gates:
            assert len(under_test.store.take("c", gate, count)) == count
    under_test.close()


def test_a_failing_disk_raises_one_line_with_path_and_remedy(tmp_path: Path) -> None:
    under_test = RocksUnderTest(tmp_path / "rocks")
    under_test.rocks.journal.close()
    with pytest.raises(ResourceAllocationError, match=r"rocks.*make room.*nothing is lost"):
        under_test.store.put("c", [(b"u", 1, MadeRecord(1))])
    assert under_test.rocks.held is not None
    under_test.rocks.held.close()
    with pytest.raises(ChannelLost, match="cannot be taken"):
        under_test.store.remove("c", b"u", [1])
    with pytest.raises(ChannelLost, match="cannot be read"):
        under_test.store.take("c", b"u", 1)


def test_a_failing_disk_does_not_keep_a_channel_from_being_forgotten(tmp_path: Path) -> None:
    under_test = RocksUnderTest(tmp_path / "rocks")
    under_test.store.put("c", [(b"u", 1, MadeRecord(1))])
    under_test.rocks.journal.close()
    under_test.store.clear("c")
