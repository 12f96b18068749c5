"""What a group worker does when its partitions come and go."""

from __future__ import annotations

import pytest

from jbm_kafka.core.jms_errors import IllegalStateError, TransactionInDoubtError, TransactionRolledBackError
from jbm_kafka.memory.memory_kafka import CommitFault, MemoryCluster
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Disposition
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Settling, Transfer
from jbm_kafka.sidecar.lane.assignment import LAST_CHECKPOINT_MS
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from tests.sidecar.parts import group_worker_behind
from tests.sidecar.stepped import CHECKPOINTS, QUEUE, Start, SteppedSidecar

LONGER_MS = LAST_CHECKPOINT_MS + 5_000
"""The group worker waits for the checkpoint no more."""


def one_frozen_channel(one: SteppedSidecar, link: Link, offsets: list[int]) -> OwnedChannel:
    """Acknowledged there, and the checkpoint that records it stops after the freeze."""
    one.run_for(200)
    channel = group_worker_behind(link).data.channels[0]
    link.settlement.leases[0].acked.extend(offsets)
    one.run(lambda: channel.checkpoints.freeze is not None)
    one.held.add(CHECKPOINTS)
    return channel


def test_a_topic_made_again_while_a_checkpoint_of_the_old_one_is_under_way_loses_no_message(
    cluster: MemoryCluster, start: Start
) -> None:
    """Of LOG-2: what that checkpoint says is settled was settled in another topic."""
    one = start("one")
    link = one.attach("s")
    one.send(*(f"old {number}" for number in range(40)))
    offsets = one.receive(link, 40)
    old = one_frozen_channel(one, link, offsets[5:])

    cluster.delete_topic(QUEUE.kafka_topic(""))
    cluster.create_topic(QUEUE.kafka_topic(""), 1, {})
    one.run(lambda: old.is_lost)
    one.run_for(500)
    one.held.clear()
    group_worker = group_worker_behind(link)
    one.run(lambda: 0 in group_worker.data.channels and old.checkpoints.freeze is None)
    one.send(*(f"new {number}" for number in range(20)))
    one.run_for(500)
    one.crash()

    two = start("two")
    assert two.receive(two.attach("t"), 20) == list(range(20))


def test_a_partition_is_given_up_though_the_end_of_a_commit_stays_unknown(start: Start) -> None:
    """ACK-7, REDELIVER-7: who takes part in the next checkpoint must not be half released, which stops the worker."""
    one = start("one")
    link = one.attach("s")
    one.send("paid")
    one.receive(link, 1)
    one.run_for(200)
    group_worker, channel = group_worker_behind(link), group_worker_behind(link).data.channels[0]
    settling = Settling(channel=channel, session="s", offsets=[0])
    commit = Transfer(about="a commit", sends=(), settlings=[(group_worker.checkpoint_part, settling)])
    one.sidecar.submit(commit)
    one.run(lambda: channel.checkpoints.freeze is not None)
    one.held.add(CHECKPOINTS)

    begun_ms = one.clock.monotonic_ms()
    one.cluster.faults.commits.append(CommitFault.NOT_HEARD)
    one.clock.watch(lambda: one.held.clear() if one.clock.monotonic_ms() > begun_ms + LONGER_MS else None)
    group_worker.stop()
    one.run(lambda: not group_worker.is_alive and commit.done.is_done)
    with pytest.raises(TransactionRolledBackError, match="moved to another process"):
        commit.done.wait(0.0, about="the commit")
    assert group_worker.failure is None


def test_what_a_deleted_topic_held_is_not_said_to_come_again(start: Start) -> None:
    """Of ACK-9: who has some of it in hand, or waits for its record, was told that another process has it now."""
    one, channel, done = one_acknowledging(start)
    link = one.attach("t")
    told: list[Exception] = []
    link.notices.on_trouble = told.append
    one.send("kept")
    one.receive(link, 1)
    one.held.add(CHECKPOINTS)
    one.group_worker.assignment.partition_gone(0, "orders[0]: fetched, and not there")
    one.run(lambda: channel.is_lost and bool(told))
    [taken] = told
    assert "the topic was deleted, or has this partition no more" in str(taken)
    assert "again" not in str(taken)
    with pytest.raises(TransactionRolledBackError, match="its messages are gone with it"):
        done.wait(0.0, about="the acknowledgement")


