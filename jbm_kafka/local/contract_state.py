"""The state of a contract channel (`jbm_kafka.local`): what it can do beyond a channel over Kafka.

Over Kafka a message takes its place at commit and its acknowledgement always follows its delivery; here messages are
held NOT_COMMITTED (STATE-2), an acknowledgement may come first (STATE-6), and a message may leave from anywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from jbm_kafka.core import changes as c
from jbm_kafka.core.channel_state import ChannelState, state_in_hand
from jbm_kafka.core.entries import Entry
from jbm_kafka.core.reference import GateKey, Reference, SessionId
from jbm_kafka.core.states import MessageState


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
