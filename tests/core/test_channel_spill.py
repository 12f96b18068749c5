"""The held store: what a long wait keeps out of memory."""

from __future__ import annotations

import pytest

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.channel.spilling import spillable
from tests.core.channel_parts import START_MS, Channel, message


def blocked(count: int) -> Channel:
    """One unit, its head delayed, `count` messages at its gate."""
    rows = [message(offset, b"u") for offset in range(count)]
    rows[0] = message(0, b"u", delivery=START_MS + 60)
    channel = Channel(*rows)
    assert channel.got("a") == []
    return channel


def test_a_long_line_waits_outside_memory_and_comes_back_in_order() -> None:
    """UNIT-1, of LOG-9."""
    channel = blocked(5)
    channel.state.apply(c.Spilled(b"u", kept=1))
    assert channel.state.gates.waiting_count == 1
    channel.fetch(message(5, b"u"), message(6, b"u"))
    channel.ask("a")
    assert channel.state.gates.waiting_count == 3
    channel.pass_time(60)
    assert channel.got("a") == [0]
    assert channel.got("a") == []
    channel.state.apply(c.Unspilled(b"u", [message(1, b"u"), message(2, b"u")]))
    assert channel.got("a") == [1, 2]
    channel.state.apply(c.Unspilled(b"u", [message(3, b"u"), message(4, b"u")]))
    assert channel.got("a") == [3, 4, 5, 6]


def test_what_arrives_behind_spilled_ones_is_spilled_with_them() -> None:
    channel = blocked(3)
    channel.state.apply(c.Spilled(b"u", kept=2))
    channel.fetch(message(3, b"u"))
    channel.ask("a")
    channel.state.apply(c.Spilled(b"u", kept=2))
    gate = channel.state.gates.by_key[b"u"]
    assert (gate.spilled, gate.tail, len(gate.waiting)) == (2, [], 2)
    assert channel.state.gates.waiting_count == 2


def test_a_line_shorter_than_what_is_kept_spills_nothing() -> None:
    channel = blocked(2)
    channel.state.apply(c.Spilled(b"u", kept=5))
    assert channel.state.gates.by_key[b"u"].spilled == 0
    assert channel.state.gates.waiting_count == 2


def test_a_head_that_is_held_back_leaves_memory_until_its_time() -> None:
    """Of LOG-9: a delayed unit is but a timer."""
    channel = Channel(message(0, b"v", delivery=START_MS + 60), message(1, b"u", delivery=START_MS + 90))
    rows = spillable(channel.state)
    assert [(row.gate.key, row.kept, row.count) for row in rows] == [(b"v", 0, 1), (b"u", 0, 1)]
    for row in rows:
        channel.state.apply(c.Spilled(row.gate.key, row.kept))
    assert channel.state.gates.waiting_count == 0
    assert not spillable(channel.state)
    channel.fetch(message(2, b"u"))
    assert channel.got("a") == []
    assert not channel.state.gates.awaiting_load
    channel.pass_time(60)
    assert list(channel.state.gates.awaiting_load) == [b"v"]
    channel.state.apply(c.Unspilled(b"v", [message(0, b"v", delivery=START_MS + 60)]))
    assert channel.got("a") == [0]
    channel.pass_time(30)
    assert list(channel.state.gates.awaiting_load) == [b"u"]
    channel.state.apply(c.Unspilled(b"u", [message(1, b"u", delivery=START_MS + 90)]))
    assert not channel.state.gates.awaiting_load
    assert channel.got("a") == [1, 2]


def test_what_comes_back_from_the_store_may_be_spilled_again() -> None:
    channel = blocked(4)
    channel.state.apply(c.Spilled(b"u", kept=0))
    channel.state.apply(c.Unspilled(b"u", [message(0, b"u", delivery=START_MS + 60), message(1, b"u")]))
    assert [(row.kept, row.count) for row in spillable(channel.state)] == [(0, 2)]
    channel.state.apply(c.Spilled(b"u", kept=0))
    assert channel.state.gates.by_key[b"u"].spilled == 4


def test_what_waits_before_a_message_in_hand_stays_in_memory() -> None:
    """UNIT-5: the one in hand may come back, and its place is not behind those in the store."""
    channel = Channel(*[message(offset, b"u") for offset in range(5)])
    assert channel.got("a", 4) == [0, 1, 2, 3]
    channel.ask("b")
    channel.state.apply(c.Returned("a", [c.ReturnedMessage(n, 0, 0, 0, "recover") for n in range(3)]))
    (row,) = spillable(channel.state)
    assert (row.kept, [reference.offset for reference in row.references()]) == (3, [4])
    channel.state.apply(c.Spilled(b"u", row.kept))
    channel.give_back("a", Modified(3, counted=False))
    assert channel.got("b") == [0, 1, 2, 3]


def test_a_head_that_may_go_cannot_be_spilled() -> None:
    channel = blocked(2)
    channel.pass_time(60)
    with pytest.raises(AssertionError, match="head"):
        channel.state.apply(c.Spilled(b"u", kept=0))


def test_a_unit_with_spilled_messages_is_not_free_for_arrivals() -> None:
    """UNIT-1: nothing overtakes what is in the held store."""
    channel = blocked(2)
    channel.state.apply(c.Spilled(b"u", kept=1))
    channel.pass_time(60)
    assert channel.got("a") == [0]
    channel.acknowledge("a", 0)
    channel.fetch(message(2, b"u"))
    assert channel.got("a") == []
    channel.state.apply(c.Unspilled(b"u", [message(1, b"u")]))
    assert channel.got("a") == [1, 2]


def test_messages_returned_meanwhile_go_before_those_from_the_held_store() -> None:
    """UNIT-5."""
    channel = blocked(3)
    channel.state.apply(c.Spilled(b"u", kept=1))
    channel.pass_time(60)
    channel.got("a")
    channel.give_back("a", Modified(0, counted=False))
    channel.state.apply(c.Unspilled(b"u", [message(1, b"u"), message(2, b"u")]))
    assert channel.got("b") == [0, 1, 2]


def test_the_held_store_cannot_give_back_more_than_it_took() -> None:
    channel = blocked(3)
    channel.state.apply(c.Spilled(b"u", kept=2))
    with pytest.raises(AssertionError):
        channel.state.apply(c.Unspilled(b"u", [message(2, b"u"), message(3, b"u")]))
