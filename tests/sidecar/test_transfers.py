"""Which transfers a group worker takes into a checkpoint."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from jbm_kafka.core.settlement import unknown_offsets
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.checkpoint_parts import FreezeRequest, Settling, Transfer
from jbm_kafka.sidecar.group_worker import GroupWorker
from jbm_kafka.sidecar.owned_channel import OwnedChannel
from tests.sidecar.parts import channel_of, group_worker_of, link_of
from tests.sidecar.test_dispatch import state_with_two_messages


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
    link.credit = 10
    group_worker.dispatch.grant()
    group_worker.dispatch.deliver()
    troubles: list[Exception] = []
    link.on_trouble = troubles.append
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
    handed_over.link.buffer[0].lease.acked += [0, 1, 1, 7]
    handed_over.group_worker.pump()
    assert unknown_offsets(handed_over.channel.state, "s", [0, 1]) == [0]
    assert ["offset 7, 1 refused" in str(error) for error in handed_over.troubles] == [True]


def test_an_acknowledgement_on_its_way_to_a_lost_channel_is_told_to_be_refused() -> None:
    """Of ACK-9: the session hears it by its link, for no call of its own waits."""
    handed_over = handed_over_two_messages()
    handed_over.link.buffer.popleft().lease.acknowledge(0)
    handed_over.group_worker.assignment.drop(handed_over.channel)
    assert ["offset 0 refused" in str(error) for error in handed_over.troubles] == [True]
