"""Goal: a channel is rebuilt from what Kafka says, whatever happened to its offsets.

Method: topics as lists, written by the test as checkpoints write them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pyroaring import BitMap

from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.companion_group import companion_of
from jbm_kafka.core.channel.entries import Attempted, Duplicates, Held, HeldGone, Parked, Position, SeenId
from jbm_kafka.core.channel.start_position import StartReason
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.ports import AccessRefused, CommittedOffset, Unreachable
from jbm_kafka.store.changelog_reader import CHANGELOG_ID_KEY
from jbm_kafka.store.recovery import LATER_READINGS_MAX, LATER_S, READINGS_MAX, recover_channels
from tests.support.recovery_world import CHANGELOG, GROUP, SCOPE, TOPIC, World, corrupt, held, settled
from tests.support.scripted_kafka import ScriptedKafka


def test_the_latest_value_of_every_key_counts_and_null_deletes() -> None:
    world = World()
    world.checkpoint(10, settled(0, 15), held(12), held(13))
    last = world.checkpoint(11, settled(0, 15, 16), held(12, 2), HeldGone(13))
    found = world.recover()
    assert found.entries == (last, settled(0, 15, 16), held(12, 2))
    assert (found.start_position, found.reason) == (11, StartReason.CHANGELOG)
    assert found.changelog_position == world.changelog.ends[0]
    assert (found.obsolete, found.is_decided_here) == ((), False)


def test_a_group_that_was_deleted_had_no_offset_where_everything_was_settled() -> None:
    """Of LOG-2: the changelog decides, and the owner has something to commit, so that Kafka's tools show it again."""
    world = World()
    last = world.checkpoint(10)
    world.kafka.offsets.clear()
    found = world.recover()
    assert (found.entries, found.reason) == ((last,), StartReason.CHANGELOG)
    assert found.is_decided_here


def test_other_groups_entries_do_not_count() -> None:
    """Of TOPIC-1: subscriptions of one topic share its changelog."""
    world = World()
    mine = world.checkpoint(10, held(12))
    world.checkpoint(90, settled(0, 95), held(12, 9), group="jbm.queue.orders.eu")
    assert world.recover().entries == (mine, held(12))


def test_partitions_are_recovered_side_by_side() -> None:
    world = World()
    first, second = world.checkpoint(10), world.checkpoint(20, held(25), partition=1)
    told: dict[str, Any] = {"admin": world.kafka, "reader": world.kafka, "journal": world.journal}
    found = recover_channels(SCOPE, (1, 0), timeout_s=1, pause=world.pauses.append, **told)
    assert (found[0].entries, found[1].entries) == ((first,), (second, held(25)))


def test_a_new_channel_begins_at_the_logs_start() -> None:
    world = World()
    world.kafka.topics[TOPIC].begins[0] = 40
    del world.kafka.topics[CHANGELOG]
    found = world.recover()
    assert found.entries == (Position("T", "", 40, 40, 40, 0),)
    assert (found.start_position, found.reason, found.changelog_position) == (40, StartReason.NOTHING_RECORDED, 0)


@pytest.mark.parametrize("target", [5, 10, 40])
def test_after_a_reset_old_entries_are_obsolete_until_a_checkpoint_has_deleted_them(target: int) -> None:
    """Of LOG-2: back means deliver again, forward means skip, and neither is undone by the next crash."""
    world = World()
    world.checkpoint(10, settled(0, 15, 50), held(12))
    world.reset_offset(target)
    found = world.recover()
    assert found.entries == (Position("T", "", target, target, target, 0),)
    assert set(found.obsolete) == {encode_entry(GROUP, entry)[0] for entry in (settled(0, 15), held(12))}
    assert found.is_decided_here
    assert world.recover_anew() == found, "nothing was written: the same again after a crash"
    world.changelog.append(0, [(key, None) for key in found.obsolete])
    last = world.checkpoint(target)
    assert world.recover().entries == (last,)
    assert world.recover() == world.recover_anew()


