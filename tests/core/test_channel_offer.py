"""Who gets which message: one promise a test."""

from __future__ import annotations

import pytest

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.departure import EXPIRED, OUT_OF_ATTEMPTS
from jbm_kafka.core.channel.reference import DEPARTING
from jbm_kafka.core.channel.settlement import Modified
from tests.core.channel_parts import START_MS, Channel, message


def test_messages_without_a_unit_come_in_the_order_of_the_log() -> None:
    """ORDER-1."""
    channel = Channel(message(0), message(3), message(4))
    assert channel.got("a", 2) == [0, 3]
    assert channel.got("b") == [4]


def test_a_channel_without_messages_offers_nothing() -> None:
    channel = Channel()
    channel.fetch(end=7)
    offer = channel.ask("a")
    assert not offer.changes_something
    assert not offer.needs_offered
    assert channel.state.watermark == 7


def test_a_session_that_wants_nothing_gets_nothing() -> None:
    channel = Channel(message(0), message(1, priority=9))
    assert channel.got("a", 0) == []


def test_a_unit_in_one_hand_goes_to_nobody_else() -> None:
    """UNIT-2."""
    channel = Channel(message(0, b"u"), message(1, b"u"), message(2, b"v"))
    assert channel.got("a", 1) == [0]
    assert channel.got("b") == [2]
    channel.acknowledge("a", 0)
    assert channel.got("b") == [1]


def test_more_of_a_unit_goes_to_the_session_that_holds_it() -> None:
    """UNIT-3."""
    channel = Channel(message(0, b"u"), message(1, b"u"), message(2, b"u"))
    assert channel.got("a", 1) == [0]
    assert channel.got("b") == []
    assert channel.got("a") == [1, 2]


def test_an_arrival_does_not_overtake_what_waits_for_its_time_at_the_gate() -> None:
    """UNIT-1, of UNIT-4: though the session that asks holds the unit."""
    channel = Channel(message(0, b"u"))
    channel.got("a")
    channel.fetch(message(1, b"u", delivery=START_MS + 50))
    channel.fetch(message(2, b"u"))
    assert channel.got("a") == []
    channel.pass_time(50)
    assert channel.got("a") == [1, 2]


def test_an_individual_session_holds_one_message_of_a_unit() -> None:
    """UNIT-3."""
    channel = Channel(message(0, b"u"), message(1, b"u"), message(2), message(3, b"v"))
    assert channel.got("a", one_per_unit=True) == [0, 2, 3]
    assert channel.got("a", one_per_unit=True) == []
    channel.acknowledge("a", 0)
    assert channel.got("a", one_per_unit=True) == [1]


def test_an_individual_session_takes_one_head_of_a_unit_that_waits() -> None:
    """UNIT-3: the same when the messages come from their gate."""
    channel = Channel(message(0, b"u", priority=9), message(1, b"u", priority=9))
    assert channel.got("a", one_per_unit=True) == [0]
    assert channel.got("b") == []


def test_a_higher_priority_goes_first_between_units_and_never_within_one() -> None:
    """SEND-7, UNIT-1, of UNIT-6."""
    channel = Channel(
        message(0, b"u"),
        message(1, b"u", priority=9),
        message(2, b"v", priority=9),
        message(3, priority=0),
        message(4),
        message(5, priority=9),
    )
    got: list[int] = []
    while taken := channel.got("a"):
        got += taken
    assert got.index(0) < got.index(1)
    assert got[:2] == [2, 5]
    assert got[-1] == 3 or got[-1] == 1
    assert sorted(got) == [0, 1, 2, 3, 4, 5]


def test_arrivals_and_waiting_heads_are_merged_by_priority_and_offset() -> None:
    """SEND-7, ORDER-1."""
    channel = Channel(message(0), message(1), message(2))
    channel.got("a")
    channel.fetch(message(3))
    channel.give_back("a", Modified(1, counted=False))
    assert channel.got("b") == [1, 3]
    channel.give_back("a", Modified(2, counted=False))
    channel.fetch(message(4), message(5))
    assert channel.got("b", 2) == [2, 4]
    channel.fetch(message(6, priority=0))
    channel.fetch(message(7))
    assert channel.got("b") == [5, 7, 6]


def test_a_delivery_time_holds_back_its_unit_and_no_other() -> None:
    """SEND-6, of UNIT-4."""
    channel = Channel(message(0, b"u", delivery=START_MS + 50), message(1, b"u"), message(2, b"v"))
    assert channel.got("a") == [2]
    channel.pass_time(49)
    assert channel.got("a") == []
    channel.pass_time(1)
    assert channel.got("a") == [0, 1]


