"""Which selectors the receivers of a queue have, and the bit of each."""

from __future__ import annotations

import logging

import pytest

from jbm_kafka.browsing.intake import reference_of
from jbm_kafka.core.channel.changes import Acknowledged, Fetched, OfferedRaised, TimePassed
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.offer import decide_offer
from jbm_kafka.core.channel.reference import EVERYONE, Reference
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.channel.selections import Selections
from tests.sidecar.parts import link_of
from tests.sidecar.test_flow import GroupWorkerUnderTest
from tests.support.store_parts import MadeRecord

RED, BLUE = "JMSType = 'red'", "JMSType = 'blue'"


def choosing(text: str | None) -> Link:
    return link_of("s", parse_selector(text))


def painted(offset: int, colour: str) -> Reference:
    return reference_of(MadeRecord(offset, key=None, headers=[("JMSType", colour.encode())]))


def state_of(*references: Reference) -> ChannelState:
    state = ChannelState()
    state.apply(TimePassed(1_000))
    state.apply(OfferedRaised(1 << 40))
    state.apply(Fetched(0, len(references), references))
    return state


def test_equal_selectors_have_one_bit_and_nobody_is_asked_while_there_is_none() -> None:
    """Of SEL-1: equal by normal form, however they are written."""
    selections = Selections()
    red, plain = painted(0, "red"), painted(1, "blue")
    selections.look([red])
    assert red.chosen_by == EVERYONE
    links = [choosing(RED), choosing("( JMSType='red' )"), choosing(BLUE), choosing(None)]
    selections.take(links, [])
    bits = [selections.bit_of(link) for link in links]
    assert bits[0] == bits[1]
    assert set(bits) == {EVERYONE, 2, 4}
    selections.look([red, plain])
    assert (red.chosen_by, plain.chosen_by) == (EVERYONE | bits[0], EVERYONE | bits[2])
    assert selections.present == 7


def test_what_is_in_memory_is_asked_by_a_selector_that_comes_also_where_it_gets_anothers_bit() -> None:
    selections, state = Selections(), state_of(painted(0, "red"), painted(1, "blue"))
    red, blue = choosing(RED), choosing(BLUE)
    selections.take([red], [state])
    bit = selections.bit_of(red)
    assert {each.offset: each.chosen_by for each in state.in_memory()} == {0: EVERYONE | 2, 1: EVERYONE}
    selections.take([blue], [state])
    assert selections.bit_of(blue) == bit == 2
    assert {each.offset: each.chosen_by for each in state.in_memory()} == {0: EVERYONE, 1: EVERYONE | 2}
    assert state.gates.free_for(bit) == 1


@pytest.mark.parametrize("counts_selectors", [True, False])
def test_a_receiver_has_a_bit_of_its_own_while_it_must_not_get_something_again(counts_selectors: bool) -> None:
    """AMQP-16: of a queue with what it selects, of a subscription without, for that is not there else."""
    selections, state = Selections(counts_selectors=counts_selectors), state_of(painted(0, "red"), painted(1, "blue"))
    red, others = choosing(RED), choosing(None)
    red.undeliverable = {(0, 0)}
    selections.take([red, others], [state])
    assert selections.bit_of(others) == EVERYONE
    own = selections.bit_of(red)
    unread = painted(0, "red")
    selections.look([unread])
    assert unread.chosen_by == EVERYONE
    chosen = {each.offset: bool(each.chosen_by & own) for each in state.in_memory()}
    assert chosen == {0: False, 1: not counts_selectors}
    red.undeliverable.clear()
    selections.take([red, others], [state])
    assert selections.is_selecting is counts_selectors


def test_what_has_left_the_queue_is_remembered_for_no_receiver() -> None:
    group_worker = GroupWorkerUnderTest(budget_bytes=1 << 20)
    data, link = group_worker.group_worker.data, choosing(None)
    data.links[link.terms.link_id] = link
    group_worker.fetch(3, None)
    for offset in range(3):
        group_worker.state.apply(decide_offer(group_worker.state, "s", limit=1, now_ms=0).change)
        data.note_undeliverable(link, group_worker.channel, offset)
    assert (len(link.undeliverable), data.selections.is_selecting) == (3, True)
    assert all(each.chosen_by == EVERYONE for each in group_worker.state.in_memory())
    group_worker.state.apply(Acknowledged("s", [0, 1, 2]))
    data.forget_undeliverable()
    assert (link.undeliverable, data.selections.is_selecting) == (set(), False)


def test_when_the_last_receiver_goes_its_selector_stays_until_another_comes() -> None:
    """What it had loaded and listed is not moved about for nothing."""
    selections, state = Selections(), state_of(painted(0, "red"), painted(1, "blue"))
    selections.take([choosing(RED)], [state])
    selections.take([], [state])
    assert state.gates.free_for(selections.present) == 1
    selections.take([choosing(None)], [state])
    assert not selections.is_selecting
    assert state.gates.free_for(EVERYONE) == 2


def test_who_has_credit_is_who_is_read_for() -> None:
    """All are when nobody has any."""
    selections, red, blue = Selections(), choosing(RED), choosing(BLUE)
    assert selections.wanted_by([red]) == EVERYONE
    selections.take([red, blue], [])
    assert selections.wanted_by([red, blue]) == selections.present
    red.demand.credit = 1
    assert selections.wanted_by([red, blue]) == selections.bit_of(red)


def test_units_that_nobody_chooses_pause_nothing_however_many(caplog: pytest.LogCaptureFixture) -> None:
    """Of LOG-9 and UNIT-6: and all of them come for another selector."""
    group_worker = GroupWorkerUnderTest(budget_bytes=1 << 20)
    data = group_worker.group_worker.data
    red = choosing("price > 1")
    data.links[red.terms.link_id] = red
    data.links_changed()
    with caplog.at_level(logging.WARNING):
        for number in range(2_000):
            group_worker.fetch(1, f"u{number}")
            group_worker.turn()
            assert not group_worker.channel.memory.is_paused
    assert not caplog.messages
    assert len(group_worker.state.gates.by_key) < 1_500
    assert group_worker.state.gates.waiting_count < 100
    data.links.clear()
    everything = choosing(None)
    data.links[everything.terms.link_id] = everything
    data.links_changed()
    assert sorted(set(group_worker.drain(2_000))) == list(range(2_000))
    assert not group_worker.channel.memory.is_paused