@pytest.mark.parametrize(
    ("begin", "left"),
    [
        (lambda world: world.reset_offset(20), [4, 12]),
        (lambda world: world.reset_offset(8), [4]),
        (lambda world: world.reset_offset(2), []),
        (lambda world: world.reset_offset(8, "jbm.f.0:0"), [4]),
        (lambda world: world.kafka.topics[TOPIC].begins.__setitem__(0, 40), [4, 12, 20]),
        (lambda world: None, [4, 12]),
    ],
    ids=["a reset on", "back", "to before it", "an older checkpoint", "a log that lost more", "as it was"],
)
def test_what_is_parked_below_the_beginning_is_owed(begin: Callable[[World], None], left: list[int]) -> None:
    """LOG-2, LOG-8: with its count, and what a crash found in hand counts."""
    world = World()
    rows = [Parked(offset, b"u", b"body", (), 1, 1_000) for offset in (4, 12, 20)]
    attempted = Attempted(0, BitMap([4, 16]).serialize())
    world.checkpoint(15, *rows, held(4), held(12), held(20), held(16), attempted)
    begin(world)
    found = world.recover()
    assert [row.offset for row in found.parked] == left
    assert {entry.offset for entry in found.entries if isinstance(entry, Held)} >= set(left)
    state = ChannelState()
    for entry in found.entries:
        state.apply(entry)
    assert set(left) == {offset for offset in state.unsettled if offset < found.start_position}
    assert {offset: state.redeliveries[offset].attempts for offset in left} == {
        offset: 1 + (offset == 4) for offset in left
    }


@pytest.mark.parametrize(("target", "known"), [(40, [3, 8]), (8, [3]), (1, [])])
def test_a_reset_forgot_the_duplicate_ids_of_what_it_does_not_deliver_again(target: int, known: list[int]) -> None:
    """Of SEND-8 and LOG-2: what was done a moment before was done twice when it was sent once more."""
    world = World()
    seen = {offset: SeenId(bytes([offset] * 16), offset, 1_000) for offset in (3, 8)}
    world.checkpoint(10, settled(0, 15), Duplicates(0, tuple(seen.values())))
    world.reset_offset(target)
    [_, *others] = world.recover().entries
    assert others == ([Duplicates(0, tuple(seen[offset] for offset in known))] if known else [])


@pytest.mark.parametrize(
    ("target", "effect"),
    [
        (4, ["again comes what was delivered of partition 0 from 4 on. To undo it", "not once that has come"]),
        (160_000, ["never comes what was not settled of partition 0 from 10 to 159999. To undo it"]),
        (
            12,
            [
                "again comes what was delivered of partition 0 from 12 on; never comes",
                "of partition 0 from 10 to 11. To",
            ],
        ),
    ],
)
def test_a_reset_which_nobody_else_knew_of_left_no_trace_in_a_log_of_problems(
    caplog: pytest.LogCaptureFixture, target: int, effect: list[str]
) -> None:
    """Of LOG-2: messages came twice, or not at all, and an INFO line that no page listed was all there was."""
    world = World()
    world.checkpoint(10, settled(0, 15, 50), held(12))
    world.reset_offset(target)
    world.recover()
    [line] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith(f"orders: somebody reset the offsets of group {GROUP}: ")
    assert "set the offset of partition 0 to 10" in line
    assert all(each in line for each in effect), line


def test_of_a_reset_each_partition_had_a_long_line(caplog: pytest.LogCaptureFixture) -> None:
    """Of LOG-2: eight lines, each with checkpoints' names first. The numbers of each are for DEBUG."""
    caplog.set_level(logging.DEBUG)
    world = World()
    for partition in (0, 1):
        world.checkpoint(10, partition=partition)
        world.kafka.offsets[GROUP, TOPIC, partition] = CommittedOffset(5, "")
    world.recover(partitions=(1, 0))
    [line] = [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG]
    assert line == (
        f"orders: somebody reset the offsets of group {GROUP}: again comes what was delivered of partitions 0-1 from 5 "
        "on. To undo it stop the workers and set the offset of partitions 0-1 to 10; not once that has come: it would "
        "come again"
    )
    details = [record.getMessage() for record in caplog.records if "the group's offset was reset" in record.message]
    assert len(details) == 2


