"""What leaves memory with its gate, and comes back when its time or a selector comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.blocking_rule import BlockingRule, Rule, blocking_rule_of
from jbm_kafka.core.channel.cold_index import NEVER, PARTS, ColdIndex, Place, place_for
from jbm_kafka.core.channel.operator_removal import decide_put_back
from jbm_kafka.core.channel.reference import DEPARTING, EVERYONE, Reference
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.channel.spilling import shelvable, shelved, spillable
from jbm_kafka.core.channel.unit_of_order import SPARE_GATES
from tests.core.channel_parts import START_MS, Channel, message

RED, BLUE = 2, 4
FOR_EVER = Place(0, True)


def shelve(channel: Channel) -> dict[Place, list[Reference]]:
    """All that may go there; what the held store has then."""
    stored: dict[Place, list[Reference]] = {}
    gates = shelvable(channel.state)
    heads = {gate.waiting[0].offset: gate.waiting[0] for gate in gates}
    for change in shelved(channel.state, gates):
        assert isinstance(change, c.Shelved)
        channel.state.apply(change)
        stored[change.place] = [heads[offset] for offset in change.offsets]
    return stored


def nobody_chooses(offset: int, *, expires: int = 0) -> Reference:
    reference = message(offset, expires=expires)
    reference.chosen_by = EVERYONE
    return reference


@given(now_ms=st.integers(1, 1 << 42), wait_ms=st.integers(1, 1 << 50), is_unchosen=st.booleans())
def test_a_place_is_looked_at_after_now_and_never_late(now_ms: int, wait_ms: int, is_unchosen: bool) -> None:
    """Of SEND-6 and LOG-9: and early by an eighth of the wait at most, so that it ends."""
    place = place_for(now_ms + wait_ms, is_unchosen=is_unchosen, time_ms=now_ms)
    assert now_ms < place.back_at_ms <= now_ms + wait_ms
    assert now_ms + wait_ms - place.back_at_ms <= wait_ms // PARTS
    assert place.is_unchosen == is_unchosen


def test_many_times_share_few_places() -> None:
    """Of LOG-9: a million delays of up to a year, each of its own, and what is remembered of times is some hundreds."""
    year_ms = 365 * 86_400_000
    places = {place_for(1 + n * (year_ms // 100_000), is_unchosen=False, time_ms=0) for n in range(100_000)}
    assert len(places) < 300


def test_a_delayed_message_leaves_with_its_gate_and_is_due_in_time() -> None:
    """Of LOG-9, SEND-6: nothing stays of it but its offset."""
    channel = Channel(*[message(n, delivery=START_MS + 1_000 + n) for n in range(100)])
    stored = shelve(channel)
    gates, shelf = channel.state.gates, channel.state.shelf
    assert not gates.by_key
    assert gates.waiting_count == 0
    assert sum(len(offsets) for offsets in shelf.places.values()) == 100
    assert channel.state.watermark == 0
    assert not shelf.is_awaited
    channel.pass_time(shelf.next_at_ms - START_MS)
    (place, *others) = shelf.to_load
    assert not others
    assert place.back_at_ms == min(stored).back_at_ms
    channel.state.apply(c.Unshelved(place, stored[place]))
    assert place not in shelf.places
    assert not shelf.to_load
    assert gates.waiting_count == len(stored[place])
    assert channel.got("a") == [r.offset for r in stored[place] if r.delivery_time_ms <= channel.now_ms]


def test_places_that_are_due_come_back_the_earliest_first_and_the_rest_is_waited_for() -> None:
    channel = Channel(*[message(n, delivery=START_MS + wait_ms) for n, wait_ms in enumerate([4_000, 100, 900_000])])
    stored = shelve(channel)
    channel.pass_time(10_000)
    shelf = channel.state.shelf
    assert [stored[place][0].offset for place in shelf.to_load] == [1, 0]
    assert START_MS + 10_000 < shelf.next_at_ms <= START_MS + 900_000
    channel.pass_time(890_000)
    assert len(shelf.to_load) == 3
    assert shelf.next_at_ms == NEVER


def test_a_message_that_came_back_leaves_with_its_gate_and_one_of_a_unit_is_spilled_first() -> None:
    """Of LOG-9: a unit's messages stand together in the held store."""
    channel = Channel(message(0), message(1, b"u", delivery=START_MS + 50), message(2, delivery=START_MS + 50))
    assert channel.got("a") == [0]
    channel.give_back("a", Modified(0, counted=True, delay_ms=1_000))
    assert [row.gate.key for row in spillable(channel.state)] == [b"u"]
    assert [gate.key for gate in shelvable(channel.state)] == [0, 2]


def test_what_nobody_chooses_is_asked_again_when_a_selector_comes_and_not_when_one_goes() -> None:
    """Of LOG-9 and UNIT-6: place by place, as far as was said."""
    channel = Channel()
    channel.state.apply(c.Selected(RED | BLUE))
    channel.fetch(*[nobody_chooses(n) for n in range(4)], nobody_chooses(4, expires=START_MS + 500))
    stored = shelve(channel)
    shelf = channel.state.shelf
    assert len(shelf.places) == 2
    channel.state.apply(c.Selected(RED, asks=False))
    assert not shelf.is_awaited
    channel.state.apply(c.Selected(RED | 8))
    assert shelf.to_ask == {FOR_EVER: 0, next(place for place in stored if place != FOR_EVER): 0}
    chosen = stored[FOR_EVER][1]
    chosen.chosen_by |= 8
    channel.state.apply(c.Unshelved(FOR_EVER, [chosen]))
    channel.state.apply(c.ShelfAsked(FOR_EVER, 2))
    assert shelf.to_ask[FOR_EVER] == 2
    assert [each.offset for each in channel.ask("eight", chooses=8).references] == [1]
    channel.state.apply(c.ShelfAsked(FOR_EVER, None))
    assert FOR_EVER not in shelf.to_ask
    assert list(shelf.places[FOR_EVER]) == [0, 2, 3]


