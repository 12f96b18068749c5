"""Hand-over: what is granted in a turn gets to its receiver, or back to its channel."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jbm_kafka.core.channel.changes import Fetched, OfferedRaised
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.reference import Reference
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


@pytest.mark.parametrize("records_first", [False, True])
def test_what_is_granted_and_not_in_the_buffer_yet_is_still_asked_for(records_first: bool) -> None:
    """ACK-8: a receive in between that asked again would get more than the prefetch."""
    link, channel = link_of("s"), channel_of(state_with_two_messages())
    link.terms = replace(link.terms, records_first=records_first)
    group_worker = group_worker_of(channel, link)
    link.demand.credit = 1
    group_worker.turn.dispatch.grant()
    assert link.is_asking
    assert link.pop() is None
    group_worker.turn.dispatch.deliver()
    assert link.is_asking is records_first, "it waits for a checkpoint"
    assert link.demand.credit == 0
    group_worker.turn.dispatch.grant()
    group_worker.turn.dispatch.deliver()
    assert len(link.unread(0)) == 1


def test_a_mark_that_one_receiver_met_is_waited_for_though_the_next_got_something() -> None:
    """Else a short receive of the first gives up on a message that was there."""
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
@pytest.mark.parametrize("records_first", [False, True])
@pytest.mark.parametrize("gives_back", ["stops and starts", "closes beside another"])
def test_what_goes_back_unread_is_not_overtaken_by_what_was_just_granted(
    gives_back: str, records_first: bool, unit: bytes | None
) -> None:
    """ORDER-1, UNIT-1: the session asks again while the group worker is between its decision and the buffer."""
    first = link_of("s")
    second = link_of("s", number=2, hand=first.hand)
    state = ChannelState()
    state.apply(OfferedRaised(100))
    state.apply(Fetched(begin=0, end=4, references=[Reference(offset, unit) for offset in range(4)]))
    channel = channel_of(state)
    group_worker = group_worker_of(channel, first, second)
    first.group_worker = second.group_worker = group_worker
    first.demand.credit = 2
    group_worker.turn.dispatch.grant()
    group_worker.turn.dispatch.deliver()
    asking = second if gives_back == "closes beside another" else first
    asking.terms = replace(asking.terms, records_first=records_first)

    def give_back_and_ask_again() -> None:
        if asking is first:
            first.give_back_unread(stop=True)
            first.is_stopped = False
        else:
            first.is_closed = True
            first.give_back_unread()
        asking.demand.credit = 4

    if records_first:
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
    channel.is_closing = True  # whoever waits for the record is answered
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
    assert group_worker.turn.dispatch.has_unmet_credit
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


class Ranked:
    """A consumer of two channels."""

    def __init__(self) -> None:
        self.link = link_of("s")
        self.channels = [channel_of(ChannelState(), partition=number) for number in (0, 1)]
        self.dispatch = group_worker_of(self.channels[0], self.link)
        self.dispatch.data.channels[1] = self.channels[1]
        for channel in self.channels:
            channel.state.apply(OfferedRaised(100))

    def read(self, partition: int, *messages: tuple[bytes | None, int]) -> None:
        """Units and priorities."""
        state = self.channels[partition].state
        begin = state.read_position
        references = [Reference(begin + n, unit, priority=rank) for n, (unit, rank) in enumerate(messages)]
        state.apply(Fetched(begin=begin, end=begin + len(messages), references=references))

    def grant(self, count: int) -> None:
        self.link.demand.credit = count
        self.dispatch.turn.dispatch.grant()
        self.dispatch.turn.dispatch.deliver()

    def pop(self, count: int) -> list[tuple[int, int, int]]:
        """Of each its partition, offset and priority."""
        taken = [self.link.pop() for _ in range(count)]
        return [(*delivery.place, delivery.reference.priority) for delivery in taken if delivery is not None]


@pytest.mark.parametrize("portion", [1, 3, 7])
def test_the_priorities_of_all_partitions_decide_together(portion: int) -> None:
    """SEND-7: each partition was asked for as much as the others, and only within it the higher came first."""
    ranked = Ranked()
    ranked.read(0, *[(None, 4)] * 4, (b"ann", 0))
    ranked.read(1, (b"joe", 5), (b"joe", 9))
    found: list[tuple[int, int, int]] = []
    while len(found) < 7:
        ranked.grant(portion)
        found += ranked.pop(portion)
    assert found == [(1, 0, 5), (1, 1, 9), *[(0, offset, 4) for offset in range(4)], (0, 4, 0)]


def test_what_is_equal_is_taken_from_all_partitions_alike() -> None:
    """Of SEND-7: one full partition does not feed a receiver alone, also where another rank is somewhere."""
    ranked = Ranked()
    ranked.read(0, *[(None, 4)] * 10, (None, 3))
    ranked.read(1, *[(None, 4)] * 10)
    ranked.grant(8)
    assert sorted(place[0] for place in ranked.pop(8)) == [0, 0, 0, 0, 1, 1, 1, 1]


def test_what_one_receiver_found_empty_is_not_looked_at_again_for_each_of_many() -> None:
    """Of SEND-7: two hundred that wait beside one urgent message would ask each partition for nothing."""
    ranked = Ranked()
    ranked.read(0, (b"joe", 9))
    for number in range(200):
        link = link_of(f"other {number}")
        link.demand.credit = 2
        ranked.dispatch.data.links[link.terms.link_id] = link
    ranked.grant(2)
    assert ranked.dispatch.turn.dispatch.looked_at <= 2


def test_what_came_later_goes_before_what_was_not_received_yet_and_not_before_its_unit() -> None:
    """SEND-7, of UNIT-6"""
    ranked = Ranked()
    ranked.read(0, (b"joe", 4), (b"ann", 4), (None, 4))
    ranked.grant(10)
    ranked.read(0, (b"joe", 9))
    ranked.read(1, (b"joe", 8), (None, 2))
    ranked.grant(10)
    assert ranked.pop(1) == [(1, 0, 8)], "another partition's joe is another unit"
    ranked.read(1, (None, 3), (None, 6))
    ranked.grant(10)
    assert ranked.pop(9) == [(1, 3, 6), (0, 0, 4), (0, 3, 9), (0, 1, 4), (0, 2, 4), (1, 2, 3), (1, 1, 2)]


def test_what_had_to_be_recorded_first_comes_before_what_is_not_received_yet() -> None:
    """SEND-7"""
    ranked = Ranked()
    ranked.read(0, (b"joe", 4))
    ranked.grant(1)
    ranked.read(1, (b"ann", 9))
    ranked.link.terms = replace(ranked.link.terms, records_first=True)
    ranked.grant(1)
    (coming,) = ranked.link.buffer.coming
    ranked.link.arrive(coming)
    assert ranked.pop(2) == [(1, 0, 9), (0, 0, 4)]
