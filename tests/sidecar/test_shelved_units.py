"""Units that wait in the held store with their gates: however many there are, no partition pauses."""

from __future__ import annotations

import random

import pytest

from jbm_kafka.browsing.intake import reference_of
from jbm_kafka.core.channel.blocking_rule import Rule
from jbm_kafka.core.channel.changes import Acknowledged, Fetched, Returned, ReturnedMessage, TakenOut, TimePassed
from jbm_kafka.core.channel.departure import DEPARTS_BY
from jbm_kafka.core.channel.entries import MessageFate
from jbm_kafka.core.channel.offer import decide_offer
from jbm_kafka.core.channel.on_hold import decide_released
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.channel.reference import DEPARTING, EVERYONE, Reference
from jbm_kafka.core.channel.settlement import HELD_FOR_OPERATOR
from jbm_kafka.core.channel.shelved_units import ShelvedUnits
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.operators.owner_questions import _units
from jbm_kafka.sidecar.stages.shelved import _store_key
from tests.sidecar.test_flow import BODY, LATER_MS, NOW_MS
from tests.sidecar.test_shelved import Shelving
from tests.support.store_parts import MadeRecord

UNITS = 6_000
HOUR_MS = 3_600_000
BUDGET_BYTES = 1 << 20
"""It has room for a thousand gates."""


class ShelvingUnits(Shelving):
    """Each message of the unit that its test says, with its colour."""

    def send(self, *rows: tuple[str, str]) -> None:
        begin = self.state.read_position
        references = [self._of_unit(begin + n, unit, colour) for n, (unit, colour) in enumerate(rows)]
        self.group_worker.data.selections.look(references)
        self.state.apply(Fetched(begin, begin + len(references), references))

    def _of_unit(self, offset: int, unit: str, colour: str) -> Reference:
        return reference_of(MadeRecord(offset, key=unit.encode(), value=BODY, headers=[("JMSType", colour.encode())]))

    def keep_for_operator(self) -> None:
        """A session takes what there is, and all of it is out of attempts."""
        offer = decide_offer(self.state, "a", limit=1_000, now_ms=NOW_MS)
        self.state.apply(offer.change)
        kept = [ReturnedMessage(each.offset, 1, FOREVER_MS, FOREVER_MS, HELD_FOR_OPERATOR) for each in offer.references]
        self.state.apply(Returned("a", kept))
        self.channel.take_freeze("jbm.test:1", ())
        self.channel.settle_freeze(durable=True)

    @property
    def gates_count(self) -> int:
        return len(self.state.gates.by_key)


