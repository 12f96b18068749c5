"""Which transfers a group worker takes into a checkpoint."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from jbm_kafka.core.settlement import unknown_offsets
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.checkpoint_parts import FreezeRequest, Settling, Transfer
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from jbm_kafka.sidecar.owned_channel import OwnedChannel
from tests.sidecar.parts import channel_of, group_worker_of, link_of
from tests.sidecar.stepped import SteppedSidecar
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


def test_what_a_session_had_that_closed_beside_a_refused_commit_goes_to_others() -> None:
    """Of ACK-7, UNIT-7: it gave nothing back, for it might have been committed, and nobody else did."""
    cluster = MemoryCluster(ManualClock(), waits=False)
    one = SteppedSidecar("one", cluster)
    closing = one.attach("closing")
    one.send("a")
    offsets = one.receive(closing, 1)
    part, channel = one.group_worker.checkpoint_part, one.group_worker.data.channels[0]
    cluster.create_topic("out", 1, {})
    cluster.faults.refuse = lambda record: "Invalid record" if record.topic == "out" else None
    settling = Settling(channel, "closing", offsets)
    commit = Transfer(about="commit", sends=(Outgoing("out", 0, None, b"a"),), settlings=[(part, settling)])
    one.sidecar.submit(commit)
    one.run(lambda: channel.checkpoints.freeze is not None)
    closing.leave()
    one.run(lambda: commit.done.is_done)
    assert one.receive(one.attach("other"), 1) == offsets
    one.crash()
