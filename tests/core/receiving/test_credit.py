"""What a receiver asks for, and how long it counts as one that receives."""

from __future__ import annotations

from jbm_kafka.core.receiving.credit import Demand, room


def test_what_is_unread_and_what_is_in_hand_leave_so_much_room_in_the_prefetch() -> None:
    """It is never below nothing: a prefetch may be overdrawn by what was put back."""
    assert [room(10, unread=unread, in_hand=in_hand) for unread, in_hand in ((0, 0), (3, 4), (10, 0), (7, 9))] == [
        10,
        3,
        0,
        0,
    ]


def test_what_is_granted_is_asked_for_no_more() -> None:
    """A receive that ends withdraws the rest, but where it got something that stays for the next call."""
    demand = Demand()
    demand.credit = 5
    demand.granted(2)
    assert demand.credit == 3
    demand.granted(7)
    assert demand.credit == 0
    demand.credit, demand.is_waiting = 4, True
    demand.end_wait(withdraw=False)
    assert (demand.credit, demand.is_waiting, demand.receives) == (4, False, 1)
    demand.end_wait(withdraw=True)
    assert demand.credit == 0


def test_a_receiver_is_idle_some_time_after_its_last_call_and_never_while_it_waits() -> None:
    """What it has unread goes to others then, unless a call began meanwhile."""
    demand = Demand()
    assert demand.is_recent(1_000, idle_ms=100)
    assert not demand.is_called
    assert demand.is_recent(1_100, idle_ms=100)
    assert not demand.is_recent(1_101, idle_ms=100)
    demand.is_waiting = True
    assert (demand.is_called, demand.is_recent(9_000, idle_ms=100)) == (True, True)
    demand.is_waiting = False
    assert demand.is_recent(9_100, idle_ms=100)
    assert not demand.is_recent(9_101, idle_ms=100)
    demand.receives += 1
    assert demand.is_called
    assert (demand.asked_ms_ago(9_500), demand.asked_ms_ago(9_600)) == (0, 100)
    assert demand.is_recent(9_600, idle_ms=100)