def test_more_delayed_units_than_fit_pause_nothing_and_each_comes_in_order_and_in_its_time() -> None:
    """UNIT-1, UNIT-4, SEND-6, of LOG-9: later messages of each come while the first waits; others are had at once."""
    group_worker, chance = ShelvingUnits(budget_bytes=BUDGET_BYTES), random.Random(1)
    group_worker.state.shelf.units = ShelvedUnits(mark_bits=15)  # so that others are mistaken for them
    due_ms = [NOW_MS + 1 + chance.randrange(100_000) for _ in range(UNITS)]
    for number in range(UNITS):
        group_worker.fetch(1, f"order-{number}", due_ms[number])
        group_worker.turn(number % 10 == 9)
        assert not group_worker.channel.memory.is_paused
    assert group_worker.gates_count < 1_500
    for begin in range(0, UNITS, 300):
        first = group_worker.state.read_position
        for number in range(begin, begin + 300, 3):
            group_worker.fetch(1, f"order-{number}")
            group_worker.fetch(1, f"other-{number}")
        assert sorted(group_worker.drain(NOW_MS)) == list(range(first + 1, first + 200, 2)), "others go on at once"
        assert not group_worker.channel.memory.is_paused
    assert group_worker.gates_count < 1_500
    got: list[int] = []
    for now_ms in range(NOW_MS, NOW_MS + 110_000, 10_000):
        got += group_worker.drain(now_ms)
        assert {offset for offset in got if offset < UNITS} == {n for n in range(UNITS) if due_ms[n] <= now_ms}
    places = {offset: place for place, offset in enumerate(got)}
    later = {number: UNITS + 2 * (number // 3) for number in range(0, UNITS, 3)}
    assert len(got) == UNITS + len(later)
    assert all(places[number] < places[offset] for number, offset in later.items()), "a unit's order"
    assert not group_worker.state.shelf.places
    assert group_worker.state.watermark == group_worker.state.read_position


@pytest.mark.parametrize("has_units", [False, True])
def test_what_was_shelved_while_the_clock_was_set_back_for_seconds_comes_in_its_time(has_units: bool) -> None:
    """SEND-6: not half an hour late, once the clock is right again."""
    group_worker = ShelvingUnits(budget_bytes=BUDGET_BYTES)
    group_worker.state.apply(TimePassed(NOW_MS, HOUR_MS))
    for number in range(1_000):
        group_worker.fetch(1, f"order-{number}" if has_units else None, LATER_MS)
        group_worker.turn()
    assert group_worker.state.shelf.places
    assert list(group_worker.drain(LATER_MS - 1)) == []
    assert sorted(group_worker.drain(LATER_MS)) == list(range(1_000))
    assert not group_worker.state.shelf.places


@pytest.mark.parametrize("has_units", [False, True])
def test_what_a_sender_an_hour_ahead_delayed_comes_from_the_shelf_after_its_delay(has_units: bool) -> None:
    """Of SEND-6: by when it was read first, and not by when it came back into memory."""
    group_worker, delay_ms = ShelvingUnits(budget_bytes=BUDGET_BYTES), LATER_MS - NOW_MS
    headers = [("JMSDeliveryTime", b"%d" % (LATER_MS + HOUR_MS))]
    for number in range(1_000):
        key = b"order-%d" % number if has_units else None
        record = MadeRecord(number, key=key, value=BODY, headers=headers, timestamp=(1, NOW_MS + HOUR_MS))
        assert reference_of(record).delivery_delay_ms == delay_ms
        group_worker.state.apply(Fetched(number, number + 1, [reference_of(record)], at_ms=NOW_MS))
        group_worker.turn()
    assert group_worker.state.shelf.places
    assert list(group_worker.drain(LATER_MS - 1)) == []
    assert sorted(group_worker.drain(LATER_MS)) == list(range(1_000))
    assert not group_worker.state.shelf.places


def test_units_that_came_back_take_no_gates_and_come_with_their_attempts() -> None:
    """Of REDELIVER-2, LOG-9."""
    group_worker = ShelvingUnits(budget_bytes=BUDGET_BYTES)
    for number in range(1_000):
        group_worker.fetch(1, f"order-{number}")
        group_worker.give_back_all(LATER_MS)
        group_worker.turn()
        assert not group_worker.channel.memory.is_paused
    assert group_worker.gates_count < 500
    assert list(group_worker.drain(LATER_MS - 1)) == []
    assert {redelivery.attempts for _, redelivery in group_worker.state.redeliveries.items()} == {1}
    assert sorted(group_worker.drain(LATER_MS)) == list(range(1_000))
    assert not group_worker.state.redeliveries


def test_more_kept_for_an_operator_than_fit_pause_nothing_and_each_comes_when_he_lets_it_go() -> None:
    """UNIT-1, UNIT-16, of LOG-9: units with what came of them later, and messages without one."""
    group_worker = ShelvingUnits(budget_bytes=BUDGET_BYTES)
    state, channel = group_worker.state, group_worker.channel
    for begin in range(0, UNITS, 100):
        for number in range(begin, begin + 100, 2):
            group_worker.fetch(1, f"order-{number}")
            group_worker.fetch(1, None)
        group_worker.keep_for_operator()
        group_worker.turn(3)
        assert not channel.memory.is_paused
    assert group_worker.gates_count < 1_500
    for number in range(0, UNITS, 2):
        group_worker.fetch(1, f"order-{number}")
        if number % 200 == 0:
            assert list(group_worker.drain(LATER_MS)) == []
            assert not channel.memory.is_paused
    assert list(group_worker.drain(LATER_MS)) == []
    found = _units(state, LATER_MS)
    assert found == {Rule.ON_HOLD.value: UNITS}
    state.apply(decide_released(state, range(200), again=True))
    assert sorted(group_worker.drain(LATER_MS)) == [*range(200), *range(UNITS, UNITS + 100)]
    state.apply(decide_released(state, range(UNITS), again=True))
    assert _units(state, LATER_MS)[Rule.READY.value] > UNITS - 2_000
    got = list(group_worker.drain(LATER_MS))
    places = {offset: place for place, offset in enumerate(got)}
    assert sorted(got) == [*range(200, UNITS), *range(UNITS + 100, UNITS + UNITS // 2)]
    assert all(places[number] < places[UNITS + number // 2] for number in range(200, UNITS, 2)), "a unit's order"
    assert not state.shelf.places
    assert state.watermark == state.read_position


def test_when_the_store_lost_what_an_operator_let_go_the_channel_is_opened_anew() -> None:
    """Of LOG-9: in memory it is known what must be there."""
    group_worker = ShelvingUnits(budget_bytes=BUDGET_BYTES)
    for number in range(UNITS):
        group_worker.fetch(1, f"order-{number}")
        if number % 100 == 99:
            group_worker.keep_for_operator()
            group_worker.turn(3)
    (place,) = group_worker.state.shelf.places
    offset = next(iter(group_worker.state.shelf.places[place]))
    group_worker.store.remove(group_worker.channel.name, _store_key(place), [offset])
    group_worker.state.apply(decide_released(group_worker.state, [offset], again=True))
    assert group_worker.flow.keep_within_memory(group_worker.group_worker.data, group_worker.consumer) == [
        group_worker.channel
    ]


def test_units_whose_first_nobody_chooses_pause_nothing_and_each_selector_gets_its_own() -> None:
    """UNIT-6, of LOG-9 and SEL-1: with what waits behind, in order."""
    group_worker = ShelvingUnits(budget_bytes=BUDGET_BYTES)
    (red,) = group_worker.choose("red")
    got: list[int] = []
    for number in range(UNITS // 2):
        colour = "red" if number % 100 == 0 else "blue" if number % 100 == 1 else "grey"
        group_worker.send((f"u{number}", colour), (f"u{number}", "red"))
        if number % 10 == 9:
            got += group_worker.drink(red)
            assert not group_worker.channel.memory.is_paused, number
    assert got == [offset for number in range(0, UNITS // 2, 100) for offset in (2 * number, 2 * number + 1)]
    assert group_worker.gates_count < 1_500
    _, blue = group_worker.choose("red", "blue")
    assert sorted(group_worker.drink(blue)) == list(range(2, UNITS, 200))
    (everything,) = group_worker.choose(None)
    rest = list(group_worker.drink(everything))
    assert sorted(rest) == [o for o in range(UNITS) if o // 2 % 100 > 1 or o % 200 == 3]
    places = {offset: place for place, offset in enumerate(rest)}
    assert all(places[offset] < places[offset + 1] for offset in range(4, UNITS, 2) if offset in places)
    assert not group_worker.state.shelf.places


@pytest.mark.parametrize("how", ["due", "asked", "first"])
def test_what_the_held_store_has_lost_of_units_has_the_channel_recovered(how: str) -> None:
    """Of LOG-9: in memory it is known what must be there."""
    group_worker = ShelvingUnits(budget_bytes=BUDGET_BYTES)
    if how == "due":
        for number in range(2_000):
            group_worker.fetch(1, f"u{number}", LATER_MS)
    else:
        group_worker.choose("red")
        group_worker.send(*((f"u{number}", "grey") for number in range(2_000)))
    group_worker.turn(3)
    assert group_worker.state.shelf.places
    name, chooses, now_ms = group_worker.channel.name, EVERYONE, NOW_MS
    if how == "first":
        for number in range(2_000):
            group_worker.store.remove(name, b"u" + f"u{number}".encode(), range(2_000))
    else:
        group_worker.store.clear(name)
    if how == "due":
        now_ms = LATER_MS + 1
        group_worker.channel.pass_time(now_ms, 0)
    else:
        chooses = group_worker.bit_of(group_worker.choose("grey")[0])
    lost: list[OwnedChannel] = []
    for _ in range(20):
        lost += group_worker.flow.keep_within_memory(group_worker.group_worker.data, group_worker.consumer)
        in_memory = decide_offer(group_worker.state, "a", limit=1_000, now_ms=now_ms, chooses=chooses)
        group_worker.state.apply(in_memory.change)
    assert lost
    assert set(lost) == {group_worker.channel}


def test_a_full_disk_keeps_units_in_memory_and_repeats_and_reorders_nothing() -> None:
    """UNIT-1, of LOG-9: rows that the store has although it refused them count as nothing."""
    group_worker = ShelvingUnits(budget_bytes=BUDGET_BYTES)
    for number in range(500):
        group_worker.fetch(1, f"u{number}", LATER_MS)
    group_worker.turn(3)
    group_worker.store.is_full = True
    for number in range(500, 2_000):
        group_worker.fetch(1, f"u{number}", LATER_MS)
    group_worker.turn(3)
    group_worker.store.is_full = False
    group_worker.turn(200)
    assert not group_worker.channel.memory.is_paused
    assert group_worker.state.shelf.places
    for number in range(2_000):
        group_worker.fetch(1, f"u{number}")
    got = list(group_worker.drain(LATER_MS))
    places = {offset: place for place, offset in enumerate(got)}
    assert len(places) == len(got) == 4_000
    assert all(places[number] < places[number + 2_000] for number in range(2_000))


def test_an_operator_takes_out_of_shelved_units_whatever_he_names() -> None:
    """Of REDELIVER-4, UNIT-14: the first of a unit or a later one; what stays comes in order, and once."""
    group_worker = ShelvingUnits(budget_bytes=BUDGET_BYTES)
    for number in range(2_000):
        group_worker.fetch(1, f"u{number}", LATER_MS)
    for number in range(2_000):
        group_worker.fetch(1, f"u{number}")
        group_worker.turn(number % 100 == 99)
    assert list(group_worker.drain(NOW_MS)) == []
    shelved = [o for standing in group_worker.state.shelf.places.values() for o in standing]
    assert len(shelved) > 100
    taken = [*shelved[:30], *(offset + 2_000 for offset in shelved[20:50])]
    references = [reference_of(MadeRecord(offset, key=b"u%d" % (offset % 2_000))) for offset in taken]
    units = {reference.unit for reference in references if reference.unit is not None}
    group_worker.flow.prepare_taking_out(group_worker.channel, units)
    group_worker.state.apply(TakenOut(references))
    group_worker.state.apply(Acknowledged(session=DEPARTING, offsets=taken, transition=DEPARTS_BY[MessageFate.REMOVED]))
    got = list(group_worker.drain(LATER_MS))
    assert sorted(got) == sorted(set(range(4_000)) - set(taken))
    places = {offset: place for place, offset in enumerate(got)}
    assert all(places[n] < places[n + 2_000] for n in range(2_000) if n in places and n + 2_000 in places)
