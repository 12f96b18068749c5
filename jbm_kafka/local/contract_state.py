"""The state of a contract channel (`jbm_kafka.local`): what it can do beyond a channel over Kafka.

Over Kafka a message takes its place at commit and its acknowledgement always follows its delivery; here messages are
held NOT_COMMITTED (STATE-2), an acknowledgement may come first (STATE-6), and a message may leave from anywhere.
A contract channel calls the receiver first and records the delivery after it: until then the message is NEW, so a
refusal needs no undoing (STATE-10). The batch decisions of the sidecar are in core/channel/offer.py.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.channel_state import ChannelState, state_in_hand
from jbm_kafka.core.channel.entries import Entry
from jbm_kafka.core.channel.reference import GateKey, Reference, SessionId
from jbm_kafka.core.channel.states import MessageState


class ContractChannelState(ChannelState):
    """One contract channel. Only `apply` changes it; everything else reads."""

    __slots__ = ()

    def apply(self, change: c.ContractChange | Entry) -> None:
        """Make one change. The caller has decided that it is legal; what is not is a bug and asserts."""
        match change:
            case c.AcknowledgedEarly() | c.FoundInHand():
                self._take_in_hand(change)
            case c.AddedUncommitted():
                self._added_uncommitted(change)
            case c.SendsCommitted():
                self._sends_committed(change)
            case c.SendsRolledBack():
                self._sends_rolled_back(change)
            case _:
                super().apply(change)
                self._look_at_all_arrivals()  # each waits at its gate: receivers are asked for one at a time

    def _take_in_hand(self, change: c.AcknowledgedEarly | c.FoundInHand) -> None:
        session, reference = change.session, change.reference
        assert change.transition.target is state_in_hand(session), session
        self._take_waiting([reference])
        gate = self.gates.gate(reference.gate_key)
        self.gates.hold(gate, 1, session)
        self._list_anew(gate)
        self._hand(session)[reference.offset] = reference

    def _added_uncommitted(self, change: c.AddedUncommitted) -> None:
        self.uncommitted.update((reference.offset, change.transaction) for reference in change.references)
        self._fetched(c.Fetched(self.read_position, change.references[-1].offset + 1, change.references))
        self._look_at_all_arrivals()

    def _sends_committed(self, change: c.SendsCommitted) -> None:
        for reference in change.references:
            del self.uncommitted[reference.offset]
            self._list_anew(self.gates.by_key[reference.gate_key])

    def _sends_rolled_back(self, change: c.SendsRolledBack) -> None:
        for reference in change.references:
            del self.uncommitted[reference.offset]
        self._take_waiting(change.references)
        self.durable.settle([reference.offset for reference in change.references])

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
        """The session that has the message."""
        return next((session for session, hand in self.in_hand.items() if offset in hand), None)

    def is_waiting(self, offset: int) -> bool:
        """Return True if the message is NEW."""
        return offset in self.unsettled and offset not in self.uncommitted and self.holder_of(offset) is None

    def heads(self) -> Iterator[Reference]:
        """The messages that may be handed over, the highest priority and then the oldest first."""
        listings = (self.gates.free, *self.gates.own.values())
        for _, _, key in heapq.merge(*[reversed(each) for each in listings], reverse=True):
            yield self.gates.by_key[key].waiting[0]

    def owner_of(self, key: GateKey) -> SessionId | None:
        """The session that holds earlier messages of this unit, and alone may have its next."""
        gate = self.gates.by_key.get(key)
        return None if gate is None else gate.owner

    # -- leaves ------------------------------------------------------------------------------------------------

    def _take_waiting(self, references: Sequence[Reference]) -> None:
        """Take these from where they wait; those behind them move up."""
        for reference in references:
            gate = self.gates.by_key[reference.gate_key]
            gate.waiting.remove(reference)
            self.gates.waiting_count -= 1
            self._list_anew(gate)


def decide_delivery(state: ContractChannelState, session: SessionId, reference: Reference) -> c.Offered | None:
    """Return the change by which a NEW message is in the session's hand.

    None when it may not be: it is not the next of its unit, or another session holds the unit, or it is not NEW.
    """
    gate = state.gates.by_key.get(reference.gate_key)
    if gate is None or not gate.waiting or gate.waiting[0].offset != reference.offset:
        return None
    if reference.offset in state.uncommitted or gate.owner not in (None, session):
        return None
    taken = c.HeadTaken(key=reference.gate_key, count=1, leaving=False)
    return c.Offered(session, heads=(taken,), examined=0, fresh=(), expired=(), blocked=())
