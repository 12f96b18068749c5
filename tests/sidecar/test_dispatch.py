"""Hand-over: what is granted in a turn gets to its receiver, or back to its channel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jbm_kafka.core.changes import Fetched, OfferedRaised
from jbm_kafka.core.channel_state import ChannelState
from jbm_kafka.core.reference import Reference
from tests.sidecar.parts import channel_of, group_worker_of, link_of


def state_with_two_messages() -> ChannelState:
    state = ChannelState()
    state.apply(OfferedRaised(100))
    state.apply(Fetched(begin=0, end=2, references=[Reference(0, b"joe"), Reference(1, b"joe")]))
    return state


def test_what_is_granted_is_there_once_delivered() -> None:
    link = link_of("s")
    group_worker = group_worker_of(channel_of(state_with_two_messages()), link)
    link.demand.credit = 10
    group_worker.turn.dispatch.grant()
    assert not link.buffer
    group_worker.turn.dispatch.deliver()
    assert [delivery.offset for delivery in link.buffer.ready] == [0, 1]


def test_what_a_link_that_closed_meanwhile_was_granted_is_for_others_and_no_attempt() -> None:
    """REDELIVER-1, of UNIT-7: it never reached an application."""
    closing, other = link_of("closing"), link_of("other")
    state = state_with_two_messages()
    group_worker = group_worker_of(channel_of(state), closing, other)
    closing.demand.credit = 10
    group_worker.turn.dispatch.grant()
    closing.is_closed = True
    group_worker.turn.dispatch.deliver()
    assert "closing" not in state.in_hand
    closing.demand.credit, other.demand.credit = 0, 10
    group_worker.turn.dispatch.grant()
    group_worker.turn.dispatch.deliver()
    assert [(delivery.offset, delivery.count.delivery_count) for delivery in other.buffer.ready] == [(0, 1), (1, 1)]


@pytest.mark.parametrize("records_attempts", [False, True])
def test_what_is_granted_and_not_in_the_buffer_yet_is_still_asked_for(records_attempts: bool) -> None:
    """ACK-8: a receive in between that asked again would get more than the prefetch."""
    link, channel = link_of("s"), channel_of(state_with_two_messages())
    channel.checkpoints.records_attempts = records_attempts
    group_worker = group_worker_of(channel, link)
    link.demand.credit = 1
    group_worker.turn.dispatch.grant()
    assert link.is_asking
    assert link.pop() is None
    group_worker.turn.dispatch.deliver()
    assert link.is_asking is records_attempts, "it waits for a checkpoint"
    assert link.demand.credit == 0
    group_worker.turn.dispatch.grant()
    group_worker.turn.dispatch.deliver()
    assert len(link.unread(0)) == 1


def test_a_mark_that_one_receiver_met_is_waited_for_though_the_next_got_something() -> None:
    """Else a short receive of the first gives up on a message that was there (design.md: finished before None)."""
    first, second = link_of("first"), link_of("second")
    state = ChannelState()
    state.apply(OfferedRaised(2))
    references = [Reference(0, b"joe"), Reference(1, b"joe"), Reference(2, None)]
    state.apply(Fetched(begin=0, end=3, references=references))
    channel = channel_of(state)
    group_worker = group_worker_of(channel, first, second)
    for wanting in ([second], [first, second]):
        for link in wanting:
            link.demand.credit = 1
        group_worker.turn.dispatch.grant()
        group_worker.turn.dispatch.deliver()
    assert (first.unread(0), second.unread(0)) == ([], [0, 1])
    assert channel.mark.waits


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_link_that_takes_nothing_keeps_no_partitions_however_it_waits(is_stopped: bool) -> None:
    """CONN-1, of UNIT-7: a listener of a stopped connection or a closed consumer counts for nobody."""
    link = link_of("s")
    link.demand.is_waiting = True
    assert link.is_active(now_ms=0, idle_ms=1_000)
    if is_stopped:
        link.give_back_unread(stop=True)
    else:
        link.is_closed = True
    assert not link.is_active(now_ms=1, idle_ms=1_000)


@pytest.mark.parametrize("unit", [None, b"joe"])
@pytest.mark.parametrize("records_attempts", [False, True])
@pytest.mark.parametrize("gives_back", ["stops and starts", "closes beside another"])
def test_what_goes_back_unread_is_not_overtaken_by_what_was_just_granted(
    gives_back: str, records_attempts: bool, unit: bytes | None
) -> None:
    """ORDER-1, UNIT-1: the session asks again while the group worker is between its decision and the buffer."""
    first, second = link_of("s"), link_of("s")
    second.terms = replace(second.terms, link_id="s/2")
    second.settlement.barrier = first.settlement.barrier
    state = ChannelState()
    state.apply(OfferedRaised(100))
    state.apply(Fetched(begin=0, end=4, references=[Reference(offset, unit) for offset in range(4)]))
    channel = channel_of(state)
    group_worker = group_worker_of(channel, first, second)
    first.group_worker = second.group_worker = group_worker
    first.demand.credit = 2
    group_worker.turn.dispatch.grant()
    group_worker.turn.dispatch.deliver()
    channel.checkpoints.records_attempts = records_attempts
    asking = second if gives_back == "closes beside another" else first

    def give_back_and_ask_again() -> None:
        if asking is first:
            first.give_back_unread(stop=True)
            first.is_stopped = False
        else:
            first.is_closed = True
            first.give_back_unread()
        asking.demand.credit = 4

    if records_attempts:
        give_back_and_ask_again()
        group_worker.turn.dispatch.grant()
    else:
        asking.demand.credit = 1
        group_worker.turn.dispatch.grant()
        give_back_and_ask_again()
    group_worker.turn.dispatch.deliver()
    early = asking.pop()
    group_worker.settle.take_all()
    group_worker.turn.dispatch.grant()
    group_worker.turn.dispatch.deliver()
    assert early is None
    channel.is_closing = True  # whoever waits for a record of the attempts is answered
    assert asking.unread(0) == [0, 1, 2, 3]


def test_a_turn_looks_at_what_is_ready_and_not_at_every_receiver_that_waits() -> None:
    """UNIT-2: two thousand receivers wait for what follows in a unit that another session holds."""
    holder, waiting = link_of("holder"), [link_of(f"waiting {number}") for number in range(2_000)]
    channel = channel_of(state_with_two_messages())
    group_worker = group_worker_of(channel, holder, *waiting)
    holder.demand.credit = 1
    group_worker.turn.dispatch.grant()
    group_worker.turn.dispatch.deliver()
    for link in waiting:
        link.demand.credit = 1
    for _ in range(3):
        group_worker.turn.dispatch.grant()
        group_worker.turn.dispatch.deliver()
    assert group_worker.turn.dispatch.looked_at <= 1
    assert group_worker.turn.dispatch.is_hungry
    assert [link.unread(0) for link in waiting if link.unread(0)] == []


def test_who_gets_nothing_of_a_channel_is_not_followed_by_all_others_who_would_get_nothing() -> None:
    """Of UNIT-2: what only its own session could get is found once a turn, not once for each receiver."""
    holder, waiting = link_of("holder"), [link_of(f"waiting {number}") for number in range(50)]
    state = state_with_two_messages()
    channel = channel_of(state)
    group_worker = group_worker_of(channel, holder, *waiting)
    holder.demand.credit = 1
    group_worker.turn.dispatch.grant()
    group_worker.turn.dispatch.deliver()
    more = [Reference(offset, b"joe") for offset in range(2, 40)]
    state.apply(Fetched(begin=2, end=40, references=more))
    for link in waiting:
        link.demand.credit = 1
    group_worker.turn.dispatch.grant()
    assert group_worker.turn.dispatch.looked_at == 1
    holder.demand.credit = 50
    group_worker.turn.dispatch.grant()
    group_worker.turn.dispatch.deliver()
    assert holder.unread(0) == list(range(40))
