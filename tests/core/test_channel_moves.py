"""Goal: the table of states is the machine: a change whose row does not begin where its messages stand is a bug.

Method: each change is applied to a channel whose messages stand elsewhere; what is left must be as before.
"""

from __future__ import annotations

import pytest

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.departure import DEPARTS_BY
from jbm_kafka.core.channel.entries import MessageFate
from jbm_kafka.core.channel.reference import DEPARTING
from jbm_kafka.core.channel.settlement import REMOVED
from jbm_kafka.core.channel.states import ACKNOWLEDGED, TRANSITIONS, MessageState, Move, Outcome, Transition, transition
from tests.core.channel_parts import START_MS, Channel, message

BACK = (c.ReturnedMessage(0, attempts=1, due_at_ms=0, delay_ms=0, reason="returned"),)
IN_PART = transition(MessageState.DELIVERED, Move.ACKNOWLEDGED_IN_PART)


@pytest.fixture
def channel() -> Channel:
    """Session a has message 0, message 1 has expired and departs."""
    channel = Channel(message(0), message(1, expires=START_MS))
    channel.ask("a")
    assert {session: list(hand) for session, hand in channel.state.in_hand.items()} == {"a": [0], DEPARTING: [1]}
    return channel


@pytest.mark.parametrize("row", [*DEPARTS_BY.values(), IN_PART], ids=lambda row: f"{row.state.name}-{row.move.name}")
def test_what_a_receiver_has_leaves_only_by_a_row_of_delivered_to_an_outcome(channel: Channel, row: Transition) -> None:
    """Of STATE-1: it cannot expire in hand (STATE-4), and acknowledged in part it stays."""
    with pytest.raises(AssertionError, match=row.move.name):
        channel.state.apply(c.Acknowledged("a", [0], transition=row))
    assert list(channel.state.unsettled) == [0, 1]


@pytest.mark.parametrize("row", [ACKNOWLEDGED, REMOVED], ids=lambda row: f"{row.state.name}-{row.move.name}")
def test_what_departs_is_new_and_is_not_acknowledged(channel: Channel, row: Transition) -> None:
    """Of STATE-1: no receiver has it."""
    with pytest.raises(AssertionError, match=row.move.name):
        channel.state.apply(c.Acknowledged(DEPARTING, [1], transition=row))
    assert list(channel.state.unsettled) == [0, 1]


def test_a_row_that_the_table_does_not_say_is_seen_where_it_is_used(channel: Channel) -> None:
    """Of STATE-1: a table in which an acknowledged message is NEW again."""
    broken = Transition(MessageState.DELIVERED, Move.ACKNOWLEDGED, MessageState.NEW, leaves=False)
    with pytest.raises(AssertionError, match="ACKNOWLEDGED"):
        channel.state.apply(c.Acknowledged("a", [0], transition=broken))


@pytest.mark.parametrize("change", [c.Returned(DEPARTING, BACK), c.Transferred(DEPARTING, BACK)])
def test_what_departs_is_neither_returned_nor_transferred(channel: Channel, change: c.Returned | c.Transferred) -> None:
    """Of STATE-1: only what is DELIVERED comes back."""
    with pytest.raises(AssertionError, match="departing"):
        channel.state.apply(change)
    assert list(channel.state.in_hand[DEPARTING]) == [1]


@pytest.mark.parametrize("unit", [None, b"u"])
def test_nothing_is_delivered_to_departing(unit: bytes | None) -> None:
    """Of STATE-1: what departs is taken, not handed over."""
    arrivals = Channel(message(0, unit))
    handed = arrivals.decide(DEPARTING).change
    with pytest.raises(AssertionError, match="departing"):
        arrivals.state.apply(handed)
    heads = Channel(message(0, unit, priority=9))
    handed = heads.decide(DEPARTING).change
    assert handed.heads
    with pytest.raises(AssertionError, match="departing"):
        heads.state.apply(handed)


@pytest.mark.parametrize("fate", DEPARTS_BY)
def test_a_departure_ends_in_the_outcome_that_its_event_tells(fate: MessageFate) -> None:
    assert DEPARTS_BY[fate].target is Outcome[fate.name]


@pytest.mark.parametrize("fate", [fate for fate in MessageFate if fate is not MessageFate.RETURNED])
def test_every_end_that_an_event_tells_is_an_outcome_of_the_table(fate: MessageFate) -> None:
    """Of STATE-1: also of what never reaches a receiver, a repeated or a skipped message."""
    assert Outcome[fate.name] in TRANSITIONS.values()


def test_a_repeated_message_is_settled_by_its_row() -> None:
    """Of STATE-1"""
    row = c.Fetched.repeated_transition
    assert TRANSITIONS[row.state, row.move] is row.target is Outcome.DUPLICATE