def test_what_nobody_chooses_comes_back_to_leave_when_it_expires() -> None:
    """Of SEND-5."""
    channel = Channel()
    channel.state.apply(c.Selected(RED))
    channel.fetch(nobody_chooses(0, expires=START_MS + 500))
    ((place, references),) = shelve(channel).items()
    assert START_MS < place.back_at_ms <= START_MS + 500
    channel.pass_time(501)
    channel.state.apply(c.Unshelved(place, references))
    assert [reason for _, reason in channel.ask("reds", chooses=RED).leaving] == ["expired"]
    channel.acknowledge(DEPARTING, 0)
    assert channel.state.watermark == 1


def test_a_place_of_which_all_came_back_is_asked_no_more() -> None:
    shelf = ColdIndex()
    shelf.put(FOR_EVER, [1, 2])
    shelf.ask_anew()
    shelf.take(FOR_EVER, [1, 2])
    shelf.note_asked(FOR_EVER, 7)
    assert not shelf.is_awaited
    assert not shelf.places


def test_only_what_stands_there_comes_back() -> None:
    shelf = ColdIndex()
    shelf.put(FOR_EVER, [1, 2])
    with pytest.raises(AssertionError):
        shelf.take(FOR_EVER, [2, 3])


def test_what_waits_for_a_time_is_sent_for_and_nothing_else() -> None:
    """Of SEND-10: what nobody chooses waits for a selector, and stays; so does what stands in other places."""
    shelf, soon, later = ColdIndex(), Place(START_MS, is_unchosen=False), Place(2 * START_MS, is_unchosen=False)
    for place, offsets in ((FOR_EVER, [1]), (soon, [2, 3]), (later, [4])):
        shelf.put(place, offsets)
    shelf.fetch_early([1, 2])
    assert {place: list(wanted) for place, wanted in shelf.to_fetch.items()} == {soon: [2]}


def test_timers_of_what_left_are_forgotten() -> None:
    """Of LOG-9: they would be as many as the messages."""
    count = SPARE_GATES + 10
    channel = Channel(
        *[message(n, delivery=START_MS + 1_000 + n) for n in range(count)], message(count, b"u", delivery=2_000)
    )
    assert len(channel.state.gates.timers) == count + 1
    shelve(channel)
    assert [key for _, _, key in channel.state.gates.timers] == [b"u"]


def test_a_plain_message_needs_no_gate_because_a_delayed_one_without_a_unit_came_behind_it() -> None:
    channel = Channel(message(0, b"a"), message(1, delivery=START_MS + 10), message(2, b"a"))
    assert [reference.offset for reference in channel.state.arrivals] == [0, 2]
    channel.fetch(message(3, b"b", priority=9))
    assert not channel.state.arrivals
    assert channel.got("a") == [3, 0, 2]


def test_an_operator_takes_out_what_is_shelved_and_it_waits_again_when_that_fails() -> None:
    """Of REDELIVER-4 and LOG-9: the held store's row counts no more."""
    first, second = message(0, delivery=START_MS + 500), message(1, delivery=START_MS + 500)
    channel = Channel(first, second)
    ((place, _),) = shelve(channel).items()
    channel.state.apply(c.TakenOut([first]))
    assert list(channel.state.shelf.places[place]) == [1]
    assert list(channel.state.in_hand[DEPARTING]) == [0]
    assert channel.state.gates.waiting_count == 0
    channel.state.apply(decide_put_back(channel.state, [first]))
    channel.pass_time(500)
    assert channel.got("a") == [0]
    channel.state.apply(c.TakenOut([second]))
    assert not channel.state.shelf.places
    channel.acknowledge(DEPARTING, 1)
    channel.acknowledge("a", 0)
    assert channel.state.watermark == 2


def test_a_place_takes_more() -> None:
    channel = Channel(message(0, delivery=START_MS + 500))
    shelve(channel)
    channel.fetch(message(1, delivery=START_MS + 501))
    ((place, _),) = shelve(channel).items()
    assert list(channel.state.shelf.places[place]) == [0, 1]


def test_explain_says_of_what_is_shelved_what_it_waits_for() -> None:
    """Of UNIT-17: of a delay no earlier than what it says."""
    channel = Channel()
    channel.state.apply(c.Selected(RED))
    channel.fetch(nobody_chooses(0), message(1, delivery=START_MS + 500))
    stored = shelve(channel)
    assert len(stored) == 2
    unchosen = blocking_rule_of(channel.state, 0, None, now_ms=START_MS)
    assert unchosen == BlockingRule(Rule.NOT_SELECTED)
    delayed = blocking_rule_of(channel.state, 1, None, now_ms=START_MS)
    assert delayed.rule is Rule.NOT_YET_DUE
    assert START_MS < delayed.due_at_ms <= START_MS + 500


def test_what_waits_for_a_time_is_looked_at_anew_when_the_clock_is_right_again() -> None:
    """Of SEND-6: its time was reckoned by a clock that was set back; what waits for a selector stays."""
    channel = Channel()
    channel.state.apply(c.Selected(RED))
    channel.fetch(nobody_chooses(0))
    assert list(shelve(channel)) == [FOR_EVER]
    channel.state.apply(c.TimePassed(START_MS, 3_600_000))
    channel.fetch(message(1, delivery=START_MS + 10_000))
    shelve(channel)
    channel.state.apply(c.TimePassed(START_MS + 9_000, 0))
    assert [list(each) for each in channel.state.shelf.to_fetch.values()] == [[1]]
