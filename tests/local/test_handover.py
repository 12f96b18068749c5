"""Goal: one message at a time, a decision fits what the channel holds, and what does not fit changes nothing."""

from __future__ import annotations

import pytest

from jbm_kafka.core import changes as c
from jbm_kafka.core.departure import DEPARTS_BY
from jbm_kafka.core.entries import MessageFate
from jbm_kafka.core.jms_errors import IllegalStateError, UnknownMessageError
from jbm_kafka.core.reference import DEPARTING, Reference
from jbm_kafka.core.states import MessageState
from jbm_kafka.local.contract_state import ContractChannelState
from jbm_kafka.local.handover import (
    decide_acknowledgement,
    decide_delivery,
    decide_examination,
    heads,
    is_waiting,
    message_state,
    owing,
)

A1, A2, B, PLAIN = (Reference(o, unit) for o, unit in enumerate([b"a", b"a", b"b", None]))


@pytest.fixture
def state() -> ContractChannelState:
    """A channel that holds A1, A2, B and PLAIN, all NEW."""
    state = ContractChannelState()
    state.apply(c.Fetched(0, 4, [A1, A2, B, PLAIN]))
    state.apply(decide_examination(state))
    return state


def deliver(state: ContractChannelState, session: str, reference: Reference) -> None:
    change = decide_delivery(state, session, reference)
    assert change is not None
    state.apply(change)


def test_after_the_examination_every_head_is_at_its_gate(state: ContractChannelState) -> None:
    assert not state.arrivals
    assert sorted(reference for reference, _ in heads(state)) == [A1, B, PLAIN]


def test_heads_name_the_session_that_alone_may_have_them(state: ContractChannelState) -> None:
    """UNIT-3"""
    deliver(state, "r1", A1)
    assert (A2, "r1") in list(heads(state))
    assert (B, None) in list(heads(state))


def test_a_message_is_not_delivered_before_the_one_ahead_of_it(state: ContractChannelState) -> None:
    """UNIT-1"""
    assert decide_delivery(state, "r1", A2) is None


def test_a_message_is_not_delivered_while_another_session_has_its_unit(state: ContractChannelState) -> None:
    """UNIT-2"""
    deliver(state, "r1", A1)
    assert decide_delivery(state, "r2", A2) is None
    deliver(state, "r1", A2)
    assert owing(state, A2.offset) == {"r1"}
    state.apply(decide_acknowledgement(state, "r1", A2))
    assert message_state(state, A2.offset) is None


def test_a_message_in_hand_or_gone_is_not_delivered(state: ContractChannelState) -> None:
    """Of STATE-4"""
    deliver(state, "r1", PLAIN)
    assert decide_delivery(state, "r2", PLAIN) is None
    state.apply(c.Acknowledged("r1", [PLAIN.offset]))
    assert decide_delivery(state, "r1", PLAIN) is None


def test_a_message_sent_in_an_open_transaction_is_not_delivered(state: ContractChannelState) -> None:
    """STATE-2, of UNIT-4"""
    sent = Reference(4, b"c")
    state.apply(c.AddedUncommitted("t", [sent]))
    assert message_state(state, 4) is MessageState.NOT_COMMITTED
    assert decide_delivery(state, "r1", sent) is None
    state.apply(c.SendsCommitted("t"))
    deliver(state, "r1", sent)


def test_an_early_acknowledgement_is_delivered_and_owed_by_nobody(state: ContractChannelState) -> None:
    """STATE-6: the delivery settles it."""
    state.apply(decide_acknowledgement(state, "r1", A1))
    assert message_state(state, A1.offset) is MessageState.DELIVERED
    assert owing(state, A1.offset) == frozenset()
    assert decide_delivery(state, "r2", A1) is None
    deliver(state, "r1", A1)
    assert message_state(state, A1.offset) is None
    assert not state.early
    deliver(state, "r2", A2)


def test_an_acknowledgement_that_cannot_be_is_refused(state: ContractChannelState) -> None:
    """STATE-6, of STATE-1"""
    deliver(state, "r1", A1)
    state.apply(decide_acknowledgement(state, "r1", B))
    state.apply(c.AddedUncommitted("t", [Reference(4, None)]))
    for session, reference in [("r2", A1), ("r2", A2), ("r1", B), ("r2", B), ("r1", Reference(9, None))]:
        with pytest.raises(UnknownMessageError):
            decide_acknowledgement(state, session, reference)
    with pytest.raises(IllegalStateError):
        decide_acknowledgement(state, "r1", Reference(4, None))


def test_what_is_on_its_way_out_is_owed_by_nobody(state: ContractChannelState) -> None:
    """Of STATE-4"""
    deliver(state, DEPARTING, A1)
    assert message_state(state, A1.offset) is MessageState.NEW, "no receiver has it"
    assert not is_waiting(state, A1.offset)
    assert owing(state, A1.offset) == frozenset()
    with pytest.raises(UnknownMessageError, match="does not hold"):
        decide_acknowledgement(state, "r1", A1)


def test_what_is_withdrawn_is_settled_and_forgotten_and_those_behind_it_move_up(state: ContractChannelState) -> None:
    """Of UNIT-16"""
    deliver(state, "r1", A1)
    state.apply(c.Returned("r1", [c.ReturnedMessage(0, attempts=2, due_at_ms=0, delay_ms=0, reason="returned")]))
    state.apply(c.Withdrawn([A1, PLAIN], DEPARTS_BY[MessageFate.EXPIRED]))
    assert not state.redeliveries
    assert list(state.unsettled) == [A2.offset, B.offset]
    assert sorted(reference for reference, _ in heads(state)) == [A2, B]
    assert state.gates.waiting_count == 2


def test_a_rollback_takes_what_was_sent_and_leaves_what_others_sent(state: ContractChannelState) -> None:
    """STATE-2"""
    for offset, transaction in [(4, "t"), (5, "u"), (6, "t")]:
        state.apply(c.AddedUncommitted(transaction, [Reference(offset, b"c")]))
    state.apply(c.SendsRolledBack("t"))
    assert state.uncommitted == {5: "u"}
    assert 4 not in state.unsettled
    state.apply(c.SendsCommitted("u"))
    deliver(state, "r1", Reference(5, b"c"))


def test_offering_again_counts_and_changes_nothing_else(state: ContractChannelState) -> None:
    """REDELIVER-1, of STATE-4"""
    deliver(state, "r1", A1)
    state.apply(c.OfferedAgain("r1", [c.ReturnedMessage(0, attempts=1, due_at_ms=0, delay_ms=0, reason="returned")]))
    assert state.redeliveries[0].attempts == 1
    assert owing(state, A1.offset) == {"r1"}
