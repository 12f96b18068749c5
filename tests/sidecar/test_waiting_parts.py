"""What waits for a checkpoint: freezes that nobody waits for, hand-overs not yet durable, the mark before them."""

from __future__ import annotations

from typing import cast

import pytest

from jbm_kafka.core.channel.changes import Fetched, OfferedRaised
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.delivery_count import FIRST_DELIVERY
from jbm_kafka.core.channel.offer import decide_offer
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery, Disposition, PartitionLease
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import FreezeRequest, FrozenGroup, Participant
from tests.sidecar.parts import channel_of, group_worker_of, link_of
from tests.sidecar.test_dispatch import state_with_two_messages


def test_a_gap_wider_than_the_reservation_stops_no_queue() -> None:
    """REDELIVER-7: the mark rises until it reaches what comes after an aborted transaction."""
    state = ChannelState()
    channel = channel_of(state)
    state.apply(OfferedRaised(100))
    channel.mark.target = 100
    state.apply(Fetched(begin=0, end=1_000, references=[Reference(999, None)]))
    for _ in range(12):
        offer = decide_offer(state, "s", limit=1, now_ms=0)
        if offer.references:
            break
        assert offer.needs_offered
        channel.mark.raise_ahead(0, is_reached=True)
        taken = channel.take_freeze("jbm.x:1", ())
        channel.settle_freeze(durable=True)
        assert taken.durable.offered_position == channel.mark.target
    assert [reference.offset for reference in offer.references] == [999]


def channel_with_half_its_mark_used_up(began_at_ms: int) -> OwnedChannel:
    state = ChannelState()
    channel = channel_of(state, least=100)
    channel.recovered()
    make_durable(channel)
    state.apply(Fetched(begin=0, end=60, references=[Reference(offset, None) for offset in range(60)]))
    assert decide_offer(state, "s", limit=60, now_ms=began_at_ms).needs_offered, "nothing is in doubt yet"
    channel.mark.raise_ahead(began_at_ms, is_reached=True)
    assert channel.mark.waits
    make_durable(channel)
    assert channel.mark.target == state.offered_position == 100
    state.apply(decide_offer(state, "s", limit=60, now_ms=began_at_ms).change)
    channel.mark.note_hand_over(began_at_ms)
    make_durable(channel)
    return channel


def test_what_is_open_and_was_not_received_from_has_nothing_in_doubt() -> None:
    """Of REDELIVER-1: a worker that had waited, and was killed, made of the next sixteen messages second attempts."""
    state = ChannelState()
    channel = channel_of(state)
    channel.recovered()
    make_durable(channel)
    assert (channel.mark.target, state.offered_position) == (0, 0)
    assert not channel.needs_checkpoint


def make_durable(channel: OwnedChannel) -> None:
    channel.take_freeze("jbm.x:1", ())
    channel.settle_freeze(durable=True)


def test_only_a_channel_at_its_mark_hurries_a_checkpoint() -> None:
    """A raised mark is recorded with the next checkpoint, unless hand-over waits for it."""
    channel = channel_with_half_its_mark_used_up(began_at_ms=1_000)
    assert not channel.needs_checkpoint
    channel.mark.raise_ahead(1_600)
    assert channel.needs_checkpoint
    assert not channel.is_awaited
    channel.mark.raise_ahead(1_601, is_reached=True)
    assert channel.is_awaited
    for is_durable in (False, True):
        channel.take_freeze("jbm.x:1", ())
        assert not channel.is_awaited, "a checkpoint is under way"
        channel.settle_freeze(durable=is_durable)
        assert channel.is_awaited is not is_durable
    assert channel.state.offered_position == 160
    assert not channel.is_awaited


def test_a_mark_that_does_not_last_hurries_a_checkpoint_and_goes_further() -> None:
    """Else hand-over would stand still: half a mark is gone before the next checkpoint is due."""
    channel = channel_with_half_its_mark_used_up(began_at_ms=1_000)
    channel.mark.raise_ahead(1_030)
    assert channel.is_awaited
    assert not channel.mark.waits
    make_durable(channel)
    assert channel.state.offered_position == 60 + 800


def test_an_answer_after_the_withdrawal_is_not_taken() -> None:
    request = FreezeRequest("jbm.x:1", ())
    assert request.take_or_withdraw() is None
    assert not request.answer(FrozenGroup(cast(Participant, None), None, (), frozenset()))
    assert request.is_withdrawn


def test_an_answer_in_time_is_taken_and_not_withdrawn() -> None:
    request = FreezeRequest("jbm.x:1", ())
    reply = FrozenGroup(cast(Participant, None), None, (), frozenset())
    assert request.answer(reply)
    assert request.take_or_withdraw() is reply
    assert not request.is_withdrawn


def test_what_is_taken_back_before_it_is_durable_never_arrives() -> None:
    """ACK-8: it did not reach the application, so it is unread, and no attempt."""
    waiting = link_of("s")
    lease = PartitionLease(channel_of(ChannelState()), session_id="s", notify=waiting.notices.notify)
    deliveries = [Delivery(lease, Reference(offset, None), FIRST_DELIVERY) for offset in (3, 4, 5)]
    waiting.announce(deliveries)
    assert not waiting.buffer
    assert waiting.is_asking
    assert [row.offset for row in waiting.remove(0, frozenset([4]))] == [4]
    assert waiting.arrive(deliveries)
    assert [row.offset for row in waiting.take_unread()] == [3, 5]
    assert not waiting.is_asking


@pytest.mark.parametrize("failure", [None, JMSError("the other partition went")])
def test_a_blocking_acknowledgement_of_two_partitions_waits_for_both(failure: JMSError | None) -> None:
    """Of ACK-9: one that is recorded does not tell of the other, unless that never will be."""
    channels = [channel_of(state_with_two_messages()) for _ in range(2)]
    link, done = link_of("s"), Completion()
    for channel in channels:
        channel.state.apply(decide_offer(channel.state, "s", limit=2, now_ms=0).change)
    rows = [(PartitionLease(channel, session_id="s", notify=link.notices.notify), 0) for channel in channels]
    link.settlement.dispositions.append(Disposition(acknowledged=rows, done=done))
    group_worker_of(channels[0], link).settle.take(link)
    recorded, other = channels
    recorded.take_freeze("jbm.x:1", ())
    for waiter in recorded.settle_freeze(durable=True):
        waiter.complete()
    assert not done.is_done
    if failure is None:
        other.take_freeze("jbm.x:2", ())
        for waiter in other.settle_freeze(durable=True):
            waiter.complete()
        done.wait(0.0, about="acknowledge")
    else:
        other.checkpoints.fail_waiters(failure)
        with pytest.raises(JMSError, match="went"):
            done.wait(0.0, about="acknowledge")
