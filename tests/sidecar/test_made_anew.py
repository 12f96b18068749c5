"""A topic that is deleted and made anew under a live consumer, and has outgrown the old position by the next fetch."""

from __future__ import annotations

import logging

import pytest

from jbm_kafka.codec.changelog import decode_entry
from jbm_kafka.core.channel.entries import Position
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.topics.topic_watch import LOOK_S
from tests.sidecar.stepped import QUEUE, SteppedSidecar
from tests.support.manual_clock import ManualClock

LOOK_MS = int(LOOK_S * 1000)


def make_anew(one: SteppedSidecar, *bodies: str) -> None:
    """Between two fetches."""
    with one.cluster.changed:
        one.cluster.delete_topic(QUEUE.name)
        one.cluster.create_topic(QUEUE.name, 1, {})
        one.send(*bodies)


def settle(one: SteppedSidecar, link: Link, offsets: list[int]) -> None:
    """Acknowledged and recorded."""
    link.settlement.leases[0].acked.extend(offsets)
    one.run_for(200)


def test_a_topic_made_anew_that_outgrew_the_old_position_is_read_from_its_start(one: SteppedSidecar) -> None:
    """Of LOG-4: nothing of the new topic is passed over."""
    link = one.attach("s")
    one.send("old 0", "old 1", "old 2")
    settle(one, link, one.receive(link, 3))
    make_anew(one, *(f"new {n}" for n in range(6)))
    one.run_for(LOOK_MS + 1_000)
    assert one.receive(link, 6) == [0, 1, 2, 3, 4, 5]


def test_the_client_that_knew_the_old_topic_never_reads_the_new_one(one: SteppedSidecar) -> None:
    """Of LOG-4: librdkafka takes leaders of the new one for outdated; tests/jms plays it on a broker."""
    link = one.attach("s")
    one.send("old 0")
    settle(one, link, one.receive(link, 1))
    knows_the_old = one.group_worker.data.consumer
    one.run_for(LOOK_MS + 1_000)
    assert one.group_worker.data.consumer is knows_the_old
    make_anew(one, "new 0")
    one.run_for(LOOK_MS + 1_000)
    assert one.receive(link, 1) == [0]
    assert one.group_worker.data.consumer is not knows_the_old
    knows_the_new = one.group_worker.data.consumer
    one.run_for(LOOK_MS + 1_000)
    assert one.group_worker.data.consumer is knows_the_new


def test_what_was_settled_since_a_topic_was_made_anew_comes_again(one: SteppedSidecar) -> None:
    """Of LOG-4: it was settled of a topic that its reader took for another, and the changelog says so no more."""
    link = one.attach("s")
    one.send("old 0", "old 1", "old 2")
    settle(one, link, one.receive(link, 3))
    make_anew(one, *(f"new {n}" for n in range(6)))
    in_the_middle = one.receive(link, 3)
    assert in_the_middle == [3, 4, 5]
    settle(one, link, in_the_middle)
    one.run_for(LOOK_MS + 1_000)
    assert one.receive(link, 6) == [0, 1, 2, 3, 4, 5]
    log = one.cluster.log(QUEUE.changelog_topic(), 0)
    told = [decode_entry(r.key(), r.value())[1] for r in log.read(0, 1_000, committed_only=True)[0] if r.value()]
    assert [entry.topic_id for entry in told if isinstance(entry, Position)][-1] == (
        one.cluster.topics[QUEUE.name].topic_id
    )


def marks(one: SteppedSidecar, link: Link, count: int) -> list[tuple[int, bool, int]]:
    """Offset, JMSRedelivered and JMSXDeliveryCount of the next so many."""
    link.demand.credit = count
    one.run(lambda: len(link.buffer) >= count)
    taken = [link.pop() for _ in range(count)]
    return [(d.offset, d.count.redelivered, d.count.delivery_count) for d in taken if d is not None]


