"""Goal: local state saves reading and changes nothing else (LOG-7)."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.core.channel.entries import Entry, HeldGone, Position
from jbm_kafka.core.channel.start_position import StartReason
from jbm_kafka.store.changelog_reader import CHANGELOG_ID_KEY
from jbm_kafka.store.folder import StateFolder
from jbm_kafka.store.recovery import recover_channels
from tests.support.recovery_world import CHANGELOG, GROUP, SCOPE, TOPIC, World, corrupt, held, settled

DELETIONS_KEPT_MS = 4 * 24 * 3600 * 1000
"""Longer than Kafka keeps the mark of a deletion, which compaction forgets only then."""


def test_with_local_state_only_what_is_new_is_read() -> None:
    """LOG-7: losing it loses time, nothing else."""
    world = World()
    world.checkpoint(10, *(held(offset) for offset in range(20, 1020)))
    world.recover()
    world.checkpoint(11, held(20, 2))
    world.kafka.records_read = 0
    with_local = world.recover()
    assert world.kafka.records_read == 2
    assert with_local == world.recover_anew()
    world.kafka.records_read = 0
    assert world.recover() == with_local
    assert world.kafka.records_read == 0


def test_a_new_channels_first_checkpoints_make_usable_local_state() -> None:
    world = World()
    world.recover()
    position = world.checkpoint(10, held(12))
    world.write_journal(position, held(12))
    assert world.recover().entries == (position, held(12))
    assert world.kafka.records_read == 0


def test_the_state_folder_serves_as_local_state(tmp_path: Path) -> None:
    """LOG-7: over a restart, and when the folder is gone."""
    world = World()
    world.checkpoint(10, *(held(offset) for offset in range(20, 50)), settled(0, 15))
    found = []
    for folder in ("first", "first", "second"):
        with StateFolder.open(tmp_path / folder, cluster_id="C") as opened:
            journal = opened.journal(clock=world.clock)
            found.append(world.recover(journal))
    assert found[0] == found[1] == found[2]
    assert world.kafka.records_read == 2 * 32, "the second start read nothing"


def test_local_state_ahead_of_the_changelog_is_not_believed() -> None:
    """LOG-7: it is never ahead of the changelog."""
    world = World()
    world.checkpoint(10, held(12))
    world.checkpoint(12, HeldGone(12))
    world.recover()
    world.changelog.ends[0] = 3  # the cluster lost the end of the log, the offset's too
    world.changelog.logs[0] = {o: row for o, row in world.changelog.logs[0].items() if o < 3}
    world.reset_offset(10, "jbm.f.0:1")
    assert world.recover() == world.recover_anew()
    assert held(12) in world.recover().entries


def test_local_state_of_a_changelog_that_was_deleted_is_not_believed() -> None:
    world = World()
    world.checkpoint(10, held(12))
    world.recover()
    world.kafka.add_topic(CHANGELOG, topic_id="L2", partitions=2)
    world.checkpoint(11)
    world.checkpoint(12)
    assert world.recover() == world.recover_anew()
    assert held(12) not in world.recover().entries


def test_local_state_of_another_topic_id_is_not_believed() -> None:
    world = World()
    old = world.checkpoint(10, held(12))
    world.recover()
    world.kafka.topics[TOPIC].topic_id = "T2"
    scope = replace(SCOPE, topic_id="T2")
    found = recover_channels(
        scope,
        (0,),
        admin=world.kafka,
        reader=world.kafka,
        journal=world.journal,
        timeout_s=1,
        pause=world.pauses.append,
    )[0]
    assert found.reason is StartReason.TOPIC_RECREATED
    assert found.entries == (replace(old, topic_id="T2", checkpoint_id="", watermark=0, fetched=0, offered=0),)
    assert found.obsolete == (encode_entry(GROUP, held(12))[0],)


def test_a_topic_made_anew_has_one_line_and_not_one_for_each_partition(caplog: pytest.LogCaptureFixture) -> None:
    """There were 32 for 16 partitions."""
    world = World()
    for partition in (0, 1):
        world.checkpoint(10, partition=partition)
    world.recover(partitions=(0, 1))
    caplog.set_level(logging.INFO)
    world.kafka.topics[TOPIC].topic_id = "T2"
    scope = replace(SCOPE, topic_id="T2")
    recover_channels(
        scope,
        (0, 1),
        admin=world.kafka,
        reader=world.kafka,
        journal=world.journal,
        timeout_s=1,
        pause=world.pauses.append,
    )
    [line] = caplog.records
    assert line.levelno == logging.WARNING
    assert f"{TOPIC}[0] begins at 0: the topic was made anew; changelog at 10" in line.getMessage()
    assert "; so do 1 more of its partitions; what was recorded is about the topic before" in line.getMessage()
    caplog.clear()
    told: dict[str, Any] = {
        "admin": world.kafka,
        "reader": world.kafka,
        "journal": world.journal,
        "pause": world.pauses.append,
    }
    recover_channels(scope, (0, 1), timeout_s=1, delivered_below=0, **told)
    assert not caplog.records, "an owner that opens one after the other has said so once"


def test_old_local_state_does_not_bring_back_what_was_deleted() -> None:
    """LOG-7: compaction has forgotten the deletion's mark by then."""
    world = World()
    world.checkpoint(10, held(12))
    world.recover()
    world.checkpoint(13, HeldGone(12))
    world.changelog.compact(0)
    world.clock.jump(DELETIONS_KEPT_MS)
    assert world.recover() == world.recover_anew()
    assert held(12) not in world.recover().entries


