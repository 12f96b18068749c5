"""An expired message behind others of its unit in a session's hand: it leaves, and holds that session back no more.

Each test has what is in hand at 0, what expired at 1, and what the session may have after it at 2.
"""

from __future__ import annotations

import pytest

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.departure import EXPIRED
from jbm_kafka.core.channel.offer import Offer
from jbm_kafka.core.channel.reference import DEPARTING, Reference
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from tests.core.channel_parts import START_MS, Channel, message, recovered


def one_expired(*more: Reference, priority: int = 4) -> Channel:
    """Priority 4: they are arrivals; another one: they wait at their unit's gate."""
    rows = [message(at, b"u", priority=priority, expires=START_MS if at == 1 else 0) for at in range(3)]
    return Channel(*rows, *more)


def handed(offer: Offer) -> list[int]:
    return [reference.offset for reference in offer.references]


def left(offer: Offer) -> list[tuple[int, str]]:
    return [(reference.offset, reason) for reference, reason in offer.leaving]


arrivals_and_waiting = pytest.mark.parametrize("priority", [4, 9], ids=["arrivals", "waiting"])


@arrivals_and_waiting
def test_an_expired_message_holds_back_nothing_from_the_session_that_has_the_earlier_ones(priority: int) -> None:
    """SEND-5, UNIT-3: looked at in one go with those around it."""
    channel = one_expired(priority=priority)
    offer = channel.ask("a")
    assert (left(offer), handed(offer)) == ([(1, EXPIRED)], [0, 2])
    assert channel.got("b") == []


@arrivals_and_waiting
def test_a_session_that_asks_for_one_at_a_time_gets_what_is_behind(priority: int) -> None:
    """SEND-5, UNIT-3."""
    channel = one_expired(priority=priority)
    assert channel.got("a", 1) == [0]
    offers = [channel.ask("a", 1), channel.ask("a", 1)]
    assert [row for offer in offers for row in left(offer)] == [(1, EXPIRED)]
    assert [offset for offer in offers for offset in handed(offer)] == [2]


def test_what_arrives_behind_an_unfinished_one_leaves_too() -> None:
    """SEND-5: the session has had the earlier one for a while."""
    channel = Channel(message(0, b"u"), message(1, b"v"))
    assert channel.got("a") == [0, 1]
    channel.fetch(message(2, b"u", expires=START_MS), message(3, b"v", expires=START_MS), message(4, b"v"))
    offer = channel.ask("a")
    assert (left(offer), handed(offer)) == ([(2, EXPIRED), (3, EXPIRED)], [4])


def test_several_in_a_row_leave_in_their_order() -> None:
    """SEND-5, UNIT-1."""
    rows = [message(offset, b"u", priority=9, expires=START_MS if offset in (1, 2, 4) else 0) for offset in range(6)]
    offer = Channel(*rows).ask("a")
    assert (left(offer), handed(offer)) == ([(1, EXPIRED), (2, EXPIRED), (4, EXPIRED)], [0, 3, 5])


def test_only_the_holder_passes_over() -> None:
    """UNIT-2: for others the unit is closed, and an INDIVIDUAL session has no use for what follows (UNIT-3)."""
    for one_per_unit in (False, True):
        channel = one_expired()
        assert channel.got("a", 1, one_per_unit=one_per_unit) == [0]
        asking = "a" if one_per_unit else "b"
        offer = channel.ask(asking, one_per_unit=one_per_unit)
        assert (left(offer), handed(offer)) == ([], [])
        channel.acknowledge("a", 0)
        assert left(channel.ask(asking, one_per_unit=one_per_unit)) == [(1, EXPIRED)]


@arrivals_and_waiting
def test_a_session_that_finished_its_own_leaves_the_unit_closed_until_the_expired_one_is_gone(priority: int) -> None:
    """UNIT-2: as where the first of a unit expires."""
    channel = one_expired(message(3, b"u", priority=priority), priority=priority)
    assert channel.got("a") == [0, 2, 3]
    channel.acknowledge("a", 0, 2, 3)
    channel.fetch(message(4, b"u"))
    assert channel.got("a") == []
    channel.acknowledge(DEPARTING, 1, durable=True)
    assert channel.got("b") == [4]
    channel.acknowledge("b", 4)
    assert not channel.state.gates.by_key


@arrivals_and_waiting
def test_what_comes_back_waits_for_the_expired_one_and_comes_without_it(priority: int) -> None:
    """UNIT-5, SEND-5: a rollback, or the session's death; what expired was no part of it."""
    channel = one_expired(priority=priority)
    channel.got("a")
    channel.give_back("a", 0, 2)
    assert channel.got("b") == []
    channel.acknowledge(DEPARTING, 1, durable=True)
    assert [*channel.got("b"), *channel.got("b")] == [0, 2]