def test_what_was_received_of_a_topic_before_it_was_found_to_be_anew_came_again_unmarked(one: SteppedSidecar) -> None:
    """Of REDELIVER-7, LOG-2: what may have been handed over is marked, and what came after it is not."""
    link = one.attach("s")
    one.send("old 0", "old 1")
    settle(one, link, one.receive(link, 2))
    make_anew(one, *(f"new {n}" for n in range(4)))
    settle(one, link, one.receive(link, 2))
    one.send("new 4")
    one.run_for(LOOK_MS + 1_000)
    one.send("new 5")
    assert marks(one, link, 6) == [*((offset, True, 2) for offset in range(4)), (4, False, 1), (5, False, 1)]


def test_of_a_shorter_topic_made_anew_nothing_was_handed_over(
    one: SteppedSidecar, caplog: pytest.LogCaptureFixture
) -> None:
    """Of REDELIVER-7: its end lay before the old position."""
    link = one.attach("s")
    one.send("old 0", "old 1", "old 2")
    settle(one, link, one.receive(link, 3))
    make_anew(one, "new 0", "new 1")
    assert marks(one, link, 2) == [(0, False, 1), (1, False, 1)]
    assert "the log lost what the queue still held (its topic was made anew, " in caplog.text, (
        "retention alone was named"
    )


def test_after_a_break_of_a_connection_the_topic_is_looked_at_at_once(one: SteppedSidecar) -> None:
    """A broker that was away may come back with another topic."""
    link = one.attach("s")
    one.send("old 0", "old 1", "old 2")
    settle(one, link, one.receive(link, 3))
    one.run_for(LOOK_MS + 1_000)
    make_anew(one, *(f"new {n}" for n in range(6)))
    one.cluster.faults.breaks += 1
    one.run_for(100)
    began_ms = one.clock.monotonic_ms()
    link.demand.credit = 6
    one.run(lambda: len(link.buffer) >= 6)
    assert [delivery.offset for delivery in link.buffer.ready] == [0, 1, 2, 3, 4, 5]
    assert one.clock.monotonic_ms() - began_ms < LOOK_MS // 2


def test_events_and_registry_deleted_while_running_stop_nothing_for_long(one: SteppedSidecar) -> None:
    """Nothing was recorded any more, and each commit was in doubt after a minute."""
    link = one.attach("s")
    one.send("a", "b")
    settle(one, link, one.receive(link, 1))
    for name in ("jbm.events", "jbm.registry"):
        one.cluster.delete_topic(name)
    recorded = one.sidecar.checkpointer.checkpoints
    settle(one, link, one.receive(link, 1))
    one.run_for(LOOK_MS + 3_000)
    assert one.sidecar.checkpointer.checkpoints > recorded
    assert not one.group_worker.data.channels[0].needs_checkpoint


def test_a_topic_made_anew_with_fewer_partitions_is_read_on_with_those_there_are() -> None:
    """Of LOG-4: the group worker ended, and its receivers were told that the topic is unknown."""
    sidecar = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False), partitions=3)
    link = sidecar.attach("s")
    sidecar.run(lambda: len(sidecar.group_worker.data.channels) == 3)
    group_worker = sidecar.group_worker
    with sidecar.cluster.changed:
        sidecar.cluster.delete_topic(QUEUE.name)
        sidecar.cluster.create_topic(QUEUE.name, 1, {})
        sidecar.send("new")
    assert sidecar.receive(link, 1) == [0]
    assert sidecar.group_worker is group_worker
    assert group_worker.is_running
    assert list(group_worker.data.channels) == [0]
    sidecar.run_for(LOOK_MS + 1_000)
    assert link.notices.failure is None
    sidecar.crash()


def test_of_a_deleted_topic_nothing_is_delivered_again(one: SteppedSidecar, caplog: pytest.LogCaptureFixture) -> None:
    """The line said so of messages that are gone with it."""
    link = one.attach("s")
    one.send("old 0", "old 1")
    assert one.receive(link, 2) == [0, 1]
    caplog.set_level(logging.INFO)
    make_anew(one, *(f"new {n}" for n in range(6)))
    one.run_for(LOOK_MS + 1_000)
    (line,) = [row.getMessage() for row in caplog.records if "are taken from it" in row.getMessage()]
    assert line.endswith("offsets 0 to 1; they are gone with their topic")
