"""Messages that an operator lets go before their time (SEND-10)."""

from __future__ import annotations

import pytest

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.cold_index import place_for
from jbm_kafka.core.channel.delivery_count import FIRST_DELIVERY, delivery_count_of
from jbm_kafka.core.channel.early import decide_let_go
from jbm_kafka.core.channel.entries import Held
from jbm_kafka.core.channel.held_in_order import HeldInOrder, HeldKind
from jbm_kafka.core.channel.redelivery_states import RETURNED_NOW, SENT_NOW
from jbm_kafka.core.channel.settlement import HELD_FOR_OPERATOR, Modified
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from tests.core.channel_parts import START_MS, Channel, message, recovered

LATER_MS = START_MS + 3_600_000
SLOW = ResolvedSettings(dead_letter_address="DLQ", redelivery_delay_ms=60_000, max_delivery_attempts=2)


def let_go(channel: Channel, *offsets: int, unit: bytes | None = None) -> list[int]:
    found = decide_let_go(channel.state, dict.fromkeys(offsets, unit))
    channel.state.apply(found.change)
    return list(found.change.units)


def test_one_that_its_sender_delayed_goes_now_and_is_no_redelivery() -> None:
    """SEND-10."""
    channel = Channel(message(0, delivery=LATER_MS), message(1, delivery=LATER_MS))
    assert channel.got("s") == []
    assert let_go(channel, 1) == [1]
    assert channel.state.redeliveries[1].reason == SENT_NOW
    assert channel.got("s") == [1]
    assert delivery_count_of(channel.state, 1) == FIRST_DELIVERY


def test_what_comes_back_of_it_waits_for_its_next_attempt_and_for_no_sender() -> None:
    """Of SEND-10. It waited for the hour that its sender had said, after each attempt."""
    channel = Channel(message(0, delivery=LATER_MS), settings=SLOW)
    let_go(channel, 0)
    assert channel.got("s") == [0]
    channel.give_back("s", Modified(0, counted=False), unread={0})
    assert channel.state.redeliveries[0].reason == SENT_NOW
    assert channel.got("s") == [0]
    channel.give_back("s", Modified(0, counted=False, was_seen=True))
    assert channel.got("s") == [0]
    assert delivery_count_of(channel.state, 0).redelivered
    channel.give_back("s", 0)
    assert channel.got("s") == []
    channel.pass_time(60_000)
    assert channel.got("s") == [0]
    assert delivery_count_of(channel.state, 0).attempts == 1
    assert [each.reason for each in channel.give_back("s", 0).leaving] == ["max-delivery-attempts"]


def test_one_that_waits_for_its_next_attempt_goes_now_with_its_attempts() -> None:
    """SEND-10."""
    channel = Channel(message(0, b"joe"), message(1, b"joe"), settings=SLOW)
    assert channel.got("s", 1) == [0]
    channel.give_back("s", 0)
    assert channel.got("s") == []
    assert let_go(channel, 0, 1, unit=b"joe") == [0, 1]
    assert channel.state.redeliveries[0].reason == RETURNED_NOW
    assert channel.got("s") + channel.got("s") == [0, 1]
    assert delivery_count_of(channel.state, 0).attempts == 1


def test_one_that_is_not_the_first_of_its_unit_goes_after_that() -> None:
    """Of SEND-10 and UNIT-2."""
    channel = Channel(message(0, b"joe", delivery=LATER_MS), message(1, b"joe", delivery=LATER_MS))
    let_go(channel, 1, unit=b"joe")
    assert channel.got("s") == []
    let_go(channel, 0, unit=b"joe")
    assert channel.got("s") + channel.got("s") == [0, 1]


def test_a_new_owner_knows_it() -> None:
    """Of SEND-10: the changelog says it, with the unit."""
    channel = Channel(message(0, b"joe", delivery=LATER_MS))
    let_go(channel, 0, unit=b"joe")
    entries = channel.checkpoint()
    (held,) = [each for each in entries if isinstance(each, Held)]
    assert (held.unit, held.reason) == (b"joe", SENT_NOW)
    other = recovered(*entries)
    other.state.apply(c.OfferedRaised(100))
    other.fetch(message(0, b"joe", delivery=LATER_MS))
    assert other.got("s") == [0]
    place = HeldInOrder(START_MS).place(message(0, b"joe", delivery=LATER_MS), other.state.redeliveries[0])
    assert place.kind is HeldKind.DELIVERABLE


@pytest.mark.parametrize("unit", [None, b"joe"])
def test_one_that_left_memory_comes_back_for_it(unit: bytes | None) -> None:
    """Of SEND-10: alone, whoever stands in its place with it."""
    channel = Channel(message(0, unit, delivery=LATER_MS), message(1, delivery=LATER_MS))
    place = place_for(LATER_MS, is_unchosen=False, time_ms=START_MS)
    if unit is None:
        channel.state.apply(c.Shelved(place, [0]))
        let_go(channel, 0)
        assert list(channel.state.shelf.to_fetch[place]) == [0]
        channel.state.apply(c.Unshelved(place, [message(0, delivery=LATER_MS)]))
    else:
        channel.state.apply(c.Spilled(unit, 0))
        let_go(channel, 0, unit=unit)
        channel.state.apply(c.Unspilled(unit, [message(0, unit, delivery=LATER_MS)]))
    assert channel.got("s") == [0]


def test_others_are_left_alone() -> None:
    """In hand, on hold, settled, not read yet."""
    hold = ResolvedSettings(dead_letter_address="DLQ", max_delivery_attempts=1, on_dead_letter="hold")
    channel = Channel(*[message(offset) for offset in range(3)], settings=hold)
    assert channel.got("s") == [0, 1, 2]
    channel.acknowledge("s", 0)
    channel.give_back("s", 1)
    assert channel.state.redeliveries[1].reason == HELD_FOR_OPERATOR
    found = decide_let_go(channel.state, dict.fromkeys([0, 1, 2, 3]))
    assert (dict(found.change.units), found.in_hand, found.unread, found.gone) == ({}, [2], [3], [0, 1])


def test_one_on_hold_after_it_was_let_go_stays_for_the_operator() -> None:
    hold = ResolvedSettings(dead_letter_address="DLQ", max_delivery_attempts=1, on_dead_letter="hold")
    channel = Channel(message(0, delivery=LATER_MS), settings=hold)
    let_go(channel, 0)
    assert channel.got("s") == [0]
    channel.give_back("s", 0)
    assert channel.state.redeliveries[0].reason == HELD_FOR_OPERATOR
    assert channel.got("s") == []
