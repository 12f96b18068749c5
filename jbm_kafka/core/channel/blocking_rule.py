"""Which rule keeps a message of a channel from being handed over. Read-only.

`Rule` has every answer to "why does it not move", also those that only a process or a cluster can give: one list, one
word for each.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.cold_index import Place
from jbm_kafka.core.channel.holders import HolderKind, branch_holder, kind_of
from jbm_kafka.core.channel.redelivery import FOREVER_MS, is_expired
from jbm_kafka.core.channel.reference import GateKey, Reference, SessionId
from jbm_kafka.core.channel.unit_of_order import Gate


class Rule(Enum):
    """A rule that keeps a message, a unit or a partition where it is."""

    IN_HAND = "in-hand"
    """A receiver has it and has not said what becomes of it; if it is long ago, it hangs
    (docs/operating.md#a-worker-that-hangs)."""
    PREPARED = "prepared"
    """A prepared branch has it, and the manager of its transaction has not decided (ACK-10)."""
    BEHIND = "behind"
    """Earlier messages of its unit are not finished (UNIT-2)."""
    DELAYED = "delayed"
    """It came back, and waits for its redelivery delay (UNIT-4)."""
    NOT_YET_DUE = "not-yet-due"
    """It was sent with a delivery delay, which is not over (UNIT-4)."""
    ON_HOLD = "on-hold"
    """It is out of attempts and waits for an operator, with its unit (UNIT-16): docs/operating.md#a-unit-on-hold."""
    NOT_SELECTED = "not-selected"
    """No receiver's selector chooses it, and its unit waits (UNIT-6): stop all workers, and start them with one that
    chooses it (docs/runbook.md#no-selector-chooses-a-message)."""
    UNDELIVERABLE_HERE = "undeliverable-here"
    """As NOT_SELECTED, because a receiver that could have it is not to get it again (AMQP-16)."""
    EXPIRED = "expired"
    """Its time to live is over; it leaves as soon as somebody receives."""
    LEAVING = "leaving"
    """It is on its way to the dead-letter or expiry address."""
    IN_DOUBT = "in-doubt"
    """It is acknowledged in a commit or checkpoint whose end nobody knows yet: it is settled, or comes again, when
    Kafka answers."""
    NOT_READ = "not-read"
    """It lies behind what the owner of its partition has read."""
    SETTLED = "settled"
    """It is finished: nobody waits for it."""
    READY = "ready"
    """Nothing keeps it: it goes to the next receiver that asks."""
    RECEIVERS_BUSY = "receivers-busy"
    """It could go, but no receiver asks for one now (docs/operating.md#what-receivers-do)."""
    RECORDING = "recording"
    """It could go as soon as the next checkpoint is written, which records that it may have been handed over; if it
    stays so, Kafka takes no checkpoint: see that process's log."""
    NOBODY_RECEIVES = "nobody-receives"
    """Its queue or subscription has no receivers."""
    NO_OWNER = "no-owner"
    """No process says that it has its partition: the group is about to give it to one
    (docs/operating.md#no-process-has-the-partition)."""
    OWNER_SILENT = "owner-silent"
    """The process that has its partition did not answer (docs/operating.md#no-process-has-the-partition)."""
    NOT_ASKED = "not-asked"
    """The processes that have its partitions could not be asked; most likely a right is missing."""
    OPENING = "opening"
    """Its owner reads what is recorded of its partition; after a crash that takes some 20 s."""
    CLOSED = "closed"
    """Its owner cannot read its partition or what is recorded of it: a process that died left a checkpoint open, for
    some 10 s. If it stays so, a message kills its workers (docs/runbook.md#a-message-kills-its-workers)."""
    MOVING = "moving"
    """Its partition is about to go to another process, when handlers that run are done, after `revoke_drain_ms` at
    most."""
    PAUSED = "paused"
    """An operator has paused receiving."""
    SENDING_PAUSED = "sending-paused"
    """An operator has paused sending: nothing new comes."""
    NOT_ADMITTED = "not-admitted"
    """Its topic has got more partitions than its units are routed by: what has a unit is refused (UNIT-11):
    docs/operating.md#more-partitions-for-a-queue-in-use."""
    NO_CHANGELOG = "no-changelog"
    """Its changelog is missing: what was recorded of it is lost, and the next receiver makes it again
    (docs/operating.md#the-changelog-of-a-queue)."""
    PARKED_LOST = "parked-lost"
    """Its changelog lacks messages that were parked there, or may have been: nothing else had them (LOG-8,
    docs/operating.md#the-changelog-of-a-queue)."""
    OFFSETS_RESET = "offsets-reset"
    """Somebody reset its group's offsets: the next receiver gets it again, or never (LOG-2). If it was not meant, give
    the command that `explain` prints, before a receiver starts."""
    NOT_HELD = "not-held"
    """Nothing of what was asked about is there."""
    OPEN_TRANSACTION = "open-transaction"
    """It lies behind the first record of a Kafka transaction that has not ended
    (docs/operating.md#a-transaction-of-another-program)."""


_RULES = {
    HolderKind.SESSION: Rule.IN_HAND,
    HolderKind.DEPARTURE: Rule.LEAVING,
    HolderKind.BRANCH: Rule.PREPARED,
}


class BlockingRule(NamedTuple):
    """The rule that keeps one message where it is, and what goes with the rule."""

    rule: Rule
    session: SessionId | None = None
    """The session that has it in hand, or has the earlier messages of its unit."""
    head: int | None = None
    """The offset of the first of its unit, for a message that is BEHIND; None when the held store has that."""
    due_at_ms: int = 0
    """When the rule ends by itself, as the channel's clock goes, of what is shelved no earlier; 0: not by itself."""


def blocking_rule_of(
    state: ChannelState, offset: int, unit: bytes | None, *, now_ms: int, tentative: Collection[int] = ()
) -> BlockingRule:
    """Return what keeps this message of the channel, as far as the channel knows. `tentative`: settled by an open
    commit."""
    for session, hand in state.in_hand.items():
        if offset in hand:
            return _in_hand(session, offset in tentative)
    if offset in state.aside:
        return BlockingRule(Rule.PREPARED, session=branch_holder(state.aside[offset]))
    if offset >= state.read_position:
        return BlockingRule(Rule.NOT_READ)
    if offset not in state.unsettled:
        return BlockingRule(Rule.SETTLED)
    gate = state.gates.by_key.get(offset if unit is None else unit)
    if gate is None:
        return _blocking_rule_on_shelf(state, offset, unit, now_ms=now_ms)
    if gate.key in state.gates.awaiting_look and gate.owner is None:
        return BlockingRule(Rule.BEHIND)
    if gate.owner is not None:
        return BlockingRule(Rule.BEHIND, session=gate.owner, head=_first_in_hand(state, gate))
    head = gate.waiting[0] if gate.waiting else None
    if head is not None and head.offset < offset:
        return BlockingRule(Rule.BEHIND, head=head.offset)
    return blocking_rule_of_head(state, gate, offset if head is None else head.offset, now_ms=now_ms)


def blocking_rule_of_gate(state: ChannelState, gate: Gate, *, now_ms: int) -> BlockingRule:
    """Return what keeps the unit of this gate, by its first message."""
    if gate.owner is not None:
        return BlockingRule(_RULES[kind_of(gate.owner)], session=gate.owner, head=_first_in_hand(state, gate))
    head = gate.waiting[0].offset if gate.waiting else _spilled_head(gate.key)
    return blocking_rule_of_head(state, gate, head, now_ms=now_ms)._replace(head=head)


def blocking_rule_of_place(place: Place) -> BlockingRule:
    """Return what keeps the messages and units that are shelved there, as far as their place says."""
    if place.back_at_ms >= FOREVER_MS:
        return BlockingRule(Rule.ON_HOLD)
    return BlockingRule(Rule.NOT_SELECTED if place.is_unchosen else Rule.NOT_YET_DUE, due_at_ms=place.back_at_ms)


def _blocking_rule_on_shelf(state: ChannelState, offset: int, unit: bytes | None, *, now_ms: int) -> BlockingRule:
    """Return what keeps a message that has no gate."""
    place = state.shelf.place_of(offset)
    if place is None:
        is_behind = unit is not None and state.shelf.units.may_have(unit)
        return BlockingRule(Rule.BEHIND if is_behind else Rule.READY)  # ready: it is among the arrivals
    if state.shelf.is_fetched(place, offset):
        return BlockingRule(Rule.READY)
    redelivery = state.redeliveries.get(offset)
    if redelivery is not None and now_ms < redelivery.due_at_ms < FOREVER_MS and not place.is_unchosen:
        return BlockingRule(Rule.DELAYED, due_at_ms=redelivery.due_at_ms)
    return blocking_rule_of_place(place)


def blocking_rule_of_head(state: ChannelState, gate: Gate, offset: int | None, *, now_ms: int) -> BlockingRule:
    """Return what keeps the first message of a unit of which nobody has anything in hand; None: the held store has
    it."""
    head: Reference | None = gate.waiting[0] if gate.waiting else None
    redelivery = None if offset is None else state.redeliveries.get(offset)
    if gate.due_at_ms >= FOREVER_MS:
        return BlockingRule(Rule.ON_HOLD)
    if head is not None and is_expired(head.expiration_ms, now_ms - state.set_back_ms):
        return BlockingRule(Rule.EXPIRED)
    if gate.is_unchosen:
        return BlockingRule(Rule.NOT_SELECTED, due_at_ms=gate.due_at_ms)
    if gate.due_at_ms > now_ms:
        is_delayed = redelivery is not None and redelivery.due_at_ms > now_ms
        return BlockingRule(Rule.DELAYED if is_delayed else Rule.NOT_YET_DUE, due_at_ms=gate.due_at_ms)
    return BlockingRule(Rule.READY)


def _in_hand(session: SessionId, is_tentative: bool) -> BlockingRule:
    rule = _RULES[kind_of(session)]
    if rule is Rule.LEAVING:
        return BlockingRule(rule)
    return BlockingRule(Rule.IN_DOUBT if is_tentative else rule, session=session)


def _first_in_hand(state: ChannelState, gate: Gate) -> int | None:
    assert gate.owner is not None, gate.key
    hand = state.in_hand.get(gate.owner, {})
    return min((offset for offset, reference in hand.items() if reference.gate_key == gate.key), default=None)


def _spilled_head(key: GateKey) -> int | None:
    """Return the key, which of a message without a unit is its offset; of a unit only the held store knows the
    first."""
    return key if isinstance(key, int) else None
