"""What must hold of a channel, each promise a function, judged by the paper queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.delivery_count import delivery_count_of
from jbm_kafka.core.channel.reference import DEPARTING, Reference
from tests.model.carrier import Carrier
from tests.model.paper_queue import GIVEN_AWAY, PaperQueue, Remembered

# -- a message is handed over: asked for each, in order, before the paper notes it ---------------------------------


def it_waited_there(paper: PaperQueue, offset: int) -> None:
    """STATE-4: offered to one receiver at a time, and nothing invented."""
    assert offset in paper.unsettled(), f"{offset} is not unsettled"
    assert offset not in paper.holder, f"{offset} is in the hand of {paper.holder[offset]}"


def it_is_next_of_its_unit(paper: PaperQueue, offset: int, session: str) -> None:
    """UNIT-1: whatever of its unit comes before it in the log is settled, in this same hand, or leaves: expired, or
    because an operator takes it out."""
    for earlier in paper.line(paper.log[offset].queue):
        if earlier >= offset:
            break
        may_leave_from_between = paper.is_expired(earlier) or earlier in paper.taken_out
        leaves = paper.holder.get(earlier) == GIVEN_AWAY and may_leave_from_between
        assert paper.holder.get(earlier) == session or leaves, f"{offset} overtakes {earlier}"


def nobody_else_has_its_unit(paper: PaperQueue, offset: int, session: str) -> None:
    """UNIT-2: later messages of a unit go to nobody else while one is unfinished, or leaves and nobody holds others."""
    holders = paper.holders(paper.log[offset].queue)
    others = holders - {session, GIVEN_AWAY}
    assert not others, f"{others} hold messages of the unit of {offset}"
    assert holders != {GIVEN_AWAY}, f"{offset} comes before what leaves of its unit is gone"


def individual_holds_one_of_a_unit(paper: PaperQueue, offset: int) -> None:
    """UNIT-3: INDIVIDUAL has at most one message of a unit in hand."""
    holders = paper.holders(paper.log[offset].queue)
    assert not holders, f"{offset} is the second of its unit in an INDIVIDUAL hand"


def its_time_has_come(paper: PaperQueue, offset: int) -> None:
    """UNIT-4, SEND-6, REDELIVER-2: no delay runs at it."""
    assert not paper.is_delayed(offset), f"{offset} is delayed"


def it_is_not_expired(paper: PaperQueue, offset: int) -> None:
    """SEND-5: an expired message is never handed to the application."""
    assert not paper.is_expired(offset), f"{offset} is expired"


def it_is_not_given_up(paper: PaperQueue, offset: int) -> None:
    """REDELIVER-3, UNIT-16: what was tried often enough is not tried again."""
    assert not paper.is_given_up(offset), f"{offset} is out of attempts"


def it_is_durably_reserved(paper: PaperQueue, offset: int) -> None:
    """REDELIVER-7: nothing at or beyond the durable `offered_position` is handed over."""
    assert offset < paper.offered, f"{offset} is beyond {paper.offered}"


def it_is_chosen(paper: PaperQueue, offset: int, session: str) -> None:
    """SEL-1: nobody gets what his selector does not choose."""
    assert paper.is_chosen(offset, session), f"{session} does not choose {offset}"


# -- one answer to one asking session ------------------------------------------------------------------------------


def best_first(paper: PaperQueue, heads: Sequence[int], handed: Sequence[int]) -> None:
    """SEND-7, ORDER-1: the heads of different units go by priority, then by offset; `heads` are sorted so."""
    taken = [offset for offset in handed if offset in heads]
    assert taken == list(heads[: len(taken)]), f"handed over {taken}, deliverable were {heads}"


def nothing_deliverable_is_kept(heads: Sequence[int], handed: Sequence[int], must_leave: set[int]) -> None:
    """Progress: with room left and nothing beyond the reservation, whatever may go goes at once."""
    assert set(heads) <= set(handed), f"kept back: {set(heads) - set(handed)}"
    assert not must_leave, f"still there though expired or out of attempts: {must_leave}"


# -- after every step ----------------------------------------------------------------------------------------------


def nothing_is_lost_and_nothing_invented(paper: PaperQueue, carrier: Carrier) -> None:
    """The channel, with its held store, has each unsettled message in exactly one place, and no other."""
    places = sorted(reference.offset for reference in _everything(carrier))
    assert places == paper.unsettled()
    gates, in_memory = carrier.state.gates, 0
    for gate in gates.by_key.values():
        in_memory += len(gate.waiting) + len(gate.tail)
        if gate.key not in gates.awaiting_look:
            assert gate.spilled == len(carrier.held_store.get(gate.key, ()))
    assert gates.waiting_count == in_memory
    shelved_units = [head for heads in carrier.shelved_units.values() for head in heads]
    assert carrier.held_store.keys() == {
        *(head.unit for head in shelved_units),
        *(gate.key for gate in gates.by_key.values() if gate.spilled),
    }
    assert carrier.state.shelf.units.count == len(shelved_units)
    for unit, offset in ((head.unit, head.offset) for head in shelved_units):
        assert carrier.held_store[unit][0].offset == offset
        assert unit not in gates.by_key or unit in gates.awaiting_look
    assert {place: list(offsets) for place, offsets in carrier.state.shelf.places.items()} == {
        **{place: [reference.offset for reference in stored] for place, stored in carrier.shelved.items()},
        **{place: [head.offset for head in heads] for place, heads in carrier.shelved_units.items()},
    }


def references_are_the_messages_sent(paper: PaperQueue, carrier: Carrier) -> None:
    """Unit, priority and times arrive as they were sent (STATE-12)."""
    for reference in _everything(carrier):
        sent = paper.log[reference.offset]
        assert reference == Reference(
            sent.offset, sent.unit, sent.priority, sent.expiration_ms, sent.delivery_time_ms, reference.record
        )


def hands_hold_what_was_handed_over(paper: PaperQueue, state: ChannelState) -> None:
    """STATE-4: every session owes exactly what it got and neither settled nor returned."""
    hands = {(s, o) for s, hand in state.in_hand.items() for o in hand}
    expected = {(DEPARTING if who == GIVEN_AWAY else who, o) for o, who in paper.holder.items()}
    assert hands == expected


def each_unit_is_in_one_hand(paper: PaperQueue, state: ChannelState) -> None:
    """UNIT-2, UNIT-3: all unfinished messages of a unit are in one session; expired ones may leave meanwhile."""
    owners: dict[bytes, str] = {}
    for session, hand in state.in_hand.items():
        for reference in hand.values():
            if reference.unit is not None and session != DEPARTING:
                assert owners.setdefault(reference.unit, session) == session, reference


def attempts_are_as_counted(paper: PaperQueue, state: ChannelState) -> None:
    """REDELIVER-1: one more for each counted return, none for anything else; the due time goes with it."""
    redeliveries = {o: (p.attempts, p.due_at_ms if p.delay_ms < 1 << 59 else 0) for o, p in state.redeliveries.items()}
    assert redeliveries == {o: (n, paper.due_at_ms.get(o, 0)) for o, n in paper.attempts.items()}


def redelivered_is_told(paper: PaperQueue, state: ChannelState) -> None:
    """REDELIVER-1, REDELIVER-7: flag and count of whatever is unsettled."""
    for offset in paper.unsettled():
        count, attempts = delivery_count_of(state, offset), paper.attempts.get(offset, 0)
        assert count.attempts == attempts
        assert count.redelivered == (offset in paper.attempts or offset < paper.redelivered_below)
        assert count.delivery_count == (max(attempts + 1, 2) if count.redelivered else 1)
        if offset in paper.handed_by_earlier_owners:
            assert count.redelivered, f"{offset} was handed over by an earlier owner and does not say so"


def the_watermark_is_exact(paper: PaperQueue, watermark: int, also_settled: set[int]) -> None:
    """LOG-2: the lowest unsettled message; while catching up it may stop short of gaps not read again yet."""
    lowest = paper.lowest_unsettled(also_settled)
    if paper.read_to < paper.known_to:
        assert min(lowest, paper.read_to) <= watermark <= lowest
    else:
        assert watermark == lowest


def the_heads_are_exact(paper: PaperQueue, state: ChannelState) -> None:
    """One past what was seen (`end_position`), handed over, and, durably, may be handed over (`offered_position`)."""
    assert state.end_position == paper.known_to
    assert state.delivered_position == paper.delivered_position <= state.offered_position
    assert state.offered_position == paper.offered


def no_session_is_remembered_for_nothing(state: ChannelState) -> None:
    """Of LOG-9: what a session leaves behind when it holds nothing is nothing."""
    assert all(state.in_hand.values()), state.in_hand
    assert set(state.gates.own) <= set(state.in_hand), state.gates.own
    for gate in state.gates.by_key.values():
        assert not gate.is_idle, gate.key


# -- after every durable checkpoint --------------------------------------------------------------------------------


def replay_gives_the_durable_part(paper: PaperQueue, durable: Remembered, carrier: Carrier) -> None:
    """LOG-3, LOG-7: watermark, settled, counts and due times can be computed from log and changelog alone."""
    state = carrier.changelog.replay(paper.now_ms)
    assert state.end_position == durable.known_to
    assert state.offered_position == state.redelivered_below == durable.offered
    owed = [o for o in paper.log if o < durable.known_to and o not in durable.settled]
    assert [o for o in state.unsettled if o in paper.log] == sorted(owed)
    assert state.watermark <= min((o for o in owed if o not in durable.parked), default=durable.known_to)
    assert list(state.durable.parked) == sorted(durable.parked)
    assert {o: p.attempts for o, p in state.redeliveries.items()} == durable.attempts_after_a_crash()
    for offset, redelivery in state.redeliveries.items():
        if redelivery.delay_ms < 1 << 59:  # else it waits for an operator
            due_at_ms = min(durable.due_at_ms.get(offset, 0), paper.now_ms + durable.delay_ms.get(offset, 0))
            assert redelivery.due_at_ms == due_at_ms


def the_changelog_holds_only_what_is_open(paper: PaperQueue, durable: Remembered, carrier: Carrier) -> None:
    """LOG-8: blocks below the watermark and held entries of settled messages are deleted."""
    for kind, number in carrier.changelog.entries:
        if kind == "settled":
            assert (number + 1) * 65_536 > durable.watermark, f"block {number} is below {durable.watermark}"
        elif kind == "parked":
            assert number not in durable.settled, f"{number} is settled and still parked"
        elif kind == "held":
            assert number not in durable.settled, f"{number} is settled and still held"
        elif kind == "attempted":
            assert any(offset >> 16 == number for offset in durable.in_hand), f"nothing of block {number} is in hand"


def attempts_only_grow(before: dict[int, int], paper: PaperQueue) -> None:
    """REDELIVER-1: within one owner's time no count of an unsettled message goes down."""
    for offset, attempts in before.items():
        if offset not in paper.settled:
            assert paper.attempts.get(offset, 0) >= attempts


def nothing_waits_twice_in_the_listings(state: ChannelState) -> None:
    """UNIT-4, UNIT-6: a gate's head stands in one listing at most, and listings are sorted."""
    listings = [state.gates.free, *state.gates.some.values(), *state.gates.own.values()]
    keys = [row[2] for listing in listings for row in listing]
    assert len(keys) == len(set(keys)), keys
    for listing in listings:
        assert all(low < high for low, high in pairwise(listing)), listing


def _everything(carrier: Carrier) -> Iterator[Reference]:
    state = carrier.state
    yield from state.arrivals
    for gate in state.gates.by_key.values():
        yield from gate.waiting
        yield from gate.tail
    for stored in [*carrier.held_store.values(), *carrier.shelved.values()]:
        yield from stored
    for hand in state.in_hand.values():
        yield from hand.values()
