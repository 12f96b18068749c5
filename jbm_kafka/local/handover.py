"""One message at a time: decisions for channels whose receivers may refuse what they are handed.

A contract channel calls the receiver first and records the delivery after it (STATE-6, STATE-10). Until then the
message is NEW, so a refusal needs no undoing. The batch decisions of the sidecar are in core/offer.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from jbm_kafka.core import changes as c
from jbm_kafka.core.channel_state import state_in_hand
from jbm_kafka.core.jms_errors import UnknownMessageError
from jbm_kafka.core.reference import DEPARTING, Reference, SessionId
from jbm_kafka.core.states import MessageState, Move, transition
from jbm_kafka.local.contract_state import ContractChannelState


def message_state(state: ContractChannelState, offset: int) -> MessageState | None:
    """Where the message stands; None when the channel does not hold it."""
    if offset in state.uncommitted:
        return MessageState.NOT_COMMITTED
    for session, hand in state.in_hand.items():
        if offset in hand:
            return state_in_hand(session)
    return MessageState.NEW if offset in state.unsettled else None


def is_waiting(state: ContractChannelState, offset: int) -> bool:
    """Whether the message is NEW and not on its way out either."""
    return message_state(state, offset) is MessageState.NEW and offset not in state.in_hand.get(DEPARTING, {})


def owing(state: ContractChannelState, offset: int) -> frozenset[SessionId]:
    """The message's NACK set: the sessions that have it and have not acknowledged it (STATE-4)."""
    return frozenset(
        session
        for session, hand in state.in_hand.items()
        if offset in hand and session != DEPARTING and (session, offset) not in state.early
    )


def decide_examination(state: ContractChannelState) -> c.Offered:
    """Every arrival goes to its gate, and none to anybody."""
    arrivals = list(state.arrivals)
    return c.Offered(DEPARTING, heads=(), examined=len(arrivals), fresh=(), expired=(), blocked=arrivals)


def heads(state: ContractChannelState) -> Iterator[tuple[Reference, SessionId | None]]:
    """The messages that may be handed over, with the session that alone may have it, or None; in no order.

    Arrivals must have been examined: only gates are looked at.
    """
    for listing in (state.gates.free, *state.gates.own.values()):
        for _, _, key in listing:
            gate = state.gates.by_key[key]
            yield gate.waiting[0], gate.owner


def decide_delivery(state: ContractChannelState, session: SessionId, reference: Reference) -> c.ContractChange | None:
    """Record that the session was handed the message; or, by DEPARTING, that it is on its way out.

    When its acknowledgement is here already, that settles it (STATE-6). None when the message may not be in this
    session's hand: it is not the next of its unit, or another session holds the unit, or it is not NEW any more.
    """
    offset, key = reference.offset, reference.gate_key
    if (session, offset) in state.early:
        return c.Acknowledged(session=session, offsets=[offset])
    gate = state.gates.by_key.get(key)
    if gate is None or not gate.waiting or gate.waiting[0].offset != offset or offset in state.uncommitted:
        return None
    if gate.owner is not None and gate.owner != session:
        return None
    taken = c.HeadTaken(key=key, count=1, leaving=session == DEPARTING)
    return c.Offered(session, heads=(taken,), examined=0, fresh=(), expired=(), blocked=())


def decide_acknowledgement(state: ContractChannelState, session: SessionId, reference: Reference) -> c.ContractChange:
    """A session acknowledges one message, which it holds or, when its delivery is not recorded yet, will have held.

    Raises:
        UnknownMessageError: the channel does not hold the message, or somebody else has it or its unit, or it was
            acknowledged before.
        IllegalStateError: it is NOT_COMMITTED.
    """
    offset = reference.offset
    now = message_state(state, offset)
    if now is None or (session, offset) in state.early:
        why = "is not in the channel" if now is None else "was acknowledged already"
        raise UnknownMessageError(f"the message at {offset} {why}; there is nothing to do", offset=offset)
    if offset in state.in_hand.get(session, {}):
        return c.Acknowledged(session=session, offsets=[offset])
    if any(offset in hand for hand in state.in_hand.values()):
        raise UnknownMessageError(f"receiver {session!r} does not hold the message at {offset}", receiver_id=session)
    transition(now, Move.ACKNOWLEDGED_EARLY)
    gate = state.gates.by_key.get(reference.gate_key)
    if gate is not None and gate.owner is not None and gate.owner != session:
        raise UnknownMessageError(f"receiver {session!r} cannot hold the message at {offset}", receiver_id=session)
    return c.AcknowledgedEarly(session=session, reference=reference)