def test_the_expired_one_may_be_gone_long_before_the_session_has_finished() -> None:
    """SEND-5, UNIT-3."""
    channel = one_expired()
    channel.got("a")
    channel.acknowledge(DEPARTING, 1, durable=True)
    channel.fetch(message(3, b"u"))
    assert channel.got("b") == []
    channel.acknowledge("a", 0)
    assert channel.got("a") == [3]
    channel.acknowledge("a", 2, 3)
    assert not channel.state.gates.by_key
    assert channel.state.watermark == 4


def test_a_commit_may_end_before_the_expired_one_is_gone_in_the_same_checkpoint() -> None:
    """LOG-5: both were tentative in it; nothing of the unit goes to anybody in between."""
    channel = one_expired()
    channel.got("a")
    channel.checkpoint(tentative={0, 1, 2})
    channel.acknowledge("a", 0, 2, durable=True)
    assert channel.got("b") == []
    channel.acknowledge(DEPARTING, 1, durable=True)
    assert channel.state.in_hand == {}
    assert channel.state.watermark == 3
    assert not channel.state.is_dirty


def test_a_new_owner_has_what_was_in_hand_and_not_what_left() -> None:
    """SEND-5, LOG-3: the copy was in a checkpoint, the acknowledgements of the others were not."""
    channel = one_expired()
    channel.got("a")
    entries = channel.checkpoint(offered_position=3, tentative={1})
    after = recovered(*entries)
    assert after.state.watermark == 0
    after.fetch(*(message(offset, b"u", expires=START_MS if offset == 1 else 0) for offset in range(3)))
    offer = after.ask("b")
    assert (left(offer), handed(offer)) == ([], [0, 2])


def test_a_new_owner_lets_it_leave_when_no_checkpoint_had_the_copy() -> None:
    """SEND-5: so it leaves once, whatever was seen of the first attempt."""
    channel = one_expired()
    channel.got("a")
    after = recovered(*channel.checkpoint(offered_position=3))
    after.fetch(*(message(offset, b"u", expires=START_MS if offset == 1 else 0) for offset in range(3)))
    offer = after.ask("b")
    assert (left(offer), handed(offer)) == ([(1, EXPIRED)], [0, 2])


@pytest.mark.parametrize("address", [None, "DLQ"])
def test_an_earlier_one_that_is_out_of_attempts_leaves_beside_it(address: str | None) -> None:
    """REDELIVER-3: the unit goes on when both are gone."""
    channel = one_expired()
    channel.settings = ResolvedSettings(max_delivery_attempts=1, dead_letter_address=address)
    channel.got("a")
    decision = channel.give_back("a", 0)
    assert [leaving.reference.offset for leaving in decision.leaving] == [0]
    assert channel.got("b") == []
    channel.acknowledge(DEPARTING, *([0, 1] if address else [1]))
    assert channel.got("b") == [2]


def test_one_out_of_attempts_is_not_passed_over() -> None:
    """REDELIVER-3: dead letters keep the order of their unit, for who delivers them again."""
    channel = Channel(*(message(offset, b"u") for offset in range(3)))
    channel.settings = ResolvedSettings(max_delivery_attempts=1, dead_letter_address="DLQ")
    channel.got("a")
    channel.give_back("a", 1)
    offer = channel.ask("a")
    assert (left(offer), handed(offer)) == ([], [])


def test_what_waits_outside_memory_behind_it_comes_back() -> None:
    """Of LOG-9: the head in memory was all there was of the unit there."""
    channel = one_expired(priority=9)
    assert channel.got("a", 1) == [0]
    gate = channel.state.gates.by_key[b"u"]
    channel.state.apply(c.Spilled(b"u", kept=1))
    assert left(channel.ask("a")) == [(1, EXPIRED)]
    assert not gate.waiting
    assert list(channel.state.gates.awaiting_load) == [b"u"]
    channel.state.apply(c.Unspilled(b"u", [message(2, b"u", priority=9)]))
    assert channel.got("a") == [2]


def test_one_that_waits_for_its_time_leaves_when_that_has_come() -> None:
    """Of UNIT-4: a delay is over before anybody looks at what it held back."""
    rows = (message(0, b"u", priority=9), message(1, b"u", priority=9, expires=START_MS, delivery=START_MS + 50))
    channel = Channel(*rows, message(2, b"u", priority=9))
    assert channel.got("a") == [0]
    assert not channel.ask("a").changes_something
    channel.pass_time(50)
    offer = channel.ask("a")
    assert (left(offer), handed(offer)) == ([(1, EXPIRED)], [2])
