"""What the application of a session has, and where it stands until it is settled or goes back."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import pytest

from jbm_kafka.core.receiving import unacknowledged as places
from jbm_kafka.core.receiving.hand import HandMove
from jbm_kafka.core.receiving.unacknowledged import Unacknowledged


@dataclass(frozen=True, eq=False)
class Got:
    """A message of the tests."""

    name: str
    place_in_unit: tuple[Hashable, int] = (None, 0)


FIRST, SECOND = "first link", "second link"
JOE, ANN, ALONE, JOE_2 = Got("joe", ("joe", 1)), Got("ann", ("ann", 2)), Got("alone"), Got("joe 2", ("joe", 3))


def four() -> Unacknowledged[Got, str]:
    """Four messages by two links."""
    seen = Unacknowledged[Got, str]()
    for number, item in enumerate((JOE, ANN, ALONE, JOE_2)):
        seen.hand_over(item, (FIRST, SECOND)[number % 2])
    return seen


def names(rows: Mapping[Got, str]) -> list[str]:
    return [item.name for item in rows]


def test_what_is_handed_over_is_seen_in_that_order_with_its_link() -> None:
    """ACK-2: the order is that of the session, whichever link a message came by."""
    seen = four()
    assert names(seen.at(places.SEEN)) == ["joe", "ann", "alone", "joe 2"]
    assert (seen.first(), seen.accept(JOE), seen.first()) == (JOE, FIRST, ANN)
    assert (seen.one(JOE), seen.one(ANN)) == ({}, {ANN: SECOND})
    assert Unacknowledged[Got, str]().first() is None


def test_an_acknowledgement_takes_all_up_to_its_message_and_nothing_when_that_is_settled() -> None:
    """ACK-2."""
    seen = four()
    assert names(seen.through(ANN)) == ["joe", "ann"]
    seen.apply(places.ACCEPT, seen.through(ANN))
    assert names(seen.through(ANN)) == []
    seen.apply(places.ACCEPT, seen.through(ANN))
    assert names(seen.through(JOE_2)) == ["alone", "joe 2"]


def test_what_goes_back_takes_along_what_was_seen_behind_it_in_its_unit() -> None:
    """UNIT-3: one without a unit goes alone, and one that went takes nothing along any more."""
    seen = four()
    assert names(seen.unit_from(JOE)) == ["joe", "joe 2"]
    assert names(seen.unit_from(JOE_2)) == ["joe 2"]
    assert names(seen.unit_from(ALONE)) == ["alone"]
    seen.apply(places.GIVE_BACK, seen.unit_from(JOE))
    assert names(seen.unit_from(JOE)) == []
    assert names(seen.seen) == ["ann", "alone"]


def test_what_is_lazily_acknowledged_is_counted_until_it_is_said_and_may_go_back() -> None:
    """ACK-3, ACK-8: it has its place in the prefetch of the link that it came by."""
    seen = four()
    seen.apply(places.ACCEPT_LAZILY, seen.one(JOE))
    seen.apply(places.ACCEPT_LAZILY, seen.one(ANN))
    assert (names(seen.lazy), seen.first()) == (["joe", "ann"], ALONE)
    assert (seen.count(FIRST), seen.count(SECOND)) == (2, 2)
    seen.apply(places.ACCEPT_MANY, seen.at(places.LAZY))
    assert (seen.count(FIRST), seen.count(SECOND)) == (1, 1)
    seen.apply(places.ACCEPT_LAZILY, seen.one(ALONE))
    seen.apply(places.GIVE_BACK, seen.at(places.LAZY))
    assert (names(seen.lazy), names(seen.seen)) == ([], ["joe 2"])


def test_what_a_commit_has_is_counted_no_more_and_goes_with_its_end() -> None:
    """ACK-7: what is received meanwhile belongs to the next transaction."""
    seen = four()
    taken = seen.at(places.SEEN)
    seen.apply(places.TAKE_PART, taken)
    later = Got("later")
    seen.hand_over(later, FIRST)
    assert (seen.count(FIRST), seen.count(SECOND), names(seen.seen)) == (1, 0, ["later"])
    seen.apply(places.COMMIT, {JOE: FIRST})
    seen.apply(places.GIVE_BACK, seen.at(places.IN_TRANSACTION))
    assert (names(seen.in_transaction), names(seen.seen)) == ([], ["later"])


def test_what_is_no_part_of_a_branch_waits_for_its_decision_and_has_its_place_meanwhile() -> None:
    """ACK-10: it ends with the session, so the branch cannot have it."""
    seen = four()
    seen.apply(places.TAKE_PART, seen.at(places.SEEN))
    seen.apply(places.AWAIT, {ANN: SECOND, ALONE: FIRST})
    seen.apply(places.COMMIT, seen.at(places.IN_TRANSACTION))
    assert (names(seen.undecided), seen.count(FIRST), seen.count(SECOND)) == (["ann", "alone"], 1, 1)
    seen.apply(places.DECIDE, {ANN: SECOND})
    seen.hand_over(JOE, FIRST)
    assert names(seen.at(places.SEEN | places.UNDECIDED)) == ["joe", "alone"]
    seen.apply(places.GIVE_BACK, seen.at(places.SEEN | places.UNDECIDED))
    assert seen.at(places.SEEN | places.UNDECIDED) == {}


@pytest.mark.parametrize(
    "move", [places.ACCEPT, places.ACCEPT_MANY, places.COMMIT, places.DECIDE, places.AWAIT, places.GIVE_BACK]
)
def test_what_does_not_stand_where_a_move_begins_is_a_fault(move: HandMove) -> None:
    """It is said at once, and not found by who gets a message twice."""
    with pytest.raises(AssertionError, match=move.name):
        four().apply(move, {Got("elsewhere"): FIRST})


def test_the_way_of_each_message_is_that_of_the_table() -> None:
    """`hand_over` and those of one message are rows of it, made for speed; what nobody got stands nowhere."""
    by_table, by_hand = Unacknowledged[Got, str](), Unacknowledged[Got, str]()
    by_table.apply(places.HAND_OVER, {JOE: FIRST})
    by_hand.hand_over(JOE, FIRST)
    assert by_table.seen == by_hand.seen
    by_table.apply(places.UNDO, {JOE: FIRST})
    by_hand.accept(JOE)
    assert by_table.seen == by_hand.seen == {}
    by_hand.hand_over(ALONE, FIRST)
    assert (by_hand.accept_only(), by_hand.accept_only()) == (ALONE, None)
    for each in (by_table, by_hand):
        each.hand_over(ANN, SECOND)
    by_table.apply(places.ACCEPT_LAZILY, {ANN: SECOND})
    by_hand.accept_lazily(ANN)
    assert (by_table.lazy, by_table.seen) == (by_hand.lazy, by_hand.seen) == ({ANN: SECOND}, {})
