"""What an operator does with messages that wait for him (UNIT-16)."""

from __future__ import annotations

from dataclasses import replace

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.departure import DEPARTS_BY, OUT_OF_ATTEMPTS, RELEASED
from jbm_kafka.core.channel.entries import Held, MessageFate
from jbm_kafka.core.channel.on_hold import decide_leaving, decide_released, is_released
from jbm_kafka.core.channel.reference import DEPARTING
from jbm_kafka.core.channel.settlement import decide_kept
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from tests.core.channel_parts import Channel, message, recovered

HOLD = ResolvedSettings(dead_letter_address="DLQ", max_delivery_attempts=1, on_dead_letter="hold")


def on_hold(*units: bytes | None) -> Channel:
    """Messages of these units, of which the first and the second failed together."""
    channel = Channel(*[message(offset, unit) for offset, unit in enumerate(units)], settings=HOLD)
    assert channel.got("s", 2) == [0, 1]
    channel.give_back("s", 0, 1)
    return channel


def release(channel: Channel, *offsets: int, again: bool = False) -> list[int]:
    change = decide_released(channel.state, offsets, again=again)
    channel.state.apply(change)
    return [each.offset for each in change.messages]


def leave(channel: Channel, *offsets: int) -> list[tuple[int, int, str]]:
    leaving = decide_leaving(channel.state, offsets)
    channel.state.apply(leaving.change)
    return [(each.reference.offset, each.attempts, each.reason) for each in leaving.departures]


def left(channel: Channel, offset: int) -> None:
    row = DEPARTS_BY[MessageFate.DEAD_LETTERED]
    channel.state.apply(c.Acknowledged(DEPARTING, [offset], transition=row))


def test_a_released_unit_goes_on_when_what_held_it_has_left_in_order() -> None:
    """Of UNIT-16."""
    channel = on_hold(b"joe", b"joe", b"joe", b"jane")
    assert channel.got("s") == [3]
    assert release(channel, 0, 1, 2, 3, 99) == [0, 1]
    assert leave(channel, 0, 1) == [(0, 1, OUT_OF_ATTEMPTS)]
    assert leave(channel, 0, 1) == []  # the second is not the first of its unit yet
    assert channel.got("s") == []
    left(channel, 0)
    assert is_released(channel.state, 1)
    assert leave(channel, 0) == []
    assert leave(channel, 0, 1) == [(1, 1, OUT_OF_ATTEMPTS)]
    left(channel, 1)
    assert not is_released(channel.state, 1)
    assert channel.got("s") == [2]
    assert release(channel, 0, 1) == []  # again: nothing happens


def test_messages_without_a_unit_are_released_one_by_one() -> None:
    channel = on_hold(None, None)
    assert release(channel, 1) == [1]
    assert leave(channel, 0, 1) == [(1, 1, OUT_OF_ATTEMPTS)]


def test_what_is_tried_again_has_all_its_attempts() -> None:
    """Of UNIT-16."""
    channel = on_hold(b"joe", b"joe")
    assert release(channel, 0, again=True) == [0]
    assert not is_released(channel.state, 0)
    assert channel.got("s") == [0]
    channel.acknowledge("s", 0)
    assert channel.got("s") == []  # the second was not released


def test_what_is_tried_again_is_not_let_go_by_a_second_operator() -> None:
    """Of UNIT-16: who looked before the first had released it would send what is being tried to the dead letters."""
    channel = on_hold(b"joe", b"jane")
    assert release(channel, 0, again=True) == [0]
    assert release(channel, 0, 1) == [1]
    assert leave(channel, 0, 1) == [(1, 1, OUT_OF_ATTEMPTS)]
    assert channel.got("s") == [0]


def test_a_release_outlives_its_owner() -> None:
    """Of UNIT-16: also one who dies before the message has left, and whoever has it then holds nothing again."""
    channel = on_hold(b"joe", b"jane", b"joe")
    release(channel, 0)
    successor = recovered(*channel.checkpoint(offered_position=3))
    kept = decide_kept(successor.state, HOLD)
    assert [each.offset for each in kept.messages] == []
    successor.state.apply(c.OfferedRaised(1 << 40))
    successor.fetch(message(0, b"joe"), message(1, b"jane"), message(2, b"joe"))
    assert successor.state.redeliveries[0].reason == RELEASED
    offer = successor.ask("s")
    assert [(reference.offset, reason) for reference, reason in offer.leaving] == [(0, OUT_OF_ATTEMPTS)]
    left(successor, 0)
    assert successor.got("s") == [2]


def test_a_release_before_the_message_is_read_counts() -> None:
    successor = recovered(*on_hold(b"joe", b"jane").checkpoint(offered_position=2))
    assert release(successor, 0) == [0]
    assert leave(successor, 0) == []
    successor.state.apply(c.OfferedRaised(1 << 40))
    successor.fetch(message(0, b"joe"), message(1, b"jane"))
    assert leave(successor, 0) == [(0, 1, OUT_OF_ATTEMPTS)]


def test_a_unit_too_long_to_be_remembered_is_released() -> None:
    entries = on_hold(b"long", b"jane").checkpoint(offered_position=2)
    recorded = [replace(each, unit=None) if isinstance(each, Held) else each for each in entries]
    successor = recovered(*recorded)
    successor.state.apply(c.OfferedRaised(1 << 40))
    successor.fetch(message(0, b"long"), message(1, b"jane"), message(2, b"long"))
    assert release(successor, 0) == [0]
    assert leave(successor, 0) == [(0, 1, OUT_OF_ATTEMPTS)]
    left(successor, 0)
    assert successor.got("s") == [2]


def test_a_released_head_in_the_held_store_is_asked_for() -> None:
    channel = on_hold(b"joe", b"joe", b"joe")
    channel.state.apply(c.Spilled(key=b"joe", kept=0))
    assert not channel.state.gates.awaiting_load
    release(channel, 0)
    assert leave(channel, 0) == []
    assert list(channel.state.gates.awaiting_load) == [b"joe"]
    channel.state.apply(c.Unspilled(key=b"joe", references=[message(0, b"joe"), message(1, b"joe")]))
    assert leave(channel, 0) == [(0, 1, OUT_OF_ATTEMPTS)]


def test_what_no_receiver_present_chooses_leaves_all_the_same() -> None:
    channel = on_hold(b"joe", b"jane", b"joe")
    channel.state.apply(c.Selected(1 << 3, dict.fromkeys(range(3), 1 << 4)))
    release(channel, 0)
    assert leave(channel, 0) == [(0, 1, OUT_OF_ATTEMPTS)]
