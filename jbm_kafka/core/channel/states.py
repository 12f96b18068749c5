"""Message states, and the only moves between them.

Every change of a message's state is one row of TRANSITIONS, and only `transition` and `jbm-kafka docs state-machine`,
which shows it, read it. What is not a row is refused and changes nothing (STATE-1). Changes of a channel
(core/channel/changes.py) carry their row, and `ChannelState.apply` asserts that the messages stand where the row
begins.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from jbm_kafka.core.jms_errors import IllegalStateError


class MessageState(Enum):
    """Where a message known to a channel stands; of a browser's message `message.state`.

    NEW: held, and no receiver has it.
    DELIVERED: a receiver has it in hand; it may come back.
    NOT_COMMITTED: sent in a transaction that has not committed; no browser shows it.
    """

    NOT_COMMITTED = "not_committed"
    """Sent in a transaction that has not committed. No receiver and no browser may see it."""
    NEW = "new"
    """Held, and no receiver has it."""
    DELIVERED = "delivered"
    """Handed over, and at least one receiver still owes its acknowledgement. Not finished: it may come back as NEW."""


class Outcome(Enum):
    """How a message left its channel. Every outcome is final."""

    ACKNOWLEDGED = "acknowledged"
    """All receivers that owed an acknowledgement gave it."""
    ROLLED_BACK = "rolled_back"
    """The transaction that sent it was rolled back; it never was in the queue."""
    EXPIRED = "expired"
    """Its time to live ended; it went to the expiry address or was removed."""
    DEAD_LETTERED = "dead_lettered"
    """Copied to the dead-letter address."""
    REMOVED = "removed"
    """Given up without a copy: no dead-letter address, or an operator's wish."""
    MOVED = "moved"
    """An operator moved it to another destination."""
    DUPLICATE = "duplicate"
    """Its duplicate id was seen before within the window."""
    DISCARDED = "discarded"
    """Nobody was there to receive it, and the channel stores nothing undeliverable."""
    SKIPPED = "skipped"
    """An operator set the group's offset past it."""


class Move(Enum):
    """A move of a message."""

    SESSION_COMMITTED = "session_committed"
    """The transaction that sent it committed."""
    SESSION_ROLLED_BACK = "session_rolled_back"
    """The transaction that sent it was rolled back."""
    OFFERED = "offered"
    """A receiver took it; again for one more receiver of a core topic channel, or for one that still owes it."""
    ACKNOWLEDGED_EARLY = "acknowledged_early"
    """The acknowledgement came before the delivery was recorded. It is kept, and cancels the owed one (STATE-6)."""
    ACKNOWLEDGED_IN_PART = "acknowledged_in_part"
    """One receiver acknowledged, others still owe it."""
    ACKNOWLEDGED = "acknowledged"
    """The last receiver that owed it acknowledged."""
    RETURNED_IN_PART = "returned_in_part"
    """One receiver of a core topic channel left, or its copy's time ended; others still owe it."""
    RETURNED = "returned"
    """The receiver asked for redelivery, or closed, or was lost."""
    EXPIRED = "expired"
    """Its time to live ended. In hand it expires only when it comes back (STATE-4)."""
    DEAD_LETTERED = "dead_lettered"
    """Its attempts are used up, or it was sent there, and there is a dead-letter address."""
    REMOVED = "removed"
    """Its attempts are used up and there is no dead-letter address, or an operator removes it."""
    MOVED = "moved"
    """An operator moves it."""
    REPEATED = "repeated"
    """Its duplicate id is found in the window, before anyone was offered it."""
    DISCARDED = "discarded"
    """Its channel has nobody to offer it to and stores nothing undeliverable."""
    SKIPPED = "skipped"
    """The group's offset was set past it while nobody had it."""


_S, _M, _O = MessageState, Move, Outcome

TRANSITIONS: Mapping[tuple[MessageState, Move], MessageState | Outcome] = MappingProxyType(
    {
        (_S.NOT_COMMITTED, _M.SESSION_COMMITTED): _S.NEW,
        (_S.NOT_COMMITTED, _M.SESSION_ROLLED_BACK): _O.ROLLED_BACK,
        (_S.NOT_COMMITTED, _M.EXPIRED): _O.ROLLED_BACK,
        (_S.NEW, _M.OFFERED): _S.DELIVERED,
        (_S.NEW, _M.ACKNOWLEDGED_EARLY): _S.DELIVERED,
        (_S.NEW, _M.EXPIRED): _O.EXPIRED,
        (_S.NEW, _M.DEAD_LETTERED): _O.DEAD_LETTERED,
        (_S.NEW, _M.REMOVED): _O.REMOVED,
        (_S.NEW, _M.MOVED): _O.MOVED,
        (_S.NEW, _M.REPEATED): _O.DUPLICATE,
        (_S.NEW, _M.DISCARDED): _O.DISCARDED,
        (_S.NEW, _M.SKIPPED): _O.SKIPPED,
        (_S.DELIVERED, _M.OFFERED): _S.DELIVERED,
        (_S.DELIVERED, _M.ACKNOWLEDGED_IN_PART): _S.DELIVERED,
        (_S.DELIVERED, _M.ACKNOWLEDGED): _O.ACKNOWLEDGED,
        (_S.DELIVERED, _M.RETURNED_IN_PART): _S.DELIVERED,
        (_S.DELIVERED, _M.RETURNED): _S.NEW,
        (_S.DELIVERED, _M.DEAD_LETTERED): _O.DEAD_LETTERED,
        (_S.DELIVERED, _M.REMOVED): _O.REMOVED,
    }
)
"""The whole state machine: from a state, by a move, to a state or out of the channel."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table of moves."""

    state: MessageState
    """Where the message stands before."""
    move: Move
    target: MessageState | Outcome
    leaves: bool
    """True when the target is an outcome: the message leaves the channel."""


_ROWS: Mapping[tuple[MessageState, Move], Transition] = MappingProxyType(
    {key: Transition(*key, target, isinstance(target, Outcome)) for key, target in TRANSITIONS.items()}
)


def transition(state: MessageState, move: Move) -> Transition:
    """The row of this move.

    Raises:
        IllegalStateError: the table has no such row; nothing changed.
    """
    row = _ROWS.get((state, move))
    if row is None:
        legal = ", ".join(known.value for from_state, known in TRANSITIONS if from_state is state)
        raise IllegalStateError(
            f"a message that is {state.value} cannot be {move.value}; possible are {legal}", state=state, move=move
        )
    return row


ACKNOWLEDGED = transition(MessageState.DELIVERED, Move.ACKNOWLEDGED)
"""How nearly every message leaves."""
