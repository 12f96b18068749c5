"""Goal: whatever a journal gives back is the state at one changelog position. Real and twin, the same tests.

Method: Hypothesis writes, reads, discards and reopens; a dictionary beside it knows what must come out.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.ports import Journal
from jbm_kafka.store.journal import LINE_MS, RocksJournal
from jbm_kafka.store.journal_age import CLOCK_SKEW_MS_MAX, JOURNAL_AGE_MS_MAX
from jbm_kafka.store.rocks import Rocks
from tests.support.manual_clock import ManualClock


class RocksUnderTest:
    """A journal on a folder of its own that can be closed and opened again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock()
        self.rocks = Rocks(path)
        self.journal: Journal = RocksJournal(self.rocks, clock=self.clock)

    def reopen(self) -> None:
        self.journal.close()
        self.rocks.close()
        self.rocks = Rocks(self.path)
        self.journal = RocksJournal(self.rocks, clock=self.clock)

    def close(self) -> None:
        self.rocks.close()


class MemoryUnderTest:
    """The twin: a new sidecar gets the same journal object."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.journal: Journal = MemoryJournal(clock=self.clock)

    def reopen(self) -> None:
        self.journal.close()

    def close(self) -> None:
        pass


UnderTest = RocksUnderTest | MemoryUnderTest
Make = Callable[[Path], UnderTest]
KINDS: list[Make] = [RocksUnderTest, MemoryUnderTest]


@pytest.fixture(params=KINDS)
def under_test(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[UnderTest]:
    made: UnderTest = request.param(tmp_path / "rocks")
    yield made
    made.close()


def test_an_unknown_channel_is_at_position_0_with_nothing(under_test: UnderTest) -> None:
    assert under_test.journal.load("orders|0") == (0, {})


def test_what_was_written_is_there_after_reopening(under_test: UnderTest) -> None:
    under_test.journal.write({"a": (7, {b"x": b"1", b"y": b"2"}), "b": (3, {b"x": b"other"})})
    under_test.journal.write({"a": (9, {b"x": None, b"z": b""})})
    under_test.reopen()
    assert under_test.journal.load("a") == (9, {b"y": b"2", b"z": b""})
    assert under_test.journal.load("b") == (3, {b"x": b"other"})


def test_discarding_a_channel_leaves_the_others(under_test: UnderTest) -> None:
    under_test.journal.write({name: (5, {b"k": b"v"}) for name in ("a", "aa", "a|", "", "a\x00")})
    under_test.journal.discard("a")
    assert under_test.journal.load("a") == (0, {})
    for name in ("aa", "a|", "", "a\x00"):
        assert under_test.journal.load(name) == (5, {b"k": b"v"})
    under_test.journal.write({"a": (1, {b"new": b"1"})})
    assert under_test.journal.load("a") == (1, {b"new": b"1"})


def test_state_older_than_3_days_is_discarded(under_test: UnderTest) -> None:
    """LOG-7: a deletion that compaction has forgotten must not be undone by an old local value."""
    under_test.journal.write({"a": (5, {b"k": b"v"})})
    under_test.clock.jump(JOURNAL_AGE_MS_MAX)
    assert under_test.journal.load("a") == (5, {b"k": b"v"})
    under_test.clock.jump(1)
    assert under_test.journal.load("a") == (0, {})
    under_test.clock.jump(-1)
    assert under_test.journal.load("a") == (0, {}), "it was discarded, not just hidden"


def test_state_from_the_future_is_discarded(under_test: UnderTest) -> None:
    under_test.journal.write({"a": (5, {b"k": b"v"})})
    under_test.clock.jump(-CLOCK_SKEW_MS_MAX)
    assert under_test.journal.load("a") == (5, {b"k": b"v"})
    under_test.clock.jump(-1)
    assert under_test.journal.load("a") == (0, {})


NAMES = st.text(max_size=4)
KEYS = st.binary(max_size=3)
CHANGES = st.dictionaries(KEYS, st.none() | st.binary(max_size=5), max_size=5)
Step = tuple[str, dict[str, dict[bytes, bytes | None]]]
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("write"), st.dictionaries(NAMES, CHANGES, max_size=3)),
    st.tuples(st.just("discard"), NAMES.map(lambda name: {name: {}})),
    st.tuples(st.just("reopen"), st.just({})),
)


@pytest.mark.parametrize("make", KINDS)
@settings(max_examples=40, deadline=None)
@given(steps=st.lists(STEPS, max_size=12))
def test_a_journal_is_a_dictionary_per_channel_that_survives_reopening(make: Make, steps: list[Step]) -> None:
    folder = Path(tempfile.mkdtemp())
    under_test = make(folder / "rocks")
    expected: dict[str, tuple[int, dict[bytes, bytes]]] = {}
    seen: set[str] = {"never written"}
    try:
        for number, (act, batches) in enumerate(steps, start=1):
            seen |= set(batches)
            if act == "reopen":
                under_test.reopen()
            elif act == "discard":
                for name in batches:
                    under_test.journal.discard(name)
                    expected.pop(name, None)
            else:
                under_test.journal.write({name: (number, changes) for name, changes in batches.items()})
                for name, changes in batches.items():
                    entries = {**expected.get(name, (0, {}))[1], **changes}
                    expected[name] = (number, {key: value for key, value in entries.items() if value is not None})
            for name in seen:
                assert under_test.journal.load(name) == expected.get(name, (0, {}))
    finally:
        under_test.close()
        shutil.rmtree(folder)


def test_after_a_batch_that_failed_later_ones_leave_no_hole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """LOG-7: entries without the batch before them would claim to be complete."""
    under_test = RocksUnderTest(tmp_path / "rocks")
    under_test.journal.write({"a": (5, {b"k": b"5"})})
    under_test.rocks.close()
    under_test.journal.write({"a": (6, {b"k": b"6"})})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "nothing is lost" in caplog.text
    assert under_test.journal.trouble in caplog.text
    under_test.rocks.__init__(under_test.path)  # type: ignore[misc]  # the disk is well again, the journal is the same
    under_test.journal.write({"a": (7, {b"other": b"7"})})
    assert not under_test.journal.trouble
    assert under_test.journal.entries("a") == {}, "not all of it is there"
    assert under_test.journal.load("a") == (5, {b"k": b"5"})
    under_test.journal.write({"a": (7, {b"k": b"6", b"other": b"7"})})
    assert under_test.journal.load("a") == (7, {b"k": b"6", b"other": b"7"})
    under_test.close()


def test_of_a_full_disk_each_checkpoint_had_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """1,039 equal ones in a night: a line a minute is enough."""
    under_test = RocksUnderTest(tmp_path / "rocks")
    under_test.rocks.close()
    for _ in range(3):
        for _ in range(100):
            under_test.journal.write({"a": (6, {b"k": b"6"})})
        under_test.clock.advance(LINE_MS)
    under_test.journal.write({"a": (6, {b"k": b"6"})})
    under_test.journal.write({"a": (6, {b"k": b"6"})})
    counts = [record.getMessage().partition(" folder")[2] for record in caplog.records]
    assert counts == ["", *3 * [" (99 times since the last line)"]]


def test_a_damaged_head_means_unknown_with_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    under_test = RocksUnderTest(tmp_path / "rocks")
    under_test.journal.write({"a": (5, {b"k": b"v"})})
    under_test.rocks.journal.put(b"\x00\x01a\x00", b"nonsense")
    assert under_test.journal.load("a") == (0, {})
    assert len(caplog.records) == 1
    assert "rebuilt from the changelog" in caplog.text
    under_test.close()


def test_the_entries_of_an_open_channel_are_there_however_long_it_was_idle(under_test: UnderTest) -> None:
    """They are what its changelog said, if somebody deletes that."""
    assert under_test.journal.entries("a") == {}
    under_test.journal.write({"a": (5, {b"k": b"v", b"gone": b"v"}), "aa": (5, {b"other": b"v"})})
    under_test.journal.write({"a": (6, {b"gone": None})})
    under_test.clock.jump(2 * JOURNAL_AGE_MS_MAX)
    assert under_test.journal.entries("a") == {b"k": b"v"}