def test_of_a_reset_that_changes_nothing_and_to_one_who_looks_no_warning_is_given(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.reset_offset(0)
    world.recover()  # before anybody received
    world.checkpoint(10)
    world.reset_offset(5)
    recover_channels(
        SCOPE,
        (0,),
        admin=world.kafka,
        reader=world.kafka,
        journal=world.journal,
        timeout_s=1,
        pause=world.pauses.append,
        is_look=True,
    )
    assert [record.levelname for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_an_offset_restored_with_its_metadata_means_deliver_again_and_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.checkpoint(10)
    world.checkpoint(60, settled(0, 70))
    world.reset_offset(10, "jbm.f.0:1")
    found = world.recover()
    assert (found.start_position, found.reason) == (10, StartReason.OLDER_CHECKPOINT)
    assert "committed offset 10 by checkpoint jbm.f.0:1" in caplog.text
    assert "changelog at 60 by checkpoint jbm.f.0:2" in caplog.text
    assert world.pauses == [LATER_S] * LATER_READINGS_MAX


def test_of_restored_offsets_each_partition_had_a_line(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    for partition in (0, 1):
        world.checkpoint(60, partition=partition)
        world.kafka.offsets[GROUP, TOPIC, partition] = CommittedOffset(10, "jbm.f.0:0")
    world.recover(partitions=(0, 1))
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert line.startswith(f"orders: offsets of group {GROUP} are older than its changelog, and taken for a ")
    assert "(partitions 0-1; 0 begins at 10: " in line


@pytest.mark.parametrize("stale", [3, READINGS_MAX, READINGS_MAX + LATER_READINGS_MAX - 1])
def test_a_broker_that_had_just_started_told_an_offset_of_a_moment_before_and_all_since_it_came_again(
    caplog: pytest.LogCaptureFixture, stale: int
) -> None:
    """Of LOG-3: taken for an operator's reset, with what was acknowledged since."""
    world = World()
    world.checkpoint(10)
    before = dict(world.kafka.offsets)
    position = world.checkpoint(60, settled(0, 70))

    class JustStarted(ScriptedKafka):
        def committed(self, group: str, topic: str, partitions: object, **_: object) -> dict[int, CommittedOffset]:
            self.offsets = before if self.committed_asked < stale else now
            return dict(super().committed(group, topic, (0,)))

    now = dict(world.kafka.offsets)
    world.kafka = JustStarted(world.kafka.topics, world.kafka.offsets)
    found = world.recover()
    assert (found.entries, found.reason) == ((position, settled(0, 70)), StartReason.CHANGELOG)
    assert not [record for record in caplog.records if record.levelname != "DEBUG"]


def test_a_checkpoint_between_two_questions_is_no_dispute() -> None:
    """A living owner goes on writing while somebody only looks."""
    world = World()
    world.checkpoint(10)

    class Moving(ScriptedKafka):
        def committed(self, group: str, topic: str, partitions: object, **_: object) -> dict[int, CommittedOffset]:
            answer = dict(super().committed(group, topic, (0,)))
            if self.committed_asked == 1:
                world.checkpoint(20)
            return answer

    world.kafka = Moving(world.kafka.topics, world.kafka.offsets)
    found = world.recover()
    assert (found.start_position, found.reason) == (20, StartReason.CHANGELOG)
    assert world.kafka.committed_asked == 2


@pytest.mark.parametrize("step", [10, 0], ids=["it settles", "only its other entries change"])
def test_a_look_at_a_busy_queue_took_its_owners_next_checkpoint_for_a_reset(
    caplog: pytest.LogCaptureFixture, step: int
) -> None:
    """Of LOG-3: a checkpoint between any two questions; what was settled was shown again, and a reset advised."""
    world = World()
    world.checkpoint(10)

    class Busy(ScriptedKafka):
        def committed(self, group: str, topic: str, partitions: object, **_: object) -> dict[int, CommittedOffset]:
            answer = dict(super().committed(group, topic, (0,)))
            number = self.committed_asked
            world.checkpoint(10 + step * number, settled(0, 70), held(80 + number))
            return answer

    world.kafka = Busy(world.kafka.topics, world.kafka.offsets)
    found = world.recover()
    asked = world.kafka.committed_asked
    assert (found.start_position, found.reason) == (10 + step * asked, StartReason.OWNER_GOES_ON)
    assert settled(0, 70) in found.entries
    assert held(80 + asked) in found.entries
    assert not [record for record in caplog.records if record.levelname != "DEBUG"]


def test_a_reset_is_honoured_though_an_owner_wrote_before_it() -> None:
    """Of LOG-2: the owner goes, and the operator's tool sets the offset, between two questions of somebody's look."""
    world = World()
    world.checkpoint(10)

    class ResetLater(ScriptedKafka):
        def committed(self, group: str, topic: str, partitions: object, **_: object) -> dict[int, CommittedOffset]:
            if self.committed_asked == 1:
                world.reset_offset(5)
            answer = dict(super().committed(group, topic, (0,)))
            if self.committed_asked == 1:
                world.checkpoint(20)
            return answer

    world.kafka = ResetLater(world.kafka.topics, world.kafka.offsets)
    found = world.recover()
    assert (found.start_position, found.reason) == (5, StartReason.OPERATOR_RESET)


def test_an_open_transaction_in_front_of_the_end_is_waited_for_and_told() -> None:
    world = World()
    world.checkpoint(10)
    world.kafka.stuck = "an open transaction holds the end back"
    with pytest.raises(Unreachable, match="open transaction"):
        world.recover()


def test_a_long_sparse_changelog_is_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of LOG-8: memory is bounded by the slice, time by what compaction left."""
    monkeypatch.setattr("jbm_kafka.store.changelog_reader.OFFSETS_PER_READ", 16)
    world = World()
    for number in range(40):
        last = world.checkpoint(number, *(held(offset, number + 1) for offset in range(50, 70)))
    expected = (last, *(held(offset, 40) for offset in range(50, 70)))
    assert world.recover_anew().entries == expected
    world.changelog.compact(0)
    assert world.recover_anew().entries == expected


def note_parked(world: World, count: int, checkpoint_id: str | None = None) -> None:
    """As a checkpoint writes it beside; None: that of the latest."""
    latest = f"jbm.f.0:{world.number}" if checkpoint_id is None else checkpoint_id
    world.kafka.offsets[companion_of(GROUP), TOPIC, 0] = CommittedOffset(count, latest)


def parked(*offsets: int) -> list[Parked]:
    return [Parked(offset, b"u", b"body", (), 1, 1_000) for offset in offsets]


def lose_all(world: World) -> None:
    del world.kafka.topics[CHANGELOG]


def lose_some(world: World) -> None:
    """As a retention that somebody set, or an owner that died while it wrote the changelog anew."""
    key = encode_entry(GROUP, parked(4)[0])[0]
    world.changelog.logs[0] = {offset: row for offset, row in world.changelog.logs[0].items() if row[0] != key}


@pytest.mark.parametrize(("lose", "lost"), [(lose_all, 2), (lose_some, 1)], ids=["all of it", "some of it"])
@pytest.mark.parametrize("later", [0, 1], ids=["written by the latest checkpoint", "and one came since"])
def test_a_changelog_that_has_lost_what_was_parked_was_taken_for_one_of_a_queue_that_holds_nothing(
    caplog: pytest.LogCaptureFixture, lose: Callable[[World], None], lost: int, later: int
) -> None:
    """LOG-11: nothing else had these messages."""
    world = World()
    world.checkpoint(15, *parked(4, 12))
    note_parked(world, 2)
    for _ in range(later):
        world.checkpoint(16)
    lose(world)
    found = world.recover_anew()
    assert found.parked_lost == lost
    said = f"{lost} message{'s that were' if lost > 1 else ' that was'} parked"
    (line,) = [each for each in caplog.records if each.levelname == "ERROR"]
    for text in (found.closed_because, line.getMessage()):
        assert said in text
        assert f"delete the group {GROUP}.parked" in text
    assert len(world.pauses) == LATER_READINGS_MAX, "a broker that has just started may have said it"


def test_a_look_does_not_wait_to_say_what_was_lost(caplog: pytest.LogCaptureFixture) -> None:
    """LOG-11."""
    world = World()
    world.checkpoint(15, *parked(4, 12))
    note_parked(world, 2)
    lose_all(world)
    found = recover_channels(
        SCOPE, (0,), admin=world.kafka, reader=world.kafka, journal=MemoryJournal(clock=world.clock), timeout_s=1,
        pause=world.pauses.append, is_look=True,
    )[0]  # fmt: skip
    assert (found.parked_lost, world.pauses) == (2, [])
    assert not [each for each in caplog.records if each.levelno > logging.INFO]


@pytest.mark.parametrize(
    "told",
    [
        lambda world: None,
        lambda world: note_parked(world, 2, "jbm.other.0:1"),
        lambda world: note_parked(world, 2, ""),
    ],
    ids=["no number", "another process wrote since", "an operator's"],
)
def test_how_much_was_parked_is_unknown_where_nobody_says_it(
    caplog: pytest.LogCaptureFixture, told: Callable[[World], None]
) -> None:
    """LOG-11: it goes on, and says so."""
    world = World()
    world.checkpoint(15, *parked(4, 12))
    told(world)
    lose_all(world)
    found = world.recover_anew()
    assert (found.parked_lost, found.closed_because, found.reason) == (None, "", StartReason.COMMITTED_OFFSET)
    assert "how many messages it had parked there, if any, is not known" in caplog.text


def as_it_was(world: World) -> None:
    note_parked(world, 2)


def with_none_parked(world: World) -> None:
    note_parked(world, 0)
    lose_all(world)


def with_an_older_number(world: World) -> None:
    note_parked(world, 3, "jbm.other.0:1")


def with_a_newer_number(world: World) -> None:
    """Of a checkpoint that came after the changelog was read."""
    note_parked(world, 3, f"jbm.f.0:{world.number + 1}")


def with_a_damaged_one(world: World) -> None:
    note_parked(world, 2)
    corrupt(world, parked(12)[0])


def with_another_topic(world: World) -> None:
    note_parked(world, 3)
    last = Position("another", f"jbm.f.0:{world.number}", 15, 15, 15, 0)
    world.changelog.append(0, [encode_entry(GROUP, last)])


def after_a_reset(world: World) -> None:
    note_parked(world, 2)
    world.reset_offset(2)


@pytest.mark.parametrize(
    "told",
    [
        as_it_was,
        with_none_parked,
        with_an_older_number,
        with_a_newer_number,
        with_a_damaged_one,
        with_another_topic,
        after_a_reset,
    ],
    ids=lambda told: told.__name__,
)
def test_nothing_that_was_parked_is_called_lost_that_is_not(told: Callable[[World], None]) -> None:
    """LOG-11."""
    world = World()
    world.checkpoint(15, *parked(4, 12))
    told(world)
    found = world.recover_anew()
    assert (found.parked_lost, found.closed_because) == (0, "")


def test_a_journal_that_lacks_what_was_parked_is_not_believed() -> None:
    """LOG-7, LOG-11: the changelog has it."""
    world = World()
    last = world.checkpoint(15, *parked(4, 12))
    note_parked(world, 2)
    world.write_journal(last)
    world.journal.write({SCOPE.journal_channel(0): (world.changelog.ends[0], {CHANGELOG_ID_KEY: b"L"})})
    found = world.recover()
    assert ([row.offset for row in found.parked], found.parked_lost) == ([4, 12], 0)


def test_credentials_that_may_not_read_the_number_open_the_channel(caplog: pytest.LogCaptureFixture) -> None:
    """Of LOG-11: rights of before cover the group alone."""

    class Refusing(ScriptedKafka):
        def committed(
            self, group: str, topic: str, partitions: Sequence[int], *, timeout_s: float | None = None
        ) -> Mapping[int, CommittedOffset]:
            if group == companion_of(GROUP):
                raise AccessRefused("GROUP_AUTHORIZATION_FAILED")
            return super().committed(group, topic, partitions, timeout_s=timeout_s)

    world = World()
    world.checkpoint(15, *parked(4, 12))
    world.kafka = Refusing(world.kafka.topics, world.kafka.offsets)
    caplog.set_level(logging.INFO)
    found = world.recover()
    assert ([row.offset for row in found.parked], found.may_note, found.closed_because) == ([4, 12], False, "")
    assert f"allow Read on the group {GROUP}.parked" in caplog.text


def test_without_an_answer_only_a_missing_changelog_waits_for_the_number() -> None:
    """LOG-11."""

    class Silent(ScriptedKafka):
        def committed(
            self, group: str, topic: str, partitions: Sequence[int], *, timeout_s: float | None = None
        ) -> Mapping[int, CommittedOffset]:
            if group == companion_of(GROUP):
                raise Unreachable("Timed out")
            return super().committed(group, topic, partitions, timeout_s=timeout_s)

    world = World()
    world.checkpoint(15, *parked(4, 12))
    world.kafka = Silent(world.kafka.topics, world.kafka.offsets)
    assert world.recover_anew().parked_noted is None, "it is written anew"
    lose_all(world)
    with pytest.raises(Unreachable):
        world.recover_anew()
