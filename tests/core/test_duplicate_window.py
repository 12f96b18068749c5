"""The window against duplicates: what repeats an id is settled unseen, whatever crashes lie between (SEND-8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.duplicate_window import BUCKET_ROWS_MAX, DuplicateWindow, Identified, decide_repeated
from jbm_kafka.core.channel.entries import Duplicates
from tests.core.channel_parts import Channel, message, recovered
from tests.model.carrier import Changelog

NOW_MS = 10_000
SENT_MS = 5_000
Row = TypeVar("Row")


def read(
    channel: Channel, *rows: tuple[int, bytes | None, bytes], window_ms: int = 1_000, count_max: int | None = None
) -> list[int]:
    """Read messages (offset, unit, duplicate id), all sent at one time; the offsets of those that repeat."""
    return read_at(channel, [(*row, SENT_MS) for row in rows], window_ms=window_ms, count_max=count_max)


def read_at(
    channel: Channel, rows: Sequence[tuple[int, bytes | None, bytes, int]], *, window_ms: int, count_max: int | None
) -> list[int]:
    state = channel.state
    new = [Identified(*row) for row in rows if row[0] >= state.end_position]
    sifted = decide_repeated(state.window, new, window_ms=window_ms, count_max=count_max, now_ms=NOW_MS)
    kept = [message(offset, unit) for offset, unit, _, _ in rows if offset not in sifted.repeated]
    state.apply(
        c.Fetched(
            begin=state.read_position,
            end=rows[-1][0] + 1,
            references=kept,
            repeated=tuple(sifted.repeated),
            remembered=sifted.remembered,
            forgotten=sifted.forgotten,
        )
    )
    return list(sifted.repeated)


def test_what_repeats_an_id_is_settled_unseen_and_its_unit_goes_on() -> None:
    """SEND-8, of STATE-5: nobody is offered it, and nothing waits for it."""
    channel = Channel()
    assert read(channel, (0, b"joe", b"a"), (1, b"joe", b"a"), (2, b"joe", b"b")) == [1]
    assert channel.got("s") == [0, 2]
    channel.acknowledge("s", 0)
    assert channel.state.watermark == 2


def test_an_id_counts_within_its_unit_or_partition() -> None:
    """SEND-8."""
    rows = [
        (0, b"joe", b"a"),
        (1, b"ann", b"a"),
        (2, None, b"a"),
        (3, b"jo", b"ea"),
        (4, None, b"a"),
        (5, b"ann", b"a"),
    ]
    assert read(Channel(), *rows) == [4, 5]


@pytest.mark.parametrize(("later_ms", "repeats"), [(1_000, True), (1_001, False), (-1_000, True), (-1_001, False)])
def test_ids_are_compared_by_the_times_of_sending(later_ms: int, repeats: bool) -> None:
    """SEND-8: a backlog that is read late gives the same answer."""
    rows = [(0, None, b"a", SENT_MS), (1, None, b"a", SENT_MS + later_ms)]
    assert read_at(Channel(), rows, window_ms=1_000, count_max=None) == ([1] if repeats else [])


def test_a_clock_that_is_ahead_makes_no_id_old() -> None:
    """SEND-8: one message of a wrong sender must not empty the window."""
    rows = [(0, None, b"a", NOW_MS - 500), (1, None, b"wrong", NOW_MS + 10**9), (2, None, b"a", NOW_MS - 500)]
    assert read_at(Channel(), rows, window_ms=1_000, count_max=None) == [2]


def test_no_more_ids_are_remembered_than_the_settings_say() -> None:
    """SEND-8: the count that is set, or the time, whichever ends first."""
    channel = Channel()
    assert read(channel, (0, None, b"a"), (1, None, b"b"), (2, None, b"a"), count_max=2) == [2]
    assert read(channel, (3, None, b"c"), (4, None, b"a"), (5, None, b"c"), count_max=2) == [5]
    assert len(channel.state.window) == 2


def test_what_a_new_owner_reads_again_is_not_its_own_duplicate() -> None:
    """SEND-8: one owner crashed before the first was acknowledged; the sender's second try comes to the next owner."""
    channel = Channel()
    read(channel, (0, None, b"a"), (1, None, b"b"), (2, None, b"a"))
    successor = recovered(*channel.checkpoint(offered_position=1 << 40))
    assert read(successor, (0, None, b"a"), (1, None, b"b"), (2, None, b"a"), (3, None, b"b")) == [3]
    assert successor.got("s") == [0, 1]


def test_what_was_a_duplicate_stays_settled_when_its_id_is_forgotten() -> None:
    """SEND-8: what is read again after a crash is judged by what was recorded, not by a window that has moved on."""
    channel = Channel()
    read(channel, (0, None, b"a"), (1, None, b"a"))
    read(channel, (2, None, b"b"), (3, None, b"c"), count_max=1)
    successor = recovered(*channel.checkpoint(offered_position=1 << 40))
    assert list(successor.state.unsettled) == [0, 2, 3]


