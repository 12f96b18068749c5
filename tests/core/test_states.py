"""Goal: the moves of a message are those of the specification and no others.

Method: the rows are written here by hand, from docs/semantics.md section 1; every other pair must be refused.
"""

from itertools import product

import pytest

from jbm_kafka.core.channel.states import TRANSITIONS, MessageState, Move, Outcome, transition
from jbm_kafka.errors import IllegalStateError

SPEC: dict[str, dict[str, str]] = {
    # STATE-2; an expired message rolls its transaction back.
    "NOT_COMMITTED": {"SESSION_COMMITTED": "NEW", "SESSION_ROLLED_BACK": "ROLLED_BACK", "EXPIRED": "ROLLED_BACK"},
    "NEW": {
        "OFFERED": "DELIVERED",
        "ACKNOWLEDGED_EARLY": "DELIVERED",  # STATE-6
        "EXPIRED": "EXPIRED",  # SEND-5
        "DEAD_LETTERED": "DEAD_LETTERED",  # REDELIVER-3
        "REMOVED": "REMOVED",  # REDELIVER-3, without an address
        "MOVED": "MOVED",
        "REPEATED": "DUPLICATE",  # SEND-8
        "DISCARDED": "DISCARDED",  # STATE-8
        "SKIPPED": "SKIPPED",  # LOG-2
    },
    "DELIVERED": {
        "OFFERED": "DELIVERED",  # STATE-9, redeliver
        "ACKNOWLEDGED_IN_PART": "DELIVERED",  # STATE-4
        "RETURNED_IN_PART": "DELIVERED",  # STATE-4, STATE-5: a receiver of a topic is gone
        "ACKNOWLEDGED": "ACKNOWLEDGED",
        "RETURNED": "NEW",  # STATE-5
        "DEAD_LETTERED": "DEAD_LETTERED",
        "REMOVED": "REMOVED",
    },
}

PAIRS = [pytest.param(state, move, id=f"{state.name}-{move.name}") for state, move in product(MessageState, Move)]


@pytest.mark.parametrize(("state", "move"), PAIRS)
def test_a_move_leads_where_the_specification_says_or_is_refused(state: MessageState, move: Move) -> None:
    """Of STATE-1: every move is one row of one table; anything else is refused."""
    expected = SPEC[state.name].get(move.name)
    if expected is None:
        with pytest.raises(IllegalStateError) as caught:
            transition(state, move)
        assert caught.value.values == {"state": state, "move": move}
        assert f"{state.value} cannot be {move.value}" in str(caught.value)
    else:
        row = transition(state, move)
        assert (row.state, row.move, row.target.name) == (state, move, expected)
        assert row.leaves is isinstance(row.target, Outcome)


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TRANSITIONS[MessageState.NEW, Move.RETURNED] = MessageState.NEW  # type: ignore[index]


def test_every_state_and_outcome_is_reached_and_every_move_used() -> None:
    assert {move for _, move in TRANSITIONS} == set(Move)
    assert set(TRANSITIONS.values()) - set(Outcome) == {MessageState.NEW, MessageState.DELIVERED}
    assert set(TRANSITIONS.values()) - set(MessageState) == set(Outcome)
