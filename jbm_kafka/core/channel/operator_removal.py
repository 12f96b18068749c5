"""Which of the messages that an operator names may leave a channel, and why others stay: pure.

An operator names messages by offset, as a listing showed them a moment ago. What was acknowledged meanwhile is gone;
what a worker has in hand stays there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.departure import EXPIRED, MOVED, OPERATOR, Route
from jbm_kafka.core.channel.entries import MessageFate
from jbm_kafka.core.channel.holders import with_receivers
from jbm_kafka.core.channel.reference import DEPARTING, Reference
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.settings.address_settings import ResolvedSettings


class Verb(Enum):
    """An operator's action on messages; the value is its name in commands."""

    MOVE = "move"
    """To another queue, as they are."""
    REMOVE = "remove"
    """For good."""
    EXPIRE = "expire"
    """As if their time to live had ended now."""
    DEAD_LETTER = "dead-letter"
    """As if their attempts were used up."""


REASONS: Mapping[Verb, str] = {
    Verb.MOVE: MOVED,
    Verb.REMOVE: OPERATOR,
    Verb.EXPIRE: EXPIRED,
    Verb.DEAD_LETTER: OPERATOR,
}
"""Why they depart."""


@dataclass(frozen=True, slots=True)
class OperatorRemoval:
    """The outcome for the messages that were named; each offset is in one of them."""

    takeable: Sequence[Reference]
    """They may leave, in the order named."""
    in_hand: Sequence[int]
    """A session has them."""
    behind: Sequence[int]
    """A session has others of their unit."""
    gone: Sequence[int]
    """Settled, on their way out, or no messages at all."""


def route_of_verb(verb: Verb, settings: ResolvedSettings, *, source: str, to: str | None) -> Route:
    """Where messages go by this verb; `source`: where they are, as an address (`orders`, `topic:prices`).

    Raises:
        IllegalStateError: there is no dead-letter address; or they would go where they are.
    """
    if verb is Verb.REMOVE:
        return Route(None, MessageFate.REMOVED)
    if verb is Verb.MOVE:
        route = Route(to, MessageFate.MOVED)
    elif verb is Verb.EXPIRE:
        route = Route(settings.expiry_address, MessageFate.EXPIRED)
    else:
        route = Route(settings.dead_letter_address, MessageFate.DEAD_LETTERED)
    if route.address is None and verb is not Verb.EXPIRE:
        raise IllegalStateError(f"{source} has no dead-letter address: set one, or remove the messages", address=source)
    if route.address == source:
        raise IllegalStateError(
            f"{source} is itself where its messages would go by {verb.value!r}: move them elsewhere, or remove them",
            address=source,
        )
    return route


def find(
    state: ChannelState, offsets: Sequence[int], known: Mapping[int, Reference], *, whole_units: bool = False
) -> OperatorRemoval:
    """Which of these may leave now. `known`: what the log has at the offsets.

    Args:
        whole_units: none of a unit of which a session has others in hand. Only so may they be put back, without being
            overtaken by what that session gets.
    """
    held = {offset for _, hand in with_receivers(state.in_hand) for offset in hand}
    held.update(state.aside)
    leaving = state.in_hand.get(DEPARTING, {})
    takeable: list[Reference] = []
    in_hand: list[int] = []
    behind: list[int] = []
    gone: list[int] = []
    for offset in offsets:
        reference = known.get(offset)
        if offset in held:
            in_hand.append(offset)
        elif reference is None or offset not in state.unsettled or offset in leaving:
            gone.append(offset)
        elif whole_units and _is_begun(state, reference):
            behind.append(offset)
        else:
            takeable.append(reference)
    return OperatorRemoval(takeable, in_hand, behind, gone)


def _is_begun(state: ChannelState, reference: Reference) -> bool:
    gate = None if reference.unit is None else state.gates.by_key.get(reference.unit)
    return gate is not None and gate.owner not in (None, DEPARTING)


def may_wait_again(state: ChannelState, references: Collection[Reference]) -> bool:
    """Return True if messages that DEPARTING holds may go back to their gates at once.

    They may not while a gate has some in the held store, or nobody has looked yet whether it has.
    """
    by_key, awaiting_look = state.gates.by_key, state.gates.awaiting_look
    gates = (by_key.get(reference.gate_key) for reference in references)
    return not any(gate is not None and (gate.spilled or gate.key in awaiting_look) for gate in gates)


def decide_put_back(state: ChannelState, references: Sequence[Reference]) -> c.DepartureFailed:
    """They cannot leave after all: they wait again, with the past that they had."""
    messages: list[c.ReturnedMessage] = []
    for reference in references:
        redelivery = state.redeliveries.get(reference.offset)
        messages.append(
            c.ReturnedMessage(reference.offset, 0, 0, 0, "")
            if redelivery is None
            else c.ReturnedMessage(
                reference.offset, redelivery.attempts, redelivery.due_at_ms, redelivery.delay_ms, redelivery.reason
            )
        )
    return c.DepartureFailed(messages)