def test_each_id_is_written_once_and_deleted_when_it_is_forgotten() -> None:
    """Of LOG-8: the changelog holds what is remembered, and no more."""
    channel, changelog = Channel(), Changelog()
    for number in range(6):
        read(channel, (number, None, b"%d" % number), count_max=2)
        written = channel.checkpoint(offered_position=1 << 40)
        told = [entry for entry in written if isinstance(entry, Duplicates)]
        assert [entry.rows is None for entry in told] == ([False] if number < 2 else [True, False])
        changelog.write(written)
    assert [entry for entry in channel.checkpoint(offered_position=1 << 40) if isinstance(entry, Duplicates)] == []
    kept = [entry for entry in changelog.entries.values() if isinstance(entry, Duplicates)]
    assert sorted(row.offset for entry in kept for row in entry.rows or ()) == [4, 5]


def test_an_aborted_checkpoint_forgets_no_id() -> None:
    """Of LOG-5."""
    channel = Channel()
    read(channel, (0, None, b"a"))
    taken = channel.freeze(offered_position=1 << 40)
    read(channel, (1, None, b"b"))
    channel.state.apply(taken.failed)
    written = [entry for entry in channel.checkpoint(offered_position=1 << 40) if isinstance(entry, Duplicates)]
    assert [row.offset for entry in written for row in entry.rows or ()] == [0, 1]


def test_an_aborted_checkpoint_is_written_again_also_when_nothing_was_read_meanwhile() -> None:
    """Of LOG-5."""
    channel = Channel()
    read(channel, (0, None, b"a"))
    channel.state.apply(channel.freeze(offered_position=1 << 40).failed)
    written = [entry for entry in channel.checkpoint(offered_position=1 << 40) if isinstance(entry, Duplicates)]
    assert [(entry.bucket, [row.offset for row in entry.rows or ()]) for entry in written] == [(0, [0])]


def test_an_id_that_is_forgotten_while_it_is_being_written_is_deleted_next() -> None:
    """Of LOG-8."""
    channel = Channel()
    read(channel, (0, None, b"a"), count_max=1)
    taken = channel.freeze(offered_position=1 << 40)
    read(channel, (1, None, b"b"), count_max=1)
    channel.state.apply(taken.durable)
    written = [entry for entry in channel.checkpoint(offered_position=1 << 40) if isinstance(entry, Duplicates)]
    assert [(entry.bucket, entry.rows is None) for entry in written] == [(0, True), (1, False)]


def test_of_two_records_with_one_id_the_later_counts() -> None:
    """SEND-8: the earlier one was too long ago, and its record has others that still count."""
    channel = Channel()
    rows = [(0, None, b"a", 0), (1, None, b"b", 900), (2, None, b"a", 1_500)]
    changelog = Changelog()
    for begin, end in ((0, 2), (2, 3)):
        read_at(channel, rows[begin:end], window_ms=1_000, count_max=None)
        changelog.write(channel.checkpoint(offered_position=1 << 40))
    successor = Channel()
    successor.state = changelog.replay(NOW_MS)
    again = [*rows, (3, None, b"a", 2_000), (4, None, b"b", 1_600)]
    assert read_at(successor, again, window_ms=1_000, count_max=None) == [3, 4]


def test_no_record_of_ids_stays_when_a_new_owner_forgets_the_last_of_them() -> None:
    """Of LOG-8: an id that two records tell is counted once, or the earlier record would be kept for ever."""
    channel, changelog = Channel(), Changelog()
    rows = [(0, None, b"a", 0), (1, None, b"b", 900), (2, None, b"a", 1_500), (3, None, b"c", NOW_MS)]
    for begin, end in ((0, 2), (2, 3)):
        read_at(channel, rows[begin:end], window_ms=1_000, count_max=None)
        changelog.write(channel.checkpoint(offered_position=1 << 40))
    successor = Channel()
    successor.state = changelog.replay(NOW_MS)
    read_at(successor, rows, window_ms=1_000, count_max=None)
    changelog.write(successor.checkpoint(offered_position=1 << 40))
    kept = [entry for entry in changelog.entries.values() if isinstance(entry, Duplicates) and entry.rows]
    assert [[row.offset for row in entry.rows or ()] for entry in kept] == [[3]]


def test_ids_of_a_new_owner_do_not_take_the_place_of_its_predecessors_in_the_changelog() -> None:
    """SEND-8: the third owner knows what the first has read."""
    changelog, rows = Changelog(), [(0, None, b"a", 0), (1, None, b"b", 0), (2, None, b"a", 0)]
    for end in (1, 2):
        owner = Channel()
        owner.state = changelog.replay(NOW_MS)
        read_at(owner, rows[:end], window_ms=1_000, count_max=None)
        changelog.write(owner.checkpoint(offered_position=1 << 40))
    third = Channel()
    third.state = changelog.replay(NOW_MS)
    assert read_at(third, rows, window_ms=1_000, count_max=None) == [2]