def test_a_delivery_time_behind_the_head_does_not_hold_the_head() -> None:
    """Of UNIT-4."""
    channel = Channel(
        message(0, b"u", priority=9), message(1, b"u", priority=9, delivery=START_MS + 50), message(2, b"u")
    )
    assert channel.got("a") == [0]
    assert channel.got("a") == []
    channel.pass_time(50)
    assert channel.got("a") == [1]
    assert channel.got("a") == [2]


def test_an_expired_message_leaves_and_the_rest_of_its_unit_waits_for_that() -> None:
    """SEND-5, of UNIT-16."""
    channel = Channel(message(0, b"u", expires=START_MS), message(1, b"u"), message(2, expires=START_MS + 1))
    offer = channel.ask("a")
    assert [(reference.offset, reason) for reference, reason in offer.leaving] == [(0, EXPIRED)]
    assert [reference.offset for reference in offer.references] == [2]
    assert channel.got("a") == []
    channel.acknowledge(DEPARTING, 0, durable=True)
    assert channel.got("a") == [1]


def test_an_expired_message_without_a_unit_leaves_alone() -> None:
    channel = Channel(message(0, expires=START_MS), message(1))
    offer = channel.ask("a")
    assert [reference.offset for reference, _ in offer.leaving] == [0]
    assert [reference.offset for reference in offer.references] == [1]
    assert channel.state.delivered_position == 2


def test_what_left_was_not_handed_over() -> None:
    """REDELIVER-7: `delivered_position` is what may be with an application; the mark of a checkpoint is never lower."""
    channel = Channel(message(0), message(1, priority=9, expires=START_MS))
    channel.ask("a")
    assert channel.state.delivered_position == 1


def test_nothing_beyond_the_reservation_is_handed_over() -> None:
    """REDELIVER-7."""
    channel = Channel(message(0), message(1), message(2, priority=9), offered_position=1)
    offer = channel.ask("a")
    assert offer.references == []
    assert offer.needs_offered
    channel.state.apply(c.OfferedRaised(3))
    assert channel.got("a") == [2, 0, 1]
    arrivals = Channel(message(0), message(1), offered_position=1)
    offer = arrivals.ask("a")
    assert [reference.offset for reference in offer.references] == [0]
    assert offer.needs_offered


def test_a_reservation_never_goes_down() -> None:
    channel = Channel(message(0), offered_position=5)
    channel.state.apply(c.OfferedRaised(2))
    assert channel.state.offered_position == 5


def test_one_look_may_leave_arrivals_for_the_next() -> None:
    channel = Channel(message(0), message(1), message(2, priority=9))
    channel.fetch(message(3), message(4), message(5))
    assert channel.got("a", 2) == [2, 0]
    assert channel.got("a", 2) == [1, 3]
    assert channel.got("a") == [4, 5]


def test_a_fetch_must_not_go_back() -> None:
    channel = Channel(message(0), message(5))
    with pytest.raises(AssertionError):
        channel.state.apply(c.Fetched(begin=2, end=8, references=[message(7)]))


def test_a_fetch_must_cover_its_messages() -> None:
    channel = Channel()
    with pytest.raises(AssertionError):
        channel.fetch(message(0), message(5), end=5)


def test_time_does_not_go_back() -> None:
    channel = Channel()
    channel.state.apply(c.TimePassed(START_MS - 500))
    assert channel.state.time_ms == START_MS


def test_what_ran_out_of_attempts_behind_others_leaves_at_its_turn() -> None:
    """REDELIVER-3, UNIT-1."""
    channel = Channel(message(0, b"u"), message(1, b"u"), message(2, b"u"))
    channel.settings = type(channel.settings)(max_delivery_attempts=1, dead_letter_address="DLQ")
    channel.got("a")
    decision = channel.give_back("a", 1)
    assert decision.leaving == []
    assert sorted(r.offset for r, _ in decision.returned) == [1, 2]
    channel.acknowledge("a", 0)
    assert [(r.offset, reason) for r, reason in channel.ask("b").leaving] == [(1, OUT_OF_ATTEMPTS)]
    assert channel.got("b") == []
    channel.acknowledge(DEPARTING, 1, durable=True)
    assert channel.got("b") == [2]


def test_a_session_that_holds_nothing_is_forgotten() -> None:
    """Of LOG-9: sessions come and go for as long as the channel lives."""
    channel = Channel(message(0, b"u"), message(1, b"u"))
    channel.got("a", 1)
    channel.ask("a", 0)
    channel.acknowledge("a", 0)
    channel.acknowledge("a")
    channel.got("b")
    channel.give_back("b", 1)
    assert channel.state.in_hand == {}
    assert channel.state.gates.own == {}


def test_an_acknowledgement_of_what_is_not_in_hand_is_a_bug() -> None:
    channel = Channel(message(0), message(1))
    channel.got("a", 1)
    with pytest.raises(KeyError):
        channel.acknowledge("a", 1)
