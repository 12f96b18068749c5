"""The gates and their listings."""

from __future__ import annotations

import pytest

from jbm_kafka.core.channel.unit_of_order import SPARE_GATES, Gates
from tests.core.channel_parts import Channel, message


def keys(listing: list[tuple[int, int, bytes | int]]) -> list[bytes | int]:
    return [key for _, _, key in reversed(listing)]


def waiting(*rows: tuple[bytes, int, int]) -> Gates:
    """Gates with one message each: (unit, offset, priority)."""
    gates = Gates()
    for unit, offset, priority in rows:
        gate = gates.gate(unit)
        assert gates.wait(gate, message(offset, unit, priority=priority))
        gates.list_head(gate, due_at_ms=0)
    return gates


def test_heads_are_listed_by_priority_and_then_by_offset() -> None:
    """SEND-7, of UNIT-6."""
    gates = waiting((b"late", 9, 4), (b"low", 1, 0), (b"early", 3, 4), (b"high", 20, 9))
    assert keys(gates.free) == [b"high", b"early", b"late", b"low"]


def test_a_message_that_does_not_become_the_head_needs_no_listing() -> None:
    gates = waiting((b"u", 1, 4))
    assert not gates.wait(gates.gate(b"u"), message(2, b"u"))


def test_messages_of_a_unit_cannot_come_in_the_wrong_order() -> None:
    """UNIT-1."""
    gates = waiting((b"u", 5, 4))
    with pytest.raises(AssertionError):
        gates.wait(gates.gate(b"u"), message(4, b"u"))


def test_a_unit_in_one_hand_cannot_be_taken_into_another() -> None:
    """UNIT-2."""
    gates = waiting((b"u", 1, 4))
    gate = gates.gate(b"u")
    gates.wait(gate, message(2, b"u"))
    gates.take_heads(gate, 1, "a")
    with pytest.raises(AssertionError):
        gates.take_heads(gate, 1, "b")


def test_a_held_back_head_is_listed_nowhere_until_its_time() -> None:
    """Of UNIT-4."""
    gates = waiting((b"u", 1, 4))
    gates.list_head(gates.gate(b"u"), due_at_ms=50)
    assert gates.free == []
    assert gates.due(49) == []
    assert [gate.key for gate in gates.due(50)] == [b"u"]
    assert gates.gate(b"u").due_at_ms == 0


def test_a_timer_that_is_no_longer_right_wakes_nobody() -> None:
    gates = waiting((b"u", 1, 4), (b"v", 2, 4))
    for unit, first, then in ((b"u", 50, 80), (b"v", 50, 0)):
        gates.list_head(gates.gate(unit), due_at_ms=first)
        gates.list_head(gates.gate(unit), due_at_ms=then)
    assert gates.due(60) == []
    assert [gate.key for gate in gates.due(80)] == [b"u"]


def test_a_timer_of_a_forgotten_gate_wakes_nobody() -> None:
    gates = waiting((b"u", 1, 4))
    gate = gates.gate(b"u")
    gates.list_head(gate, due_at_ms=50)
    gates.take_heads(gate, 1, "a")
    assert not gates.finish_one(gate)
    assert b"u" not in gates.by_key
    assert gates.due(100) == []


def test_a_blocked_head_is_listed_nowhere() -> None:
    """Of UNIT-4: NOT_COMMITTED holds its unit."""
    gates = waiting((b"u", 1, 4))
    gates.list_head(gates.gate(b"u"), due_at_ms=0, blocked=True)
    assert gates.free == []


def test_a_gate_without_work_is_forgotten_when_it_is_listed() -> None:
    """Of LOG-9."""
    gates = Gates()
    gates.list_head(gates.gate(b"u"), due_at_ms=0)
    assert not gates.by_key


def test_a_message_returned_from_behind_takes_its_place_by_offset() -> None:
    """UNIT-1: a contract channel may return a later message while an earlier one waits."""
    gates = waiting((b"u", 1, 4))
    gate = gates.gate(b"u")
    gates.wait(gate, message(5, b"u"))
    gates.take_heads(gate, 2, "a")
    gates.put_back(gate, [message(1, b"u")])
    gates.put_back(gate, [message(5, b"u")])
    assert [reference.offset for reference in gate.waiting] == [1, 5]
    assert gate.owner is None


def test_a_session_that_still_has_listed_heads_is_not_dropped() -> None:
    gates = waiting((b"u", 1, 4))
    gate = gates.gate(b"u")
    gates.wait(gate, message(2, b"u"))
    gates.take_heads(gate, 1, "a")
    gates.list_head(gate, due_at_ms=0)
    with pytest.raises(AssertionError):
        gates.drop_session("a")


def test_a_reused_gate_remembers_nothing_of_its_last_unit() -> None:
    channel = Channel(message(0, b"old"), message(1, b"old"))
    assert channel.got("a") == [0, 1]
    channel.acknowledge("a", 0, 1)
    gate = channel.state.gates.gate(b"new")
    assert gate.key == b"new"
    assert gate.is_idle
    assert (gate.owner, gate.due_at_ms, gate.listed_in) == (None, 0, None)


def test_a_reused_gate_does_not_wake_at_the_time_of_its_last_unit() -> None:
    gates = waiting((b"old", 1, 4))
    gate = gates.gate(b"old")
    gates.list_head(gate, due_at_ms=50)
    gates.take_heads(gate, 1, "a")
    gates.finish_one(gate)
    assert gates.gate(b"new") is gate
    assert gate.due_at_ms == 0


def test_no_more_forgotten_gates_are_kept_than_the_limit() -> None:
    """Of LOG-9."""
    gates = waiting(*((b"%d" % n, n, 4) for n in range(SPARE_GATES + 5)))
    for gate in list(gates.by_key.values()):
        gates.take_heads(gate, 1, "a")
        gates.finish_one(gate)
    assert len(gates._spare) == SPARE_GATES
    assert not gates.by_key