def test_damaged_local_state_is_rebuilt() -> None:
    world = World()
    world.checkpoint(10, held(12))
    expected = world.recover()
    channel = SCOPE.journal_channel(0)
    position, _ = world.journal.load(channel)
    world.journal.write({channel: (position, {encode_entry(GROUP, held(12))[0]: b"rubbish"})})
    assert world.recover() == expected


ACTS = st.one_of(
    st.tuples(st.just("settle"), st.integers(0, 2)),
    st.tuples(st.just("hold"), st.integers(0, 30)),
    st.tuples(st.just("let go"), st.integers(0, 30)),
    st.tuples(st.just("other group"), st.integers(0, 30)),
    st.tuples(st.just("compact"), st.just(0)),
    st.tuples(st.just("recover"), st.just(0)),
    st.tuples(st.just("corrupt"), st.integers(0, 30)),
    st.tuples(st.just("forget"), st.just(0)),
    st.tuples(st.just("live"), st.integers(0, 30)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(ACTS, max_size=25))
def test_with_and_without_local_state_the_same_comes_out(acts: list[tuple[str, int]]) -> None:
    """LOG-7: and it is what the checkpoints wrote, by a plain dictionary."""
    world = World()
    expected: dict[object, Entry] = {}
    for act, number in acts:
        match act:
            case "settle":
                entry: Entry = settled(number, (number << 16) + len(acts), (number << 16) + 100)
                expected["settled", number] = entry
            case "hold" | "corrupt" | "live":
                entry = held(number, world.number)
                expected["held", number] = entry
            case "let go":
                entry = HeldGone(number)
                expected.pop(("held", number), None)
            case _:
                entry = held(number)
        if act == "live":
            world.recover()
        if act in ("settle", "hold", "let go", "corrupt", "live"):
            expected["position"] = world.checkpoint(0, entry)
        if act == "live":
            world.write_journal(cast(Position, expected["position"]), entry)
        if act == "corrupt":
            corrupt(world, entry)
            del expected["held", number]
        elif act == "other group":
            world.checkpoint(5, entry, group="jbm.queue.other")
        elif act == "compact":
            world.clock.jump(DELETIONS_KEPT_MS)
            world.changelog.compact(0)
        elif act == "recover":
            world.recover()
        elif act == "forget":
            world.journal.discard(SCOPE.journal_channel(0))
    found, anew = world.recover(), world.recover_anew()
    assert found == anew
    if "position" in expected:
        assert set(found.entries) == set(expected.values())
    position, entries = world.journal.load(SCOPE.journal_channel(0))
    assert position == world.changelog.ends[0]
    assert cast(dict[bytes, bytes], entries).get(CHANGELOG_ID_KEY) == b"L"
