"""Units that have left memory with their gates: what comes of them later waits behind them all the same."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.blocking_rule import BlockingRule, Rule, blocking_rule_of
from jbm_kafka.core.channel.cold_index import Place
from jbm_kafka.core.channel.operator_removal import decide_put_back, may_wait_again
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.channel.reference import DEPARTING, EVERYONE, Reference
from jbm_kafka.core.channel.settlement import HELD_FOR_OPERATOR, Modified
from jbm_kafka.core.channel.shelved_units import ShelvedUnits, UnitHead
from jbm_kafka.core.channel.spilling import shelvable, shelved, spillable
from tests.core.channel_parts import START_MS, Channel, message

RED, BLUE = 2, 4
DELAY_MS = 1_000


def put_away(channel: Channel) -> list[c.UnitsShelved]:
    """Spill and shelve all units that may be."""
    for row in spillable(channel.state):
        if not row.kept:
            channel.state.apply(c.Spilled(row.gate.key, row.kept))
    changes = [
        change for change in shelved(channel.state, shelvable(channel.state)) if isinstance(change, c.UnitsShelved)
    ]
    for change in changes:
        channel.state.apply(change)
    return changes


def bring_back(channel: Channel, unit: bytes, shelved: list[c.UnitsShelved]) -> None:
    """As after a look into the held store."""
    ((place, head),) = [(row.place, head) for row in shelved for head in row.heads if head.unit == unit]
    channel.state.apply(c.UnitsUnshelved(place, [head]))


def unlike(channel: Channel, unit: bytes) -> bytes:
    """Another unit that cannot be told from this one without a look."""
    channel.state.shelf.units = ShelvedUnits(mark_bits=1)
    marks = ShelvedUnits(mark_bits=1)
    marks.add(UnitHead(0, unit), 1)
    return next(name for name in (b"v%d" % n for n in range(100)) if marks.may_have(name))


@given(st.integers(0, 1 << 32))
def test_units_are_found_and_counted_however_many_share_a_mark(seed: int) -> None:
    """Of LOG-9, UNIT-1: a look is never spared by mistake, and in the end nothing is left."""
    chance, units = random.Random(seed), ShelvedUnits(mark_bits=3)
    counts: dict[UnitHead, int] = {}
    for offset in range(chance.randrange(60)):
        if counts and chance.random() < 0.4:
            head = chance.choice(sorted(counts))
            assert units.take(head) == counts.pop(head)
        else:
            head, messages = UnitHead(offset << 10, b"unit-%d" % offset), chance.choice((1, 1, 2, 5, 70_000))
            counts[head] = messages
            units.add(head, messages)
        assert units.count == len(counts)
        assert all(units.may_have(head.unit) for head in counts)
    for head, messages in counts.items():
        assert units.take(head) == messages
    assert not any(units.may_have(b"unit-%d" % n) for n in range(60))


def test_a_unit_leaves_with_its_gate_and_its_messages_come_in_order() -> None:
    """UNIT-1, UNIT-4, of LOG-9: also one that came meanwhile, and in time."""
    head = message(0, b"u", delivery=START_MS + DELAY_MS)
    channel = Channel(head, message(1, b"u"), message(2, b"w"))
    assert channel.got("a") == [2]
    ((place, heads),) = [(row.place, row.heads) for row in put_away(channel)]
    gates, shelf = channel.state.gates, channel.state.shelf
    assert heads == [UnitHead(0, b"u")]
    assert b"u" not in gates.by_key
    assert gates.waiting_count == 0
    channel.pass_time(shelf.next_at_ms - START_MS)
    assert list(shelf.to_load) == [place]
    channel.state.apply(c.UnitsUnshelved(place, heads))
    assert not shelf.places
    assert list(gates.awaiting_load) == [b"u"]
    channel.fetch(message(3, b"u"))
    assert channel.got("a") == []
    channel.state.apply(c.Unspilled(b"u", [head]))
    assert channel.got("a") == []
    channel.pass_time(DELAY_MS)
    assert channel.got("a") == [0]
    channel.state.apply(c.Unspilled(b"u", [message(1, b"u")]))
    assert channel.got("a") == [1, 3]


def test_what_comes_of_a_shelved_unit_waits_behind_it() -> None:
    """UNIT-1, UNIT-2: before it is known whether the unit is shelved, and after; then it may be shelved again."""
    channel = Channel(message(0, b"u", delivery=START_MS + DELAY_MS))
    rows = put_away(channel)
    channel.fetch(message(1, b"u"), message(2, b"w"), message(3, b"u"))
    assert channel.got("a") == [2]
    gates = channel.state.gates
    assert list(gates.awaiting_look) == [b"u"]
    assert not spillable(channel.state)
    assert blocking_rule_of(channel.state, 3, b"u", now_ms=START_MS) == BlockingRule(Rule.BEHIND)
    bring_back(channel, b"u", rows)
    assert not gates.awaiting_look
    assert not gates.awaiting_load, "the head's time has not come"
    assert channel.got("a") == []
    ((place, heads),) = [(row.place, row.heads) for row in put_away(channel)]
    assert heads == [UnitHead(0, b"u")]
    channel.pass_time(DELAY_MS)
    channel.state.apply(c.UnitsUnshelved(place, heads))
    assert gates.by_key[b"u"].spilled == 3
    channel.state.apply(c.Unspilled(b"u", [message(0, b"u"), message(1, b"u"), message(3, b"u")]))
    assert channel.got("a") == [0, 1, 3]


def test_a_unit_that_is_mistaken_for_a_shelved_one_waits_for_a_look_only() -> None:
    """Of LOG-9: a blocked unit stops no other."""
    channel = Channel()
    other = unlike(channel, b"u")
    channel.fetch(message(0, b"u", delivery=START_MS + DELAY_MS))
    put_away(channel)
    channel.fetch(message(1, other), message(2, other))
    assert channel.got("a") == []
    channel.state.apply(c.UnitNotShelved(other))
    assert channel.got("a") == [1, 2]
    assert blocking_rule_of(channel.state, 2, other, now_ms=START_MS).rule is Rule.IN_HAND


def test_a_unit_that_comes_back_before_its_head_is_due_waits_on() -> None:
    """UNIT-4: with a timer of its own; by then what came later may have left."""
    channel = Channel(message(0, b"u", delivery=START_MS + DELAY_MS))
    rows = put_away(channel)
    bring_back(channel, b"u", rows)
    gates = channel.state.gates
    assert not gates.awaiting_load
    channel.pass_time(rows[0].place.back_at_ms - START_MS)
    assert list(gates.awaiting_load) == [b"u"]


def test_a_unit_of_which_somebody_has_messages_keeps_its_gate() -> None:
    """UNIT-2."""
    channel = Channel(message(0, b"u"), message(1, b"u", delivery=START_MS + DELAY_MS))
    assert channel.got("a") == [0]
    assert put_away(channel) == []


def test_units_that_came_back_leave_with_their_gates() -> None:
    """Of REDELIVER-2, LOG-9: attempts are remembered."""
    channel = Channel(message(0, b"u"), message(1))
    assert channel.got("a") == [0, 1]
    channel.give_back("a", *(Modified(offset, counted=True, delay_ms=DELAY_MS) for offset in (0, 1)))
    assert [row.heads for row in put_away(channel)] == [[UnitHead(0, b"u")]]
    alone = [row for row in shelved(channel.state, shelvable(channel.state)) if isinstance(row, c.Shelved)]
    assert [row.offsets for row in alone] == [[1]]
    channel.state.apply(alone[0])
    assert not channel.state.gates.by_key
    delayed = BlockingRule(Rule.DELAYED, due_at_ms=START_MS + DELAY_MS)
    assert blocking_rule_of(channel.state, 0, b"u", now_ms=START_MS) == delayed
    assert blocking_rule_of(channel.state, 1, None, now_ms=START_MS) == delayed
    channel.state.apply(c.Unshelved(alone[0].place, [message(1)]))
    channel.pass_time(DELAY_MS)
    assert channel.got("a") == [1]


def test_what_is_kept_for_an_operator_leaves_with_its_gate_and_comes_back_when_he_lets_it_go() -> None:
    """UNIT-16, of LOG-9: only that, however many wait beside it."""
    channel = Channel(message(0, b"u"), message(1, b"w"), message(2), message(3), message(4, b"u"))
    assert channel.got("a") == [0, 1, 2, 3, 4]
    kept = [c.ReturnedMessage(offset, 10, FOREVER_MS, FOREVER_MS, HELD_FOR_OPERATOR) for offset in range(4)]
    channel.state.apply(c.Returned("a", [*kept, c.ReturnedMessage(4, 0, 0, 0, "returned")]))
    (units,) = put_away(channel)
    (alone,) = [row for row in shelved(channel.state, shelvable(channel.state)) if isinstance(row, c.Shelved)]
    channel.state.apply(alone)
    gates, shelf = channel.state.gates, channel.state.shelf
    assert not gates.by_key
    channel.pass_time(365 * 86_400_000)
    assert not shelf.is_awaited
    for offset, unit in ((0, b"u"), (2, None)):
        assert blocking_rule_of(channel.state, offset, unit, now_ms=channel.now_ms) == BlockingRule(Rule.ON_HOLD)
    channel.state.apply(c.Released([c.ReturnedMessage(offset, 0, 0, 0, "returned") for offset in (0, 2, 3)]))
    assert {place: list(offsets) for place, offsets in shelf.to_fetch.items()} == {
        alone.place: [2, 3],
        units.place: [0],
    }
    assert blocking_rule_of(channel.state, 0, b"u", now_ms=channel.now_ms) == BlockingRule(Rule.READY)
    assert blocking_rule_of(channel.state, 1, b"w", now_ms=channel.now_ms) == BlockingRule(Rule.ON_HOLD)
    channel.state.apply(c.Unshelved(alone.place, [message(2)]))
    channel.state.apply(c.UnitsUnshelved(units.place, units.heads))
    assert {place: list(offsets) for place, offsets in shelf.to_fetch.items()} == {alone.place: [3]}
    channel.state.apply(c.Unshelved(alone.place, [message(3)]))
    assert not shelf.is_awaited
    assert channel.got("a") == [2, 3]
    assert list(gates.awaiting_load) == [b"u"]
    channel.state.apply(c.Unspilled(b"u", [message(0, b"u"), message(4, b"u")]))
    assert channel.got("a") == [0, 4]
    assert gates.by_key[b"w"].due_at_ms == FOREVER_MS


def test_an_operator_lets_go_of_what_stands_behind_a_shelved_unit() -> None:
    """UNIT-16: nothing happens before it is the first."""
    channel = Channel(message(0, b"u"), message(1, b"u"))
    assert channel.got("a") == [0, 1]
    kept = c.ReturnedMessage(1, 10, 1 << 60, 1 << 60, HELD_FOR_OPERATOR)
    delayed = c.ReturnedMessage(0, 1, START_MS + DELAY_MS, DELAY_MS, "returned")
    channel.state.apply(c.Returned(session="a", messages=[delayed, kept]))
    (row,) = put_away(channel)
    channel.state.apply(c.Released([c.ReturnedMessage(1, 0, 0, 0, "returned")]))
    assert channel.state.shelf.places
    channel.pass_time(DELAY_MS)
    channel.state.apply(c.UnitsUnshelved(row.place, row.heads))
    channel.state.apply(c.Unspilled(b"u", [message(0, b"u"), message(1, b"u")]))
    assert [channel.got("a"), channel.got("a")] == [[0], [1]]


def test_units_whose_first_nobody_chooses_are_looked_at_when_a_selector_comes() -> None:
    """UNIT-6, of LOG-9: brought back, the first is loaded, for who chooses it is not known here."""
    channel = Channel()
    channel.state.apply(c.Selected(RED))
    blue = message(0, b"u")
    blue.chosen_by = EVERYONE | BLUE
    channel.fetch(blue, message(1, b"u"))
    channel.ask("reds", chooses=RED)
    (row,) = put_away(channel)
    assert row.place == Place(0, True, True)
    assert blocking_rule_of(channel.state, 0, b"u", now_ms=START_MS) == BlockingRule(Rule.NOT_SELECTED)
    channel.state.apply(c.Selected(RED | BLUE))
    assert list(channel.state.shelf.to_ask) == [row.place]
    channel.state.apply(c.UnitsUnshelved(row.place, row.heads))
    channel.state.apply(c.ShelfAsked(row.place, None))
    assert list(channel.state.gates.awaiting_load) == [b"u"]
    channel.state.apply(c.Unspilled(b"u", [blue]))
    assert [each.offset for each in channel.ask("blues", chooses=BLUE).references] == [0]


def test_an_operator_takes_out_what_has_just_come_of_a_unit_that_may_be_shelved() -> None:
    """Of REDELIVER-4, UNIT-1: what stays waits behind what is shelved, and nothing goes back before that is known."""
    channel = Channel(message(0, b"u", delivery=START_MS + DELAY_MS))
    rows = put_away(channel)
    taken = message(1, b"u")
    channel.fetch(taken, message(2, b"u"))
    channel.state.apply(c.TakenOut([taken]))
    assert not may_wait_again(channel.state, [taken])
    bring_back(channel, b"u", rows)
    gates = channel.state.gates
    assert list(gates.awaiting_load) == [b"u"]
    channel.acknowledge(DEPARTING, 1)
    channel.state.apply(c.Unspilled(b"u", [message(0, b"u", delivery=START_MS + DELAY_MS)]))
    assert channel.got("a") == []
    channel.pass_time(DELAY_MS)
    assert channel.got("a") == [0, 2]


def test_what_is_taken_out_of_a_unit_that_is_not_shelved_leaves_nothing_behind() -> None:
    channel = Channel()
    other = unlike(channel, b"u")
    channel.fetch(message(0, b"u", delivery=START_MS + DELAY_MS))
    put_away(channel)
    taken: Reference = message(1, other)
    channel.fetch(taken)
    channel.state.apply(c.TakenOut([taken]))
    channel.acknowledge(DEPARTING, 1)
    assert not channel.state.gates.awaiting_look
    assert not channel.state.gates.by_key
    channel.fetch(message(2, other))
    channel.state.apply(c.TakenOut([message(2, other)]))
    channel.state.apply(c.UnitNotShelved(other))
    channel.state.apply(decide_put_back(channel.state, [message(2, other)]))
    assert channel.got("a") == [2]
