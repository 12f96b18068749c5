"""A changelog that is deleted beside workers that go on: the next owner knows what it said (LOG-3, LOG-7)."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.ports.deliveries import Disposition
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.channel.channel_changelog import ChannelChangelog, LostEntries
from jbm_kafka.sidecar.checkpoints.transaction import TransactionWriter
from jbm_kafka.sidecar.topics.topic_watch import LOOK_S
from jbm_kafka.store.changelog_reader import CHANGELOG_ID_KEY
from tests.sidecar.stepped import CHECKPOINTS, QUEUE, SteppedSidecar

LOOK_MS = int(LOOK_S * 1000)
CHANGELOG = QUEUE.changelog_topic()


def with_something_recorded(one: SteppedSidecar) -> Link:
    """Of ten messages the second and fourth are acknowledged, and the first was returned twice, counted."""
    link = one.attach("s")
    one.send(*map(str, range(10)))
    assert one.receive(link, 4) == [0, 1, 2, 3]
    link.settlement.leases[0].acked.extend([1, 3])
    for again in ([0], []):
        returned = [(link.settlement.leases[0], Modified(0, counted=True))]
        link.settlement.dispositions.append(Disposition(returned=returned))
        one.run_for(1_500)
        assert one.receive(link, len(again)) == again
    return link


def at_the_next_owner(one: SteppedSidecar, count: int) -> list[tuple[int, int]]:
    """The process dies. Offset and JMSXDeliveryCount of what another one receives, which has no local state."""
    one.crash()
    other = SteppedSidecar("two", one.cluster)
    link = other.attach("t")
    link.demand.credit = count
    other.run(lambda: len(link.buffer) >= count)
    taken = [link.pop() for _ in range(count)]
    other.crash()
    return [(d.offset, d.count.delivery_count) for d in taken if d is not None]


AS_RECORDED = [(0, 3), (2, 2), *((offset, 2) for offset in range(4, 10))]
"""All below the mark count as seen; offset 0 has its two attempts, too."""


def test_what_the_next_owner_knows_where_nothing_is_deleted(one: SteppedSidecar) -> None:
    with_something_recorded(one)
    assert at_the_next_owner(one, 8) == AS_RECORDED


def test_acknowledged_messages_came_again_after_somebody_had_deleted_an_idle_queues_changelog(
    one: SteppedSidecar, caplog: pytest.LogCaptureFixture
) -> None:
    with_something_recorded(one)
    one.cluster.delete_topic(CHANGELOG)
    one.run_for(LOOK_MS + 4_000)
    assert "queue:orders: its changelog orders.jbm-changelog was deleted; it is made again" in caplog.text
    assert caplog.text.count("was deleted") == 1
    assert at_the_next_owner(one, 8) == AS_RECORDED


def test_acknowledged_messages_came_again_after_another_process_had_made_the_changelog_again(
    one: SteppedSidecar,
) -> None:
    """And a checkpoint had said what changed since, before anybody looked."""
    link = with_something_recorded(one)
    one.cluster.delete_topic(CHANGELOG)
    one.cluster.create_topic(CHANGELOG, 1, {"cleanup.policy": "compact"})
    link.settlement.leases[0].acked.append(2)
    one.run_for(LOOK_MS + 4_000)
    assert at_the_next_owner(one, 7) == [(0, 3), *((offset, 2) for offset in range(4, 10))]


def test_what_the_journal_has_is_of_the_changelog_that_is_written_now(one: SteppedSidecar) -> None:
    """Else the next start of the same process would discard it, and read everything."""
    with_something_recorded(one)
    one.cluster.delete_topic(CHANGELOG)
    one.run_for(LOOK_MS + 4_000)
    (channel,) = one.group_worker.data.channels.values()
    assert channel.changelog.lost is None
    assert channel.changelog.changelog_id == one.cluster.topics[CHANGELOG].topic_id
    assert 0 < channel.changelog.position <= one.cluster.log(CHANGELOG, 0).end
    journalled = one.journal.entries(channel.changelog.journal_channel)
    assert journalled[CHANGELOG_ID_KEY] == one.cluster.topics[CHANGELOG].topic_id.encode()


def test_a_second_loss_that_is_heard_of_while_a_checkpoint_ends_was_forgotten(one: SteppedSidecar) -> None:
    """LOG-3: at whatever line of the checkpoint's thread its owner hears of it, it is written anew once more."""
    with_something_recorded(one)
    changelog = one.group_worker.data.channels[0].changelog
    lines: list[int] = []

    def hear(frame: FrameType, event: str, _: object) -> Any:
        if event == "line" and frame.f_lineno not in lines and changelog.changelog_id == "first":
            lines.append(frame.f_lineno)
            changelog.topic_is("second")
        return hear

    for count in range(1, 100):
        changelog.topic_is("first")
        sys.settrace(lambda frame, *_: hear if frame.f_code is TransactionWriter._journalled.__code__ else None)
        try:
            one.run(lambda: changelog.lost is None)
        finally:
            sys.settrace(None)
        if len(lines) < count:
            break
        assert one.journal.entries(changelog.journal_channel)[CHANGELOG_ID_KEY] == b"second", lines
    assert len(lines) > 3


def test_a_second_look_writes_nothing_anew(one: SteppedSidecar) -> None:
    with_something_recorded(one)
    one.run_for(3 * LOOK_MS)
    end = one.cluster.log(CHANGELOG, 0).end
    one.run_for(3 * LOOK_MS)
    assert one.cluster.log(CHANGELOG, 0).end == end


def test_a_topic_that_is_deleted_with_its_changelog_is_not_left_with_one(one: SteppedSidecar) -> None:
    """It is made again with the topic."""
    with_something_recorded(one)
    one.held.add(CHECKPOINTS)
    one.cluster.delete_topic(QUEUE.name)
    one.cluster.delete_topic(CHANGELOG)
    one.run_for(3 * LOOK_MS)
    assert CHANGELOG not in one.cluster.topics


def test_of_a_large_changelog_each_checkpoint_writes_a_portion_and_nothing_over_what_is_newer() -> None:
    lost = LostEntries("new", count_max=2)
    assert lost.must_load
    assert not lost.is_done
    lost.load({b"a": b"1", b"b": b"1", b"c": b"1", b"d": b"1"})
    assert lost.portion({b"a": b"2"}) == {b"b": b"1", b"c": b"1"}
    assert lost.portion({b"c": None}) == {b"a": b"1", b"b": b"1"}, "the checkpoint before was aborted"
    lost.written([b"a", b"b", b"c"])
    assert lost.portion({}) == {b"d": b"1"}
    assert not lost.is_done
    lost.written([b"d", b"e"])
    assert lost.is_done
    assert lost.portion({}) == {}


def test_a_changelog_that_was_not_there_when_its_channel_was_opened_was_not_lost() -> None:
    changelog = ChannelChangelog(group="g", topic="c", topic_id="t", position=0, journal_channel="j")
    assert changelog.topic_is("first")
    assert changelog.topic_is("first")
    assert not changelog.must_record
    assert not changelog.topic_is("second")
    assert changelog.must_record
