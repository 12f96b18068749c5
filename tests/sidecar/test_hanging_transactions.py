"""A checkpoint that was committed, and that a restarted broker left open in its partitions: decision 58."""

from __future__ import annotations

import pytest

from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.checkpoints.hanging_transactions import RECENT_MS
from tests.sidecar.stepped import QUEUE, SteppedSidecar


def settle_two(one: SteppedSidecar) -> Link:
    """The next checkpoint records them."""
    link = one.attach("s")
    one.send("a", "b", "c")
    offsets = one.receive(link, 2)
    one.run_for(200)
    link.settlement.leases[0].acked.extend(offsets)
    return link


def lose_partitions(one: SteppedSidecar) -> None:
    """As in an outage that is longer than the session timeout."""
    group = QUEUE.group_id()
    one.cluster.expire_member(group, next(iter(one.cluster.group(group).members)))
    before = one.group_worker.data.channels[0]
    one.run(lambda: one.group_worker.data.channels.get(0) is not before)


def test_what_kafka_left_open_of_a_committed_checkpoint_held_its_partitions_for_good(
    one: SteppedSidecar, cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """LOG-5: the worker stood still until somebody restarted it, or aborted what had been told to be committed."""
    link = settle_two(one)
    cluster.faults.forgotten_marks = 1
    one.run(lambda: cluster.faults.forgotten_marks == 0)
    silent_since_ms = cluster.clock.monotonic_ms()
    lose_partitions(one)
    one.run_for(5_000)
    assert not one.group_worker.data.channels
    caplog.clear()
    one.sidecar.checkpointer.schedule.note_back(silent_since_ms)
    one.run(lambda: bool(one.group_worker.data.channels))
    assert one.receive(link, 1) == [2], "what was acknowledged came again"
    [told] = [record.getMessage() for record in caplog.records if record.name.endswith("hanging_transactions")]
    assert told.startswith("what a broker that restarted left open of checkpoint jbm.one.0:")


@pytest.mark.parametrize("is_recent", [True, False])
def test_of_what_ended_nothing_is_written_once_more(
    one: SteppedSidecar, cluster: MemoryCluster, is_recent: bool
) -> None:
    """Of a checkpoint whose offsets are told, or that others may have followed; else it would undo theirs."""
    settle_two(one)
    one.run_for(200)
    cluster.faults.forgotten_marks = 0 if is_recent else 1
    begun_ms = cluster.clock.monotonic_ms()
    one.send("d")
    before = cluster.log(QUEUE.changelog_topic(), 0).end
    one.run_for(RECENT_MS + 2_000)
    ends = cluster.log(QUEUE.changelog_topic(), 0).end
    silent_since_ms = begun_ms if is_recent else cluster.clock.monotonic_ms()
    one.sidecar.checkpointer.schedule.note_back(silent_since_ms)
    one.run_for(2_000)
    assert before <= ends == cluster.log(QUEUE.changelog_topic(), 0).end


def test_nothing_is_written_again_of_what_was_given_up_in_order(one: SteppedSidecar) -> None:
    """LOG-6: who has it next may have committed more by then, and would be set back."""
    settle_two(one)
    one.run_for(200)
    latest = one.sidecar.checkpointer._hanging._latest
    assert any(places for _, places in latest.values())
    one.group_worker.stop()
    one.run_for(1_000)
    assert not any(places for _, places in latest.values())