def one_acknowledging(start: Start) -> tuple[SteppedSidecar, OwnedChannel, Completion]:
    """A call that waits until its acknowledgement is recorded."""
    one = start("one")
    link = one.attach("s")
    one.send("paid")
    one.receive(link, 1)
    one.run_for(200)
    done = Completion()
    link.settlement.dispositions.append(Disposition(acknowledged=[(link.settlement.leases[0], 0)], done=done))
    return one, group_worker_behind(link).data.channels[0], done


def lose(one: SteppedSidecar, channel: OwnedChannel, group_worker: GroupWorker) -> None:
    """The group takes the process for dead and throws it out."""
    member = one.cluster.group(group_worker.data.group.group_id).members.copy().popitem()[0]
    with one.cluster.changed:
        one.cluster.expire_member(group_worker.data.group.group_id, member)
    one.run(lambda: channel.is_lost)


def test_an_acknowledgement_that_was_recorded_is_not_refused_because_its_partition_went(start: Start) -> None:
    """Of ACK-9: the call hears how its checkpoint ended, even when the partition is lost before that is known."""
    one, channel, done = one_acknowledging(start)
    group_worker = one.group_worker
    before = one.sidecar.checkpointer.checkpoints
    one.run(lambda: one.sidecar.checkpointer.checkpoints > before)
    one.held.add(CHECKPOINTS)
    lose(one, channel, group_worker)
    assert not done.is_done
    one.held.clear()
    one.run(lambda: done.is_done)
    done.wait(0.0, about="acknowledge")


def test_an_acknowledgement_that_was_not_recorded_is_refused_when_its_partition_went(start: Start) -> None:
    """Of ACK-9: nobody tries again what the group's fence turned away."""
    one, channel, done = one_acknowledging(start)
    one.run(lambda: channel.checkpoints.freeze is not None)
    one.held.add(CHECKPOINTS)
    lose(one, channel, one.group_worker)
    assert not done.is_done
    one.held.clear()
    one.run(lambda: done.is_done)
    with pytest.raises(TransactionRolledBackError, match="not recorded: this process lost the partition meanwhile"):
        done.wait(0.0, about="acknowledge")


def test_an_acknowledgement_whose_group_worker_ends_first_is_told_to_be_in_doubt(start: Start) -> None:
    """Of ACK-9: it waits no longer than its group worker, and is not called refused."""
    one, channel, done = one_acknowledging(start)
    one.run(lambda: channel.checkpoints.freeze is not None)
    one.held.add(CHECKPOINTS)
    group_worker = one.group_worker
    group_worker.stop()
    one.run(lambda: not group_worker.is_alive)
    with pytest.raises(TransactionInDoubtError, match="not known"):
        done.wait(0.0, about="acknowledge")


@pytest.mark.parametrize("stands_in", ["its channel", "a checkpoint"])
def test_an_acknowledgement_nobody_waits_for_is_told_to_be_refused_when_its_partition_went(
    start: Start, stands_in: str
) -> None:
    """Of ACK-9: what was recorded before is not named."""
    one = start("one")
    link = one.attach("s")
    one.send("recorded", "paid", "sent")
    one.receive(link, 3)
    told: list[Exception] = []
    link.notices.on_trouble = told.append
    group_worker, lease = group_worker_behind(link), link.settlement.leases[0]
    channel = group_worker.data.channels[0]
    lease.acknowledge(0)
    one.run(
        lambda: channel.state.watermark == 1 and not channel.needs_checkpoint and channel.checkpoints.freeze is None
    )
    if stands_in == "its channel":
        one.held.add(CHECKPOINTS)
        lease.acked.extend([1, 2])
        one.run(lambda: channel.state.watermark == 3)
    else:
        one_frozen_channel(one, link, [1, 2])
    lose(one, channel, group_worker)
    one.held.clear()
    one.run(lambda: bool(told))
    one.run_for(1_000)
    [refused] = told
    assert isinstance(refused, IllegalStateError)
    assert refused.values == {"topic": "orders", "partition": 0, "offsets": (1, 2)}
