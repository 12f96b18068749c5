"""Every change of a channel over Kafka, held against the table of states: what moved, moved by the row it says."""

from __future__ import annotations

from collections.abc import Mapping

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.reference import DEPARTING
from jbm_kafka.core.channel.states import TRANSITIONS, MessageState, Outcome, Transition

States = Mapping[int, MessageState]


def states_of(state: ChannelState) -> States:
    """Where each message stands that the channel holds, by offset. What departs is NEW: no receiver has it."""
    states = dict.fromkeys(state.unsettled, MessageState.NEW)
    for session, hand in state.in_hand.items():
        if session != DEPARTING:
            states.update(dict.fromkeys(hand, MessageState.DELIVERED))
    return states


def apply_by_the_table(state: ChannelState, change: c.Change) -> None:
    """Apply it, and see that each message moved by the row of the table that the change carries, or not at all."""
    before = states_of(state)
    state.apply(change)
    every_move_is_a_row(before, states_of(state), change)


def every_move_is_a_row(before: States, after: States, change: c.Change) -> None:
    """STATE-1: over Kafka; a message comes as NEW, and from then on only rows of the table move it."""
    if isinstance(change, c.Fetched):
        _what_is_read_comes_as_new(before, after, change)
        return
    row: Transition | None = getattr(change, "transition", None)
    moved = {offset for offset in before.keys() | after.keys() if before.get(offset) is not after.get(offset)}
    for offset in moved:
        assert row is not None, f"{offset} moved from {before.get(offset)} to {after.get(offset)} by {change}"
        assert before.get(offset) is row.state, (offset, before.get(offset), row)
        target = TRANSITIONS[row.state, row.move]
        assert isinstance(target, Outcome) if offset not in after else after[offset] is target, (offset, row)


def _what_is_read_comes_as_new(before: States, after: States, change: c.Fetched) -> None:
    """An offset is known before it is read again after a recovery; when it turns out to hold no message, it goes."""
    messages = {reference.offset for reference in change.references}
    for offset in before.keys() | after.keys():
        if offset not in before:
            assert after[offset] is MessageState.NEW, (offset, after[offset])
            assert offset in messages, (offset, change)
        elif offset not in after:
            assert offset not in messages, (offset, change)
            assert before[offset] is MessageState.NEW, (offset, before[offset])
        else:
            assert after[offset] is before[offset], (offset, before[offset], after[offset])
