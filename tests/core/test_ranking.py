"""The higher priority goes first where there is a choice, and never within a unit."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.core.channel.changes import Fetched, OfferedRaised, Selected
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.offer import decide_offer
from jbm_kafka.core.channel.ranking import NOTHING, by_priority, next_priority
from jbm_kafka.core.channel.reference import EVERYONE, Reference

MESSAGES = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([None, b"joe", b"ann", b"eve"])), max_size=12)


def ranked(messages: list[tuple[int, bytes | None]]) -> list[tuple[int, bytes | None]]:
    """By the definition: again and again the first of those that may go and have the highest priority."""
    found, left = [], list(messages)
    while left:
        seen: set[bytes] = set()
        firsts = []
        for place, (priority, unit) in enumerate(left):
            if unit is None or unit not in seen:
                firsts.append((-priority, place))
            if unit is not None:
                seen.add(unit)
        found.append(left.pop(min(firsts)[1]))
    return found


@given(MESSAGES)
def test_the_higher_goes_first_and_a_units_messages_keep_their_order(messages: list[tuple[int, bytes | None]]) -> None:
    """SEND-7, of UNIT-6"""
    references = [Reference(offset, unit, priority=priority) for offset, (priority, unit) in enumerate(messages)]
    found = by_priority(references, lambda r: r, lambda r: r.unit)
    assert [(r.priority, r.unit) for r in found] == ranked(messages)
    by_unit = defaultdict(list)
    for reference in found:
        by_unit[reference.unit or (reference.priority,)].append(reference.offset)
    assert all(offsets == sorted(offsets) for offsets in by_unit.values())


def state_of(*messages: tuple[bytes | None, int], bits: int = EVERYONE) -> ChannelState:
    state = ChannelState()
    state.apply(OfferedRaised(100))
    references = [Reference(o, unit, priority=priority) for o, (unit, priority) in enumerate(messages)]
    for reference in references:
        reference.chosen_by = bits
    state.apply(Fetched(begin=0, end=len(messages), references=references))
    return state


def test_what_a_session_would_get_next_of_a_channel_tells_its_priority() -> None:
    """Of SEND-7"""
    assert next_priority(ChannelState(), "s", EVERYONE) == NOTHING
    assert next_priority(state_of((b"joe", 4)), "s", EVERYONE) == 4
    assert next_priority(state_of((b"joe", 9), (b"ann", 2)), "s", EVERYONE) == 9
    assert next_priority(state_of((b"joe", 2)), "s", EVERYONE) == 2


def test_what_follows_in_a_unit_counts_for_the_session_that_holds_the_unit() -> None:
    """Of SEND-7, UNIT-3"""
    state = state_of((b"joe", 9), (b"joe", 7), (b"ann", 1))
    assert state.gates.ranked == 2
    state.apply(decide_offer(state, "s", limit=1, now_ms=0).change)
    assert (next_priority(state, "s", EVERYONE), next_priority(state, "t", EVERYONE)) == (7, 1)
    state.apply(decide_offer(state, "s", limit=10, now_ms=0).change)
    assert (next_priority(state, "s", EVERYONE), state.gates.ranked) == (NOTHING, 0)


def test_what_a_selector_does_not_choose_tells_its_receiver_nothing() -> None:
    """Of SEND-7, SEL-2"""
    state = state_of((b"joe", 9), bits=2)
    state.apply(Selected(EVERYONE | 2 | 4))
    assert (next_priority(state, "s", 2), next_priority(state, "s", 4)) == (9, NOTHING)
