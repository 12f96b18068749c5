"""Which transfers a group worker takes into a checkpoint."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from jbm_kafka.core.channel.settlement import Modified, unknown_offsets
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import FreezeRequest, Settling, Transfer
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from tests.sidecar.parts import channel_of, group_worker_of, link_of
from tests.sidecar.stepped import CHECKPOINTS, SteppedSidecar
from tests.sidecar.test_dispatch import state_with_two_messages
from tests.support.manual_clock import ManualClock


class HandedOver(NamedTuple):
    """A group worker whose one link has got both messages of its one channel."""

    group_worker: GroupWorker
    link: Link
    channel: OwnedChannel
    troubles: list[Exception]
    """What the link was told."""


def handed_over_two_messages() -> HandedOver:
    link, channel = link_of("s"), channel_of(state_with_two_messages())
    group_worker = group_worker_of(channel, link)
    link.demand.credit = 10
    group_worker.turn.dispatch.grant()
    group_worker.turn.dispatch.deliver()
    troubles: list[Exception] = []
    link.notices.on_trouble = troubles.append
    return HandedOver(group_worker, link, channel, troubles)


@pytest.mark.parametrize("named", [[[0, 1, 0]], [[0, 1], [0]], [[0], [1], [2]]])
def test_a_transfer_that_settles_more_than_is_in_hand_is_refused_alone(named: list[list[int]]) -> None:
    """LOG-5: what one session says wrongly refuses its transfer, and stops no group worker."""
    handed_over = handed_over_two_messages()
    group_worker, channel = handed_over.group_worker, handed_over.channel
    part = group_worker.checkpoint_part
    wrong, right = (
        Transfer(about="commit", sends=(), settlings=[(part, Settling(channel, "s", offsets)) for offsets in each])
        for each in (named, [[0], [1]])
    )
    request = FreezeRequest("jbm.x:1", (wrong, right))
    group_worker.checkpoint_part.freeze(request)
    answer = request.take_or_withdraw()
    assert answer is not None
    assert answer.refused == {wrong}


def test_an_acknowledgement_named_twice_stops_no_group_worker() -> None:
    """STATE-6: it changes nothing of what the session does not hold."""
    handed_over = handed_over_two_messages()
    handed_over.link.buffer.ready[0].lease.acked += [0, 1, 1, 7]
    handed_over.group_worker.turn.pump()
    assert unknown_offsets(handed_over.channel.state, "s", [0, 1]) == [0]
    assert ["offset 7, 1 refused" in str(error) for error in handed_over.troubles] == [True]


def test_an_acknowledgement_on_its_way_to_a_lost_channel_is_told_to_be_refused() -> None:
    """Of ACK-9: the session hears it by its link, for no call of its own waits."""
    handed_over = handed_over_two_messages()
    handed_over.link.buffer.ready.popleft().lease.acknowledge(0)
    handed_over.group_worker.assignment.drop(handed_over.channel)
    assert ["offset 0 refused" in str(error) for error in handed_over.troubles] == [True]


def test_an_acknowledgement_of_what_was_received_while_its_partition_was_taken_is_told_to_be_refused() -> None:
    """Of ACK-9: it was unread when the group worker looked what the session had, so of it nobody was told before."""
    handed_over = handed_over_two_messages()
    group_worker, channel = handed_over.group_worker, handed_over.channel
    lease = handed_over.link.buffer.ready[0].lease
    group_worker.settle.take_from_sessions(channel)
    lease.acked.append(0)  # the session said it, and has not looked again whether the lease is revoked
    group_worker.turn.pump()
    group_worker.assignment.drop(channel)
    assert ["offset 0 refused" in str(error) for error in handed_over.troubles] == [True]
    assert channel.state.watermark == 0


class CommitUnderWay:
    """A session `s` whose commit of one message and one send was frozen: nobody has heard how it ended."""

    def __init__(self, *, refuses: bool) -> None:
        cluster = MemoryCluster(ManualClock(), waits=False)
        cluster.create_topic("out", 1, {})
        if refuses:
            cluster.faults.refuse = lambda record: "Invalid record" if record.topic == "out" else None
        self.process = SteppedSidecar("one", cluster)
        self.link = self.process.attach("s")
        self.process.send("a")
        self.link.demand.credit = 1
        self.process.run(lambda: bool(self.link.buffer))
        delivery = self.link.pop()
        assert delivery is not None
        self.delivery = delivery
        self.channel = self.process.group_worker.data.channels[0]
        settling = Settling(self.channel, "s", [delivery.offset])
        settlings = [(self.process.group_worker.checkpoint_part, settling)]
        self.commit = Transfer(about="commit", sends=(Outgoing("out", 0, None, b"a"),), settlings=settlings)
        self.process.sidecar.submit(self.commit)
        self.process.run(lambda: bool(self.channel.checkpoints.tentative))

    def end(self) -> None:
        """Everybody hears how it ended."""
        self.process.run(lambda: self.commit.done.is_done and not self.channel.checkpoints.tentative)


def test_what_a_session_gives_back_before_its_worker_has_heard_that_the_commit_failed_comes_again() -> None:
    """ACK-7, REDELIVER-1: it stayed in the session's hand for ever."""
    under_way = CommitUnderWay(refuses=True)
    under_way.process.held.add(CHECKPOINTS)
    under_way.link.give_back([(under_way.delivery, Modified(0, counted=True))])
    under_way.process.run_for(100)
    under_way.process.held.clear()
    under_way.end()
    assert under_way.process.receive(under_way.process.attach("other"), 1) == [0]
    assert under_way.channel.state.redeliveries[0].attempts == 1
    under_way.process.crash()


def test_what_a_commit_under_way_settles_is_for_nobody_else_when_its_session_closes() -> None:
    """ACK-7, UNIT-2: the commit may succeed, and here it does."""
    under_way = CommitUnderWay(refuses=False)
    under_way.process.held.add(CHECKPOINTS)
    under_way.link.leave()
    other = under_way.process.attach("other")
    other.demand.credit = 1
    under_way.process.run_for(100)
    under_way.process.held.clear()
    under_way.end()
    under_way.process.run_for(100)
    assert (len(other.buffer), under_way.channel.state.watermark) == (0, 1)
    under_way.process.crash()


def test_what_a_session_had_that_closed_beside_a_refused_commit_goes_to_others() -> None:
    """Of ACK-7, UNIT-7: it gave nothing back, for it might have been committed, and nobody else did."""
    under_way = CommitUnderWay(refuses=True)
    under_way.link.leave()
    under_way.end()
    assert under_way.process.receive(under_way.process.attach("other"), 1) == [0]
    under_way.process.crash()
