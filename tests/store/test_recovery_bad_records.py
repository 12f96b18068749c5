"""Goal: records that cannot be read or are gone cost their own news and nothing else."""

from __future__ import annotations

import logging

import pytest

from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.core.channel.entries import Entry, OffsetRange, Position
from jbm_kafka.core.channel.start_position import StartReason
from jbm_kafka.memory.memory_journal import MemoryJournal
from tests.support.recovery_world import CHANGELOG, GROUP, TOPIC, World, corrupt, held, settled


@pytest.mark.parametrize(
    ("entry", "consequence"),
    [(settled(0, 15), "were settled are delivered again"), (held(12), "count and the delay of its message begin anew")],
)
def test_a_corrupt_entry_is_skipped_with_one_warning_and_spoils_nothing_else(
    caplog: pytest.LogCaptureFixture, entry: Entry, consequence: str
) -> None:
    world = World()
    entries = (held(12), held(13), settled(0, 15), settled(1, 70_000))
    position = world.checkpoint(10, *entries)
    offset = corrupt(world, entry)
    found = world.recover()
    key = encode_entry(GROUP, entry)[0]
    assert set(found.entries) == {position, *entries} - {entry}
    assert found.obsolete == (key,)
    assert found.is_decided_here
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    line = record.getMessage()
    assert f"{CHANGELOG}[0] at offset {offset}" in line
    assert key.decode() in line
    assert consequence in line
    assert "\n" not in line
    assert world.recover() == found == world.recover_anew()


