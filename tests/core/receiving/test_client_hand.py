"""What goes back from a client that has one message of a unit at a time."""

from __future__ import annotations

import pytest

from jbm_kafka.core.receiving.client_hand import ClientHand


def hand_with(*units: str | None, is_one_by_one: bool = True) -> ClientHand[str]:
    """The client has one of each of these units."""
    hand = ClientHand[str](is_one_by_one=is_one_by_one)
    for unit in units:
        hand.took(unit)
    return hand


def test_what_was_rolled_back_waits_for_the_next_of_its_unit_and_goes_before_it() -> None:
    """UNIT-3, REDELIVER-1: the client says late that it did not look at that one."""
    hand = hand_with("joe", "ann")
    assert hand.roll_back("joe", "joe 1") == hand.roll_back("joe", "joe 2") == []
    assert (hand.is_void("joe"), hand.is_void("ann")) == (True, False)
    assert hand.give_one_back("joe", "joe 3") == ["joe 1", "joe 2", "joe 3"]
    assert not hand.is_void("joe")
    assert "joe" not in hand.busy
    assert hand.give_one_back("ann", "ann 1") == ["ann 1"]


@pytest.mark.parametrize("unit", [None, "joe"])
def test_what_nothing_is_behind_goes_back_at_once(unit: str | None) -> None:
    """UNIT-3: so does all of a client that has any number of a unit, for it goes back with what is behind it."""
    assert hand_with("ann", None).roll_back(unit, "1") == ["1"]
    assert hand_with("joe", is_one_by_one=False).roll_back(unit, "1") == ["1"]


def test_a_client_that_has_gone_keeps_nothing_back() -> None:
    """UNIT-3: what waited goes back in order, and its units are free."""
    hand = hand_with("joe", "ann")
    for unit, row in (("joe", "joe 1"), ("ann", "ann 1"), ("joe", "joe 2")):
        hand.roll_back(unit, row)
    assert hand.end() == ["joe 1", "joe 2", "ann 1"]
    assert hand.end() == []
    assert not hand.busy
    assert not hand.is_void("joe")
