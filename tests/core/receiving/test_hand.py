"""What a session has in hand: where its messages stand, what a receive finds, and what waits for what goes back."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import pytest

from jbm_kafka.core.channel.ranking import by_priority
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.receiving import hand as hands
from jbm_kafka.core.receiving.hand import Buffer, Hand, HandMove, Stands


@dataclass(frozen=True, eq=False)
class Granted:
    """A message of the tests."""

    name: str
    unit_place: Hashable = None
    priority: int = 4


@dataclass
class Worker:
    """It carries out what a session says, until it has ended."""

    is_running: bool = True
    is_alive: bool = True


def buffer_with(*items: Granted, hand: Hand | None = None) -> Buffer[Granted]:
    buffer = Buffer[Granted](Hand() if hand is None else hand)
    buffer.apply(hands.GRANT, items)
    return buffer


def taken_of(buffer: Buffer[Granted]) -> list[str]:
    """All that may be taken, in the order of taking."""
    names: list[str] = []
    while (item := buffer.next_one()) is not None:
        assert buffer.take_next() is item
        names.append(item.name)
    assert buffer.take_next() is None
    return names


def rank(items: Iterable[Granted]) -> list[Granted]:
    return by_priority(items, lambda item: Reference(0, None, item.priority), lambda item: item.unit_place)


def names_of(items: Sequence[Granted]) -> list[str]:
    return [item.name for item in items]


# -- what goes back holds up its units ---------------------------------------------------------------------------------


def test_while_some_of_a_unit_goes_back_the_rest_is_not_taken_and_other_units_are() -> None:
    """UNIT-3: what the buffer has of the unit was granted before; it is the same hand, whichever link gave back."""
    hand, worker = Hand(), Worker()
    buffer = buffer_with(
        Granted("joe", "joe"), Granted("alone"), Granted("ann", "ann"), Granted("joe 2", "joe"), hand=hand
    )
    hand.give_back(["joe", None], "said", worker, has_unread=False)
    assert taken_of(buffer) == ["alone", "ann"]
    hand.returned("said")
    assert taken_of(buffer) == ["joe", "joe 2"]
    assert not hand.fenced


def test_a_unit_is_held_up_until_the_last_that_was_said_is_carried_out() -> None:
    """UNIT-3: of several that went back, each takes out of the buffers what came in between."""
    hand, worker = Hand(), Worker()
    buffer = buffer_with(Granted("joe", "joe"), hand=hand)
    hand.give_back(["joe"], "first", worker, has_unread=False)
    hand.give_back(["ann"], "second", worker, has_unread=False)
    hand.returned("first")
    assert taken_of(buffer) == []
    hand.returned("second")
    hand.returned("of before the hand")
    assert taken_of(buffer) == ["joe"]


@pytest.mark.parametrize(("is_running", "is_alive"), [(True, False), (False, True), (False, False)])
def test_what_a_carrier_that_has_ended_was_told_holds_nothing_up(is_running: bool, is_alive: bool) -> None:
    """UNIT-3: while it ends it carries out; when it has ended, its messages are out of the buffers."""
    hand = Hand()
    buffer = buffer_with(Granted("joe", "joe"), hand=hand)
    hand.give_back(["joe"], "said", Worker(is_running, is_alive), has_unread=True)
    assert taken_of(buffer) == ([] if is_running or is_alive else ["joe"])


def test_what_nobody_was_told_yet_holds_up_its_unit() -> None:
    """UNIT-3: a link that was never attached gives back too."""
    hand = Hand()
    hand.give_back(["joe"], "said", None, has_unread=False)
    assert taken_of(buffer_with(Granted("joe", "joe"), hand=hand)) == []


def test_its_carrier_grants_nothing_while_something_unread_is_on_its_way_to_it() -> None:
    """ORDER-1: that comes before all that it would grant; of what the application had others may go on."""
    hand, worker = Hand(), Worker()
    hand.give_back([None], "seen", worker, has_unread=False)
    assert not hand.awaits_unread(worker)
    hand.give_back([None], "unread", worker, has_unread=True)
    assert hand.awaits_unread(worker)
    assert not hand.awaits_unread(Worker())
    hand.returned("unread")
    assert not hand.awaits_unread(worker)


# -- where messages stand ----------------------------------------------------------------------------------------------


def test_what_is_put_back_is_the_next_one_again() -> None:
    """ORDER-1: Ctrl-C between the taking and the hand-over."""
    buffer = buffer_with(Granted("1"), Granted("2"))
    first = buffer.next_one()
    assert first is not None
    buffer.take(first)
    assert buffer.taken is first
    buffer.apply(hands.PUT_BACK, [first])
    assert taken_of(buffer) == ["1", "2"]


def test_what_is_announced_is_not_found_before_it_has_arrived_and_is_granted() -> None:
    """REDELIVER-7, ACK-4: the list stays that of whoever announced it, who sees what was taken back of it."""
    buffer = buffer_with()
    assert not buffer.awaits_more
    batch = [Granted("1"), Granted("2"), Granted("3")]
    buffer.apply(hands.ANNOUNCE, batch)
    assert (buffer.awaits_more, buffer.next_one()) == (True, None)
    buffer.apply(hands.TAKE_BACK, [batch[1]])
    assert names_of(batch) == ["1", "3"]
    buffer.apply(hands.ARRIVE, batch)
    assert (buffer.awaits_more, len(buffer), names_of(batch)) == (False, 0, ["1", "3"])
    buffer.apply(hands.GRANT, batch)
    assert taken_of(buffer) == ["1", "3"]


@pytest.mark.parametrize(
    ("returning", "goes_back", "stays"),
    [
        (hands.RETURNING, ["unread", "coming"], []),
        (hands.ANNOUNCED, ["coming"], ["unread"]),
        (hands.AWAY, [], ["unread", "coming"]),
    ],
)
def test_what_is_acknowledged_never_goes_back_and_all_else_may(
    returning: Stands, goes_back: list[str], stays: list[str]
) -> None:
    """ACK-4: each is either to be taken back, or to be dropped when its consumer closes."""
    buffer = Buffer[Granted](Hand(), returning)
    buffer.apply(hands.GRANT, [Granted("unread")])
    buffer.apply(hands.ANNOUNCE, [Granted("coming")])
    assert names_of(buffer.returnable()) == goes_back
    assert names_of(buffer.acknowledged()) == stays
    buffer.apply(hands.TAKE_BACK, buffer.returnable())
    assert buffer.returnable() == []
    buffer.apply(hands.DROP, buffer.acknowledged())
    assert (len(buffer), buffer.awaits_more, buffer.acknowledged()) == (0, False, [])


def test_what_is_kept_is_not_found_and_comes_first_when_it_is_shown() -> None:
    """ACK-4, PAUSE-2: what comes meanwhile is kept behind it."""
    buffer = Buffer[Granted](Hand(), hands.ANNOUNCED)
    for name in ("1", "2"):
        buffer.apply(hands.GRANT, [Granted(name)])
        buffer.apply(hands.KEEP, buffer.ready)
    assert (buffer.next_one(), names_of(buffer.acknowledged())) == (None, ["1", "2"])
    buffer.apply(hands.GRANT, [Granted("3")])
    buffer.apply(hands.SHOW, buffer.kept)
    assert (taken_of(buffer), len(buffer.kept)) == (["1", "2", "3"], 0)


@pytest.mark.parametrize("move", [hands.KEEP, hands.TAKE_BACK, hands.DROP, hands.SHOW, hands.TAKE, hands.ARRIVE])
def test_what_does_not_stand_where_a_move_begins_is_a_bug(move: HandMove) -> None:
    """It is said at once, and not found by who misses a message."""
    buffer = buffer_with(Granted("here"))
    with pytest.raises(AssertionError, match=move.name):
        buffer.apply(move, [Granted("elsewhere")])


def test_what_may_be_taken_can_be_by_the_table_too() -> None:
    """`take` is its row, made for speed."""
    buffer = buffer_with(Granted("1"), Granted("2"))
    buffer.apply(hands.TAKE, [buffer.ready[1]])
    assert taken_of(buffer) == ["1"]


def test_higher_priorities_come_first_but_not_within_a_unit_until_all_of_them_are_gone() -> None:
    """SEND-7, UNIT-6: what comes later without one is ranked too, as long as something of before is here."""
    buffer = buffer_with(Granted("low"), Granted("joe", "joe"))
    buffer.apply(hands.GRANT, [Granted("high", priority=9), Granted("joe 2", "joe", priority=9)], rank)
    buffer.apply(hands.GRANT, [Granted("highest", priority=10)])
    assert taken_of(buffer) == ["highest", "high", "low", "joe", "joe 2"]
    buffer.apply(hands.GRANT, [Granted("1")])
    buffer.apply(hands.GRANT, [Granted("2", priority=9)])
    assert taken_of(buffer) == ["1", "2"]


# -- attempts that are recorded first ----------------------------------------------------------------------------------


def test_what_was_asked_to_be_recorded_stays_the_next_one_until_it_is_gone() -> None:
    """REDELIVER-7: another one that came before it would be an attempt that was recorded for nobody."""
    hand = Hand()
    first, second = Granted("1", "joe"), Granted("2", priority=9)
    buffer = buffer_with(first, hand=hand)
    assert (buffer.next_to_record(), buffer.awaits_record, buffer.has_asked) == (first, False, False)
    buffer.ask_to_record(first)
    buffer.apply(hands.GRANT, [second], rank)
    assert (buffer.next_one(), buffer.next_to_record()) == (second, first)
    assert (buffer.awaits_record, buffer.has_asked) == (True, True)
    buffer.recorded(second)
    assert not buffer.is_recorded
    buffer.recorded(first)
    assert (buffer.is_recorded, buffer.awaits_record) == (True, False)
    buffer.take(first)
    assert (buffer.has_asked, buffer.next_to_record()) == (False, second)
    buffer.apply(hands.PUT_BACK, [first])
    assert (buffer.next_to_record(), buffer.is_recorded) == (first, True)


def test_what_was_asked_to_be_recorded_is_not_given_while_its_unit_goes_back() -> None:
    """UNIT-3, of REDELIVER-7: nor is another one asked for beside it."""
    hand = Hand()
    first = Granted("1", "joe")
    buffer = buffer_with(first, Granted("2"), hand=hand)
    buffer.ask_to_record(first)
    hand.give_back(["joe"], "said", Worker(), has_unread=False)
    assert buffer.next_to_record() is None
    buffer.apply(hands.TAKE_BACK, [first])
    found = buffer.next_to_record()
    assert found is not None
    assert found.name == "2"