def test_without_a_readable_position_the_committed_offset_decides(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    position = world.checkpoint(10, settled(0, 15), held(12))
    corrupt(world, position)
    found = world.recover()
    expected = Position("T", position.checkpoint_id, 10, 16, 200_000, 0)
    assert found.entries == (expected, settled(0, 15), held(12))
    assert found.reason is StartReason.COMMITTED_OFFSET
    assert "the committed offset decides" in caplog.text
    assert world.recover_anew() == found


def test_of_a_changelog_that_was_deleted_each_partition_had_a_line_also_an_empty_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of LOG-4: sixteen warnings in a second, nine of partitions in which nothing can come again."""
    world = World()
    for partition in (0, 1):
        world.checkpoint(10, settled(0, 15), partition=partition)
    world.kafka.topics[TOPIC].ends[1] = 10
    world.changelog.logs[:] = [{} for _ in world.changelog.logs]
    caplog.set_level(logging.DEBUG)
    world.recover(MemoryJournal(clock=world.clock), partitions=(1, 0))
    [line] = [record.getMessage() for record in caplog.records if record.levelno > logging.DEBUG]
    assert line == (
        f"{TOPIC}: the changelog {CHANGELOG} of group {GROUP} was deleted, or lost: what the group acknowledged behind "
        "its oldest held message comes again (partition 0), and how many messages it had parked there, if any, is not "
        "known (partitions 0-1)"
    )
    assert sum("the committed offset decides" in record.getMessage() for record in caplog.records) == 2


def test_without_position_and_offset_all_is_delivered_again() -> None:
    """Of LOG-4: settled blocks of an unknown log must not hide messages."""
    world = World()
    corrupt(world, world.checkpoint(10, settled(0, 15)))
    world.kafka.offsets.clear()
    found = world.recover()
    assert (found.start_position, len(found.entries)) == (0, 1)
    assert len(found.obsolete) == 2


def test_a_foreign_record_in_the_changelog_is_ignored_and_told(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    position = world.checkpoint(10)
    world.changelog.append(0, [(b"hello", b"world"), (None, b"x"), (f"{GROUP}|held|x".encode(), b"?")])
    found = world.recover()
    assert found.entries == (position,)
    assert "hello" in caplog.text
    assert f"{GROUP}|held|x" in caplog.text


NEWER_SCHEMA = b"\xc3\x01" + b"\x07" * 9


@pytest.mark.parametrize("key", ["afterwards|12", "afterwards|a|b", "position|0", "held|12", "settled|0"])
def test_what_only_a_newer_version_reads_closes_its_partition_and_is_never_named_for_deletion(
    caplog: pytest.LogCaptureFixture, key: str
) -> None:
    """Of LOG-4: a parked message is in the changelog only."""
    world = World()
    world.checkpoint(10, settled(0, 15))
    other = world.checkpoint(20, partition=1)
    offset = world.changelog.ends[0]
    full_key = f"{GROUP}|{key}".encode()
    world.changelog.append(0, [(full_key, NEWER_SCHEMA)])
    found = world.recover()
    assert full_key not in found.obsolete
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (record.levelno, record.getMessage()) == (logging.ERROR, found.closed_because)
    for said in (f"{CHANGELOG}[0] at offset {offset}", key, "Run the newer jbm-kafka", "nothing of it is deleted"):
        assert said in found.closed_because
    assert "\n" not in found.closed_because
    assert world.recover() == found == world.recover_anew()
    beside = world.recover(partitions=(1,))
    assert (beside.closed_because, beside.entries) == ("", (other,))


def test_after_the_newer_version_deleted_it_the_partition_opens() -> None:
    world = World()
    position = world.checkpoint(10)
    key = f"{GROUP}|afterwards|12".encode()
    world.changelog.append(0, [(key, NEWER_SCHEMA)])
    assert world.recover().closed_because
    world.changelog.append(0, [(key, None)])
    found = world.recover()
    assert (found.closed_because, found.entries) == ("", (position,))


def test_above_a_lost_end_nothing_counts_as_settled() -> None:
    """Of LOG-4: new messages will get those offsets."""
    world = World()
    world.checkpoint(10, settled(0, 15, 60_000), settled(1, 70_000), held(12), held(60_001))
    world.kafka.topics[TOPIC].ends[0] = 50_000
    found = world.recover()
    assert found.reason is StartReason.LOG_BOUNDS
    position, *others = found.entries
    assert isinstance(position, Position)
    assert (position.watermark, position.fetched, position.offered) == (10, 50_000, 50_000)
    assert others == [settled(0, 15), held(12)]
    assert len(found.obsolete) == 2


def test_below_a_deleted_start_nothing_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """Its line spoke of where it begins, and of Kafka's tools, and not of what was lost."""
    world = World()
    world.checkpoint(10, settled(0, 15), settled(1, 70_000), held(12), held(70_001))
    world.kafka.topics[TOPIC].begins[0] = 70_000
    found = world.recover()
    assert found.start_position == 70_000
    assert found.entries[1:] == (settled(1, 70_000), held(70_001))
    assert found.skipped == OffsetRange(10, 69_999)
    assert caplog.messages == [
        f"{TOPIC}: retention, or somebody, deleted up to 69989 messages that group {GROUP} had not settled (partition "
        "0, offsets 10 to 69999), and what is left goes on; set retention.ms=-1 on the topic to keep messages until "
        "they are settled"
    ]


def test_of_retention_each_partition_had_a_long_line(caplog: pytest.LogCaptureFixture) -> None:
    """Of sixteen that said the same nobody saw how much was gone. What was settled is not counted."""
    world = World()
    world.checkpoint(10, settled(0, 12, 15))
    world.checkpoint(100, partition=1)
    world.kafka.topics[TOPIC].begins[:] = [20, 150]
    world.recover(partitions=(1, 0))
    [line] = caplog.messages
    assert (
        f"deleted up to 58 messages that group {GROUP} had not settled (partitions 0-1), and what is left goes on"
        in line
    )
    caplog.clear()
    world.kafka.topics[TOPIC].begins[:] = [11, 0]
    world.recover(partitions=(1, 0))
    assert f"deleted 1 message that group {GROUP} had not settled (partition 0, offset 10), and" in caplog.text


def test_nothing_counts_as_skipped_when_all_of_it_is_delivered() -> None:
    world = World()
    assert world.recover().skipped is None
    world.checkpoint(10, held(12))
    assert world.recover().skipped is None
    world.reset_offset(5)
    assert world.recover().skipped is None
    world.reset_offset(15)
    assert world.recover().skipped == OffsetRange(10, 14)


def test_without_a_readable_position_the_committed_offset_tells_what_was_skipped() -> None:
    world = World()
    corrupt(world, world.checkpoint(10))
    world.kafka.topics[TOPIC].begins[0] = 20
    assert world.recover().skipped == OffsetRange(10, 19)
