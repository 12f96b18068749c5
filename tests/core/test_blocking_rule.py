"""What keeps a message where it is: each rule, from the state of its channel (UNIT-17)."""

from __future__ import annotations

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.blocking_rule import BlockingRule, Rule, blocking_rule_of, blocking_rule_of_gate
from jbm_kafka.core.channel.reference import DEPARTING
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from tests.core.channel_parts import START_MS, Channel, message

HOLD = ResolvedSettings(dead_letter_address="DLQ", max_delivery_attempts=1, on_dead_letter="hold")
JOE = b"joe"


def stands(
    channel: Channel, offset: int, unit: bytes | None = JOE, *, tentative: frozenset[int] = frozenset()
) -> BlockingRule:
    return blocking_rule_of(channel.state, offset, unit, now_ms=channel.now_ms, tentative=tentative)


def unit_stands(channel: Channel, key: bytes | int = JOE) -> BlockingRule:
    return blocking_rule_of_gate(channel.state, channel.state.gates.by_key[key], now_ms=channel.now_ms)


def joe(count: int = 3, *, settings: ResolvedSettings | None = None) -> Channel:
    return Channel(*[message(offset, JOE) for offset in range(count)], settings=settings)


def test_what_nobody_asked_for_is_ready_and_what_is_unread_is_not_there() -> None:
    channel = joe()
    assert stands(channel, 0).rule is Rule.READY
    assert stands(channel, 3).rule is Rule.NOT_READ
    assert channel.got("s") == [0, 1, 2]
    channel.acknowledge("s", 0)
    assert stands(channel, 0).rule is Rule.SETTLED


def test_in_hand_and_what_waits_behind_it() -> None:
    """Of UNIT-17: the session that holds a unit is named, and its first message there."""
    channel = joe(4)
    assert channel.got("s", 2) == [0, 1]
    assert channel.got("t") == []
    assert stands(channel, 1) == BlockingRule(Rule.IN_HAND, session="s")
    assert stands(channel, 1, tentative=frozenset({1})) == BlockingRule(Rule.IN_DOUBT, session="s")
    assert stands(channel, 3) == BlockingRule(Rule.BEHIND, session="s", head=0)
    assert unit_stands(channel) == BlockingRule(Rule.IN_HAND, session="s", head=0)
    channel.acknowledge("s", 0, 1)
    assert stands(channel, 2).rule is Rule.READY
    assert stands(channel, 3) == BlockingRule(Rule.BEHIND, head=2)
    assert unit_stands(channel) == BlockingRule(Rule.READY, head=2)


def test_a_delay_tells_when_it_ends() -> None:
    """Of UNIT-17."""
    channel = joe()
    assert channel.got("s", 1) == [0]
    channel.give_back("s", Modified(0, counted=True, delay_ms=500))
    assert stands(channel, 0) == BlockingRule(Rule.DELAYED, due_at_ms=START_MS + 500)
    assert unit_stands(channel) == BlockingRule(Rule.DELAYED, head=0, due_at_ms=START_MS + 500)
    channel.pass_time(500)
    assert stands(channel, 0).rule is Rule.READY


def test_a_delivery_time_that_has_not_come() -> None:
    channel = Channel(message(0, JOE, delivery=START_MS + 700), message(1, None, delivery=START_MS + 800))
    assert stands(channel, 0) == BlockingRule(Rule.NOT_YET_DUE, due_at_ms=START_MS + 700)
    assert unit_stands(channel, 1) == BlockingRule(Rule.NOT_YET_DUE, head=1, due_at_ms=START_MS + 800)


def test_on_hold_also_when_its_head_is_in_the_held_store() -> None:
    channel = joe(2, settings=HOLD)
    assert channel.got("s", 1) == [0]
    channel.give_back("s", 0)
    assert stands(channel, 0).rule is Rule.ON_HOLD
    assert stands(channel, 1) == BlockingRule(Rule.BEHIND, head=0)
    channel.state.apply(c.Spilled(key=JOE, kept=0))
    assert stands(channel, 0).rule is Rule.ON_HOLD
    assert unit_stands(channel) == BlockingRule(Rule.ON_HOLD)  # which message is the first only the held store knows


def test_expired_leaving_and_not_selected() -> None:
    channel = Channel(message(0, JOE, expires=START_MS + 5), message(1, JOE), message(2, b"ann"))
    channel.state.apply(c.Selected(1 << 3, dict.fromkeys(range(3), 1 << 4)))
    assert stands(channel, 2, b"ann").rule is Rule.NOT_SELECTED
    channel.pass_time(5)
    assert stands(channel, 0).rule is Rule.EXPIRED
    channel.ask("s", chooses=1 << 3)
    assert stands(channel, 0) == BlockingRule(Rule.LEAVING)
    assert stands(channel, 1) == BlockingRule(Rule.BEHIND, session=DEPARTING, head=0)
    assert unit_stands(channel) == BlockingRule(Rule.LEAVING, session=DEPARTING, head=0)
