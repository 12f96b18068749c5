"""What an operator takes out of a channel: from wherever it waits, and back to there when it cannot leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.departure import DEPARTS_BY, Route
from jbm_kafka.core.channel.entries import MessageFate
from jbm_kafka.core.channel.operator_removal import (
    OperatorRemoval,
    Verb,
    decide_put_back,
    find,
    may_wait_again,
    route_of_verb,
)
from jbm_kafka.core.channel.reference import DEPARTING, Reference
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from tests.core.channel_parts import Channel, message, recovered

LETTERS = ResolvedSettings(dead_letter_address="DLQ", expiry_address="Late")


def joes(*offsets: int) -> list[Reference]:
    return [message(offset, b"joe") for offset in offsets]


def take_out(channel: Channel, *references: Reference) -> None:
    channel.state.apply(c.TakenOut(references))


def gone(channel: Channel, *offsets: int) -> None:
    row = DEPARTS_BY[MessageFate.MOVED]
    channel.state.apply(c.Acknowledged(DEPARTING, offsets, transition=row))


def put_back(channel: Channel, *references: Reference) -> None:
    assert may_wait_again(channel.state, references)
    channel.state.apply(decide_put_back(channel.state, references))


def found(channel: Channel, offsets: Sequence[int], *, whole_units: bool = False) -> OperatorRemoval:
    known = {offset: message(offset, b"joe" if offset < 10 else None) for offset in offsets if offset != 99}
    return find(channel.state, offsets, known, whole_units=whole_units)


@pytest.mark.parametrize("unit", [b"joe", None])
def test_what_is_taken_out_of_the_middle_holds_its_unit_until_it_is_gone(unit: bytes | None) -> None:
    """Of UNIT-2."""
    channel = Channel(*[message(offset, unit) for offset in range(4)])
    take_out(channel, message(1, unit))
    assert channel.got("s") == ([] if unit else [0, 2, 3])
    gone(channel, 1)
    assert channel.got("s") == ([0, 2, 3] if unit else [])
    assert channel.state.watermark == 0
    channel.acknowledge("s", 0, 2, 3)
    assert channel.state.watermark == 4
    assert not channel.state.gates.by_key


def test_whoever_holds_earlier_ones_gets_what_follows() -> None:
    """Of UNIT-3."""
    channel = Channel(*joes(0, 1, 2))
    assert channel.got("s", 1) == [0]
    take_out(channel, *joes(1))
    assert channel.got("other") == []
    assert channel.got("s") == [2]
    channel.acknowledge("s", 0, 2)
    channel.fetch(*joes(3))
    assert channel.got("s") == []  # the copy is on its way still
    gone(channel, 1)
    assert channel.got("s") == [3]


def test_what_cannot_leave_waits_where_it_did() -> None:
    channel = Channel(*joes(0, 1, 2, 3))
    take_out(channel, *joes(1, 3))
    put_back(channel, *joes(3))
    assert channel.got("s") == []
    put_back(channel, *joes(1))
    assert channel.got("s") == [0, 1, 2, 3]


def test_what_cannot_leave_from_behind_a_session_waits_there_again() -> None:
    channel = Channel(*joes(0, 1, 2))
    assert channel.got("s", 1) == [0]
    take_out(channel, *joes(1, 2))
    put_back(channel, *joes(1))
    assert channel.got("s") == [1]
    channel.acknowledge("s", 0, 1)
    assert channel.got("s") == []
    put_back(channel, *joes(2))
    assert channel.got("s") == [2]


def test_a_session_s_last_attempt_leaves_beside_what_was_taken_out_behind_it() -> None:
    """Of UNIT-3: neither can leave, and both wait again."""
    channel = Channel(*joes(0, 1, 2), settings=replace(LETTERS, max_delivery_attempts=1))
    assert channel.got("s", 1) == [0]
    take_out(channel, *joes(1))
    assert [leaving.reference.offset for leaving in channel.give_back("s", 0).leaving] == [0]
    assert channel.got("other") == []
    put_back(channel, *joes(0, 1))
    assert channel.state.gates.by_key[b"joe"].owner is None
    assert [reference.offset for reference in channel.state.gates.by_key[b"joe"].waiting] == [0, 1, 2]


def test_an_expired_arrival_without_a_unit_may_be_put_back() -> None:
    channel = Channel(message(0, expires=1))
    assert [reference.offset for reference, _ in channel.ask("s").leaving] == [0]
    put_back(channel, message(0, expires=1))
    assert [reference.offset for reference, _ in channel.ask("s").leaving] == [0]


def test_a_past_and_a_delay_outlive_a_departure_that_failed() -> None:
    channel = Channel(
        *joes(0, 1),
        settings=ResolvedSettings(dead_letter_address="DLQ", redelivery_delay_ms=50, max_delivery_attempts=3),
    )
    assert channel.got("s", 1) == [0]
    channel.give_back("s", 0)
    before = channel.state.redeliveries[0]
    take_out(channel, *joes(0))
    put_back(channel, *joes(0))
    assert channel.state.redeliveries[0] == before
    assert channel.got("s") == []
    channel.pass_time(50)
    assert channel.got("s") == [0, 1]


def test_the_unit_goes_on_when_a_delayed_head_is_taken_out() -> None:
    channel = Channel(message(0, b"joe", delivery=1 << 50), *joes(1))
    assert channel.got("s") == []
    take_out(channel, message(0, b"joe"))
    gone(channel, 0)
    assert channel.got("s") == [1]


def test_messages_in_the_held_store_are_taken_out_there() -> None:
    """Of LOG-9: nothing has to come back into memory for it."""
    channel = Channel(*joes(0, 1, 2, 3))
    assert (channel.got("s", 1), channel.got("other")) == ([0], [])
    channel.state.apply(c.Spilled(key=b"joe", kept=1))
    channel.fetch(*joes(4))
    assert channel.got("other") == []
    gate = channel.state.gates.by_key[b"joe"]
    assert (gate.spilled, len(gate.tail)) == (2, 1)
    take_out(channel, *joes(2))
    assert not may_wait_again(channel.state, joes(2))
    assert (gate.spilled, len(gate.tail)) == (1, 1)
    take_out(channel, *joes(3))
    assert (gate.spilled, len(gate.tail)) == (0, 0)
    assert may_wait_again(channel.state, joes(2, 3))
    gone(channel, 2, 3)
    assert channel.got("s") == [1, 4]


def test_a_gate_whose_head_is_in_the_held_store_goes_on() -> None:
    channel = Channel(message(0, b"joe", delivery=1 << 50), *joes(1, 2))
    assert channel.got("s") == []
    channel.state.apply(c.Spilled(key=b"joe", kept=0))
    take_out(channel, message(0, b"joe"), *joes(1))
    assert list(channel.state.gates.awaiting_load) == [b"joe"]
    gone(channel, 0, 1)
    channel.state.apply(c.Unspilled(key=b"joe", references=joes(2)))
    assert channel.got("s") == [2]
    take_out(channel, *joes(5))  # not read yet, and so of no gate's waiting
    channel.state.apply(c.Acknowledged("s", [2]))


def test_the_last_ones_in_the_held_store_leave_a_gate_that_can_be_forgotten() -> None:
    channel = Channel(message(0, b"joe", delivery=1 << 50))
    channel.state.apply(c.Spilled(key=b"joe", kept=0))
    take_out(channel, message(0, b"joe"))
    gone(channel, 0)
    assert not channel.state.gates.by_key
    assert not channel.state.gates.awaiting_load


def look_ahead(channel: Channel, *references: Reference, end: int) -> None:
    begin = channel.state.end_position
    channel.state.apply(c.Fetched(begin=begin, end=end, references=references, is_ahead=True))


def test_messages_that_nobody_has_read_are_taken_out() -> None:
    channel = Channel(*joes(0))
    look_ahead(channel, *joes(2, 3, 5), end=6)
    assert (channel.state.read_position, channel.state.end_position) == (1, 6)
    assert list(channel.state.unsettled) == [0, 2, 3, 5]
    take_out(channel, *joes(3))
    assert channel.got("s") == []
    channel.fetch(*joes(2, 3))  # read while it is on its way
    gone(channel, 3)
    channel.fetch(*joes(5, 6))
    assert (channel.got("s"), channel.got("s")) == ([0], [2, 5, 6])


def test_what_was_not_read_and_cannot_leave_comes_when_it_is_read() -> None:
    channel = Channel(*joes(0))
    look_ahead(channel, *joes(1, 2), end=3)
    take_out(channel, *joes(1, 2))
    channel.fetch(*joes(1))
    put_back(channel, *joes(1, 2))
    assert channel.got("s") == [0, 1]
    channel.fetch(*joes(2))
    assert channel.got("s") == [2]


def test_what_was_read_while_a_later_one_could_not_leave_comes_before_it() -> None:
    channel = Channel(*joes(0))
    look_ahead(channel, *joes(1, 2, 3), end=4)
    take_out(channel, *joes(3))
    channel.fetch(*joes(1, 2, 3))
    put_back(channel, *joes(3))
    take_out(channel, *joes(2))  # another one, so that all arrivals are looked at
    gone(channel, 2)
    assert channel.got("s") == [0, 1, 3]


def test_what_left_unread_stays_gone_for_the_next_owner() -> None:
    channel = Channel(*joes(0))
    look_ahead(channel, *joes(1, 2), end=4)
    take_out(channel, *joes(1))
    entries = channel.checkpoint(offered_position=0, tentative={1})
    successor = recovered(*entries)
    successor.state.apply(c.OfferedRaised(1 << 40))
    successor.fetch(*joes(0, 1, 2), end=4)
    assert successor.got("s") == [0, 2]


def test_a_copy_that_is_not_durable_is_forgotten_with_its_owner() -> None:
    channel = Channel(*joes(0, 1))
    take_out(channel, *joes(0))
    successor = recovered(*channel.checkpoint(offered_position=0))
    successor.state.apply(c.OfferedRaised(1 << 40))
    successor.fetch(*joes(0, 1))
    assert successor.got("s") == [0, 1]


def test_what_may_leave_and_what_may_not() -> None:
    channel = Channel(*joes(0, 1, 2), message(10), message(11), message(12))
    channel.got("s", 1)
    take_out(channel, message(10))
    take_out(channel, message(11))
    gone(channel, 11)
    told = found(channel, [0, 1, 12, 10, 11, 50, 99])
    assert [each.offset for each in told.takeable] == [1, 12]
    assert (told.in_hand, told.behind, told.gone) == ([0], [], [10, 11, 50, 99])
    whole = found(channel, [2, 1, 12], whole_units=True)
    assert [each.offset for each in whole.takeable] == [12]
    assert whole.behind == [2, 1]


def test_a_unit_that_only_leaves_is_not_begun() -> None:
    """Whole units are moved in several portions."""
    channel = Channel(*joes(0, 1))
    take_out(channel, *joes(0))
    assert [each.offset for each in found(channel, [1], whole_units=True).takeable] == [1]


@pytest.mark.parametrize(
    ("verb", "route"),
    [
        (Verb.MOVE, Route("other", MessageFate.MOVED)),
        (Verb.REMOVE, Route(None, MessageFate.REMOVED)),
        (Verb.EXPIRE, Route("Late", MessageFate.EXPIRED)),
        (Verb.DEAD_LETTER, Route("DLQ", MessageFate.DEAD_LETTERED)),
    ],
)
def test_where_they_go(verb: Verb, route: Route) -> None:
    assert route_of_verb(verb, LETTERS, source="orders", to="other") == route


def test_what_expires_without_an_address_is_removed() -> None:
    assert route_of_verb(Verb.EXPIRE, ResolvedSettings(), source="orders", to=None).address is None


@pytest.mark.parametrize(("source", "verb"), [("DLQ", Verb.DEAD_LETTER), ("Late", Verb.EXPIRE), ("other", Verb.MOVE)])
def test_nothing_goes_to_where_it_is(source: str, verb: Verb) -> None:
    with pytest.raises(IllegalStateError, match="is itself where"):
        route_of_verb(verb, LETTERS, source=source, to="other")


def test_a_dead_letter_needs_an_address() -> None:
    with pytest.raises(IllegalStateError, match="no dead-letter address"):
        route_of_verb(Verb.DEAD_LETTER, ResolvedSettings(), source="orders", to=None)