def test_a_message_that_is_read_twice_is_not_its_own_duplicate() -> None:
    window = DuplicateWindow()
    twice = [Identified(0, None, b"a", SENT_MS), Identified(0, None, b"a", SENT_MS)]
    sifted = decide_repeated(window, twice, window_ms=1_000, count_max=None, now_ms=NOW_MS)
    assert (dict(sifted.repeated), len(sifted.remembered)) == ({}, 1)


def test_no_record_of_ids_is_large() -> None:
    """Of LOG-5: a record that its topic refuses would let nothing be recorded any more."""
    channel, count = Channel(), 2 * BUCKET_ROWS_MAX + 1
    read(channel, *((number, None, b"%d" % number) for number in range(count)))
    written = [entry for entry in channel.checkpoint(offered_position=1 << 40) if isinstance(entry, Duplicates)]
    assert [len(entry.rows or ()) for entry in written] == [BUCKET_ROWS_MAX, BUCKET_ROWS_MAX, 1]


# -- against paper ---------------------------------------------------------------------------------------------------


@dataclass
class Paper:
    """The rule as a sentence: a list of (unit, id, offset, sent), the oldest first."""

    window_ms: int
    count_max: int
    rows: list[tuple[bytes | None, bytes, int, int]]

    def read(self, offset: int, unit: bytes | None, duplicate_id: bytes, sent_ms: int) -> bool:
        """True when it repeats an id. One that counts makes those old that were sent so much earlier."""
        for row in self.rows:
            if row[:2] == (unit, duplicate_id):
                if abs(sent_ms - row[3]) <= self.window_ms:
                    return True
                self.rows.remove(row)
                break
        self.rows.append((unit, duplicate_id, offset, sent_ms))
        while self.rows and (len(self.rows) > self.count_max or sent_ms - self.rows[0][3] > self.window_ms):
            self.rows.pop(0)
        return False


reads = st.lists(
    st.tuples(st.sampled_from([None, b"u"]), st.sampled_from([b"a", b"b", b"c", b"d"]), st.integers(0, 30)),
    min_size=1,
    max_size=40,
)


@given(messages=reads, cuts=st.sets(st.integers(1, 40)), window_ms=st.integers(1, 20), count_max=st.integers(1, 5))
def test_the_window_says_what_paper_says_in_batches_of_any_size(
    messages: list[tuple[bytes | None, bytes, int]], cuts: set[int], window_ms: int, count_max: int
) -> None:
    """SEND-8."""
    paper = Paper(window_ms, count_max, [])
    expected = [n for n, (unit, each, sent) in enumerate(messages) if paper.read(n, unit, each, sent)]
    window = DuplicateWindow()
    found: list[int] = []
    for batch in split([Identified(n, *row) for n, row in enumerate(messages)], cuts):
        sifted = decide_repeated(window, batch, window_ms=window_ms, count_max=count_max, now_ms=NOW_MS)
        window.take(sifted.remembered, sifted.forgotten)
        found.extend(sifted.repeated)
    assert found == expected
    assert [row.offset for row in window.oldest_first()] == [row[2] for row in paper.rows]


@given(messages=reads, cuts=st.sets(st.integers(1, 40)), window_ms=st.integers(1, 20), count_max=st.integers(1, 5))
def test_a_new_owner_between_any_two_messages_says_the_same(
    messages: list[tuple[bytes | None, bytes, int]], cuts: set[int], window_ms: int, count_max: int
) -> None:
    """SEND-8, of LOG-5: what a checkpoint records is the window. (The clocks of the senders agree here.)"""
    ordered = [(unit, each, n) for n, (unit, each, _) in enumerate(messages)]
    paper = Paper(window_ms, count_max, [])
    expected = [n for n, (unit, each, sent) in enumerate(ordered) if paper.read(n, unit, each, sent)]
    changelog = Changelog()
    found: list[int] = []
    changelog.write(Channel().checkpoint(offered_position=1 << 40))
    for batch in split([(n, *row) for n, row in enumerate(ordered)], cuts):
        channel = Channel()
        channel.state = changelog.replay(NOW_MS)
        found.extend(read_at(channel, batch, window_ms=window_ms, count_max=count_max))
        changelog.write(channel.checkpoint(offered_position=1 << 40))
    assert found == expected


def split(rows: Sequence[Row], cuts: set[int]) -> list[Sequence[Row]]:
    places = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    return [rows[begin:end] for begin, end in pairwise(places) if begin < end]
