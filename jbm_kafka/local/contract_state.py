"""The state of a contract channel (`jbm_kafka.local`): what it can do beyond a channel over Kafka.

Over Kafka a message takes its place at commit and its acknowledgement always follows its delivery; here messages are
held NOT_COMMITTED (STATE-2), an acknowledgement may come first (STATE-6), and a message may leave from anywhere.
A contract channel calls the receiver first and records the delivery after it: until then the message is NEW, so a
refusal needs no undoing (STATE-10). The batch decisions of the sidecar are in core/channel/offer.py.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Sequence

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.channel_state import ChannelState, state_in_hand
from jbm_kafka.core.channel.entries import Entry
from jbm_kafka.core.channel.reference import DEPARTING, GateKey, Reference, SessionId
from jbm_kafka.core.channel.states import MessageState, Move, transition
from jbm_kafka.core.jms_errors import UnknownMessageError


class ContractChannelState(ChannelState):
    """One contract channel. Only `apply` changes it; everything else reads."""

    __slots__ = ("early",)

    def __init__(self) -> None:
        super().__init__()
        self.early: set[tuple[SessionId, int]] = set()
        """Acknowledgements that came before their delivery was recorded; the messages are in the session's hand."""

    def apply(self, change: c.ContractChange | Entry) -> None:
        """Make one change. The caller has decided that it is legal; what is not is a bug and asserts."""
        match change:
            case c.AcknowledgedEarly():
                self._take_in_hand(change)
                self.early.add((change.session, change.reference.offset))
            case c.FoundInHand():
                self._take_in_hand(change)
            case c.OfferedAgain():
                self._offered_again(change)
            case c.Withdrawn():
                self._withdrawn(change)
            case c.AddedUncommitted():
                self._added_uncommitted(change)
            case c.SendsCommitted():
                self._sends_committed(change)
            case c.SendsRolledBack():
                self._sends_rolled_back(change)
            case _:
                super().apply(change)
                self._look_at_all_arrivals()  # each waits at its gate: receivers are asked for one at a time

    def _acknowledged(self, change: c.Acknowledged) -> None:
        super()._acknowledged(change)
        self.early.difference_update((change.session, offset) for offset in change.offsets)

    def _take_in_hand(self, change: c.AcknowledgedEarly | c.FoundInHand) -> None:
        session, reference = change.session, change.reference
        assert change.transition.target is state_in_hand(session), session
        self._take_waiting([reference])
        gate = self.gates.gate(reference.gate_key)
        assert gate.owner is None or gate.owner == session, (gate.key, gate.owner, session)
        gate.owner = session
        gate.in_hand += 1
        self._relist(gate)
        self._hand(session)[reference.offset] = reference

    def _offered_again(self, change: c.OfferedAgain) -> None:
        assert change.transition.state is state_in_hand(change.session), change.session
        hand = self.in_hand[change.session]
        for message in change.messages:
            self.durable.remember(message, hand[message.offset])

    def _withdrawn(self, change: c.Withdrawn) -> None:
        offsets = sorted(reference.offset for reference in change.references)
        row = change.transition
        assert row.leaves, row
        assert row.state is MessageState.NEW, row
        assert self.uncommitted.keys().isdisjoint(offsets), change
        self._take_waiting(change.references)
        self.durable.settle(offsets)
        for offset in offsets:
            self.durable.forget_past(offset)

    def _added_uncommitted(self, change: c.AddedUncommitted) -> None:
        self._look_at_all_arrivals()
        for reference in change.references:
            assert reference.offset >= self.end_position, (reference.offset, self.end_position)
            self.uncommitted[reference.offset] = change.transaction
            self.unsettled.add([reference.offset])
            self.read_position = reference.offset + 1
            self.durable.end_position = self.read_position
            self._wait(reference)

    def _sends_committed(self, change: c.SendsCommitted) -> None:
        for reference in self._sent_in(change.transaction):
            del self.uncommitted[reference.offset]
            self._relist(self.gates.by_key[reference.gate_key])

    def _sends_rolled_back(self, change: c.SendsRolledBack) -> None:
        gone = self._sent_in(change.transaction)
        for reference in gone:
            del self.uncommitted[reference.offset]
        self._take_waiting(gone)
        self.durable.settle(sorted(reference.offset for reference in gone))

    # -- what readers ask --------------------------------------------------------------------------------------

    def state_of(self, offset: int) -> MessageState | None:
        """Where the message stands; None when the channel does not hold it."""
        if offset in self.uncommitted:
            return MessageState.NOT_COMMITTED
        holder = self.holder_of(offset)
        if holder is not None:
            return state_in_hand(holder)
        return MessageState.NEW if offset in self.unsettled else None

    def holder_of(self, offset: int) -> SessionId | None:
        """The session that has the message, or DEPARTING."""
        return next((session for session, hand in self.in_hand.items() if offset in hand), None)

    def is_waiting(self, offset: int) -> bool:
        """Return True if the message is NEW and not on its way out either."""
        return offset in self.unsettled and offset not in self.uncommitted and self.holder_of(offset) is None

    def owing(self, offset: int) -> frozenset[SessionId]:
        """The sessions that have the message and have not acknowledged it (STATE-4)."""
        holder = self.holder_of(offset)
        is_owed = holder is not None and holder != DEPARTING and (holder, offset) not in self.early
        return frozenset([holder] if is_owed and holder is not None else ())

    def heads(self) -> Iterator[Reference]:
        """The messages that may be handed over, the highest priority and then the oldest first."""
        listings = (self.gates.free, *self.gates.own.values())
        for _, _, key in heapq.merge(*[reversed(each) for each in listings], reverse=True):
            yield self.gates.by_key[key].waiting[0]

    def owner_of(self, key: GateKey) -> SessionId | None:
        """The session that holds earlier messages of this unit, and alone may have its next."""
        gate = self.gates.by_key.get(key)
        return None if gate is None else gate.owner

    def is_next(self, reference: Reference) -> bool:
        """Return True if the message is the first of its unit and nothing holds it back."""
        gate = self.gates.by_key.get(reference.gate_key)
        return gate is not None and gate.listed_in is not None and gate.waiting[0].offset == reference.offset

    # -- leaves ------------------------------------------------------------------------------------------------

    def _sent_in(self, transaction: str) -> list[Reference]:
        gates = self.gates.by_key.values()
        return [r for gate in gates for r in gate.waiting if self.uncommitted.get(r.offset) == transaction]

    def _take_waiting(self, references: Sequence[Reference]) -> None:
        """Take these from where they wait; those behind them move up."""
        self._look_at_all_arrivals()
        groups: dict[GateKey, set[int]] = {}
        for reference in references:
            groups.setdefault(reference.gate_key, set()).add(reference.offset)
        for key, offsets in groups.items():
            gate = self.gates.by_key[key]
            kept = deque(reference for reference in gate.waiting if reference.offset not in offsets)
            assert len(gate.waiting) - len(kept) == len(offsets), (key, offsets)
            gate.waiting = kept
            self.gates.waiting_count -= len(offsets)
            self._relist(gate)


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
    now = state.state_of(offset)
    if now is None or (session, offset) in state.early:
        why = "is not in the channel" if now is None else "was acknowledged already"
        raise UnknownMessageError(f"the message at {offset} {why}; there is nothing to do", offset=offset)
    holder = state.holder_of(offset)
    if holder == session:
        return c.Acknowledged(session=session, offsets=[offset])
    if holder is not None:
        raise UnknownMessageError(f"receiver {session!r} does not hold the message at {offset}", receiver_id=session)
    transition(now, Move.ACKNOWLEDGED_EARLY)
    if state.owner_of(reference.gate_key) not in (None, session):
        raise UnknownMessageError(f"receiver {session!r} cannot hold the message at {offset}", receiver_id=session)
    return c.AcknowledgedEarly(session=session, reference=reference)
