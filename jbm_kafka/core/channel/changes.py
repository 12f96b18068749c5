"""Everything that can happen to a channel, as values: the changes that `ChannelState.apply` takes.

Changes come in batches. `decide` functions (core/channel/offer.py) make them, nothing else does. A change that moves
messages carries the row of core/channel/states.py by which it does. Offsets are 0-based record offsets; instants are
wall-clock milliseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from jbm_kafka.core.channel.cold_index import Place
from jbm_kafka.core.channel.entries import SeenId
from jbm_kafka.core.channel.reference import GateKey, Reference, SessionId
from jbm_kafka.core.channel.shelved_units import UnitHead
from jbm_kafka.core.channel.states import ACKNOWLEDGED, MessageState, Move, Transition, transition


@dataclass(frozen=True, slots=True)
class Fetched:
    """The log was read from `begin` up to `end` (exclusive) and holds exactly these messages there."""

    begin: int
    end: int
    references: Sequence[Reference]
    """In offset order. Offsets between that hold none are gaps and count as settled."""
    repeated: Sequence[int] = ()
    """Offsets of messages that repeat a duplicate id, ascending: they are settled unseen, and not among the
    references."""
    remembered: Sequence[SeenId] = ()
    """Duplicate ids that are new to the window."""
    forgotten: Sequence[bytes] = ()
    """Digests of those that leave it."""
    is_ahead: bool = False
    """Looked through only, beyond all that is known: known from now on, it arrives when it is read."""
    at_ms: int = 0
    """When it was read: delivery delays end so long after it at the latest. 0: that is not told, and they do not."""
    repeated_transition: ClassVar[Transition] = transition(MessageState.NEW, Move.REPEATED)


@dataclass(frozen=True, slots=True)
class HeadTaken:
    """The first messages waiting at one gate were taken."""

    key: GateKey
    count: int
    leaving: bool
    """True: not handed over but on the way out, expired or out of attempts (then count is 1)."""


@dataclass(frozen=True, slots=True)
class Offered:
    """Messages were handed to a session: NEW became DELIVERED."""

    transition: ClassVar[Transition] = transition(MessageState.NEW, Move.OFFERED)
    session: SessionId
    heads: Sequence[HeadTaken]
    """Taken from gates, in this order."""
    examined: int
    """How many arrivals were looked at, from the oldest on; each is in exactly one of the three below."""
    fresh: Sequence[Reference]
    """Arrivals handed over."""
    expired: Sequence[Reference]
    """Arrivals past their time: they now belong to DEPARTING."""
    blocked: Sequence[Reference]
    """Arrivals that must wait at their unit's gate."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A session is done with these; they are settled."""

    session: SessionId
    offsets: Sequence[int]
    durable: bool = False
    """True: the changelog has it already (it was tentative in a checkpoint that is now durable)."""
    transition: Transition = ACKNOWLEDGED
    """The row by which all of them leave; what DEPARTING holds was NEW: core/channel/departure.py."""


@dataclass(frozen=True, slots=True)
class AcknowledgedEarly:
    """An acknowledgement came before the delivery was recorded (STATE-6): a NEW message became DELIVERED.

    It is in the session's hand, nobody owes anything for it, and the record of its delivery settles it.
    """

    transition: ClassVar[Transition] = transition(MessageState.NEW, Move.ACKNOWLEDGED_EARLY)
    session: SessionId
    reference: Reference


@dataclass(frozen=True, slots=True)
class FoundInHand:
    """A record says that the session had the message when the channel ended: NEW became DELIVERED.

    Earlier messages of its unit may be NEW, because they had come back before that.
    """

    transition: ClassVar[Transition] = transition(MessageState.NEW, Move.OFFERED)
    session: SessionId
    reference: Reference


@dataclass(frozen=True, slots=True)
class ReturnedMessage:
    """One message going back, with what is remembered of its past."""

    offset: int
    attempts: int
    """Hand-overs to the application that ended without acknowledgement, this one included if it counts."""
    due_at_ms: int
    """Not to be handed over before; 0 at once."""
    delay_ms: int
    """The delay behind `due_at_ms`: a new owner waits at most this long."""
    reason: str
    was_seen: bool = False
    """The application had it, though that counts as no attempt: next time it is marked as redelivered."""
    failure: str | None = None
    """Why the attempt failed that is counted with this return, where its receiver said so."""


@dataclass(frozen=True, slots=True)
class Returned:
    """A session gives messages back: DELIVERED became NEW. They wait at their gates in offset order."""

    transition: ClassVar[Transition] = transition(MessageState.DELIVERED, Move.RETURNED)
    session: SessionId
    messages: Sequence[ReturnedMessage]


@dataclass(frozen=True, slots=True)
class Transferred:
    """Messages in a session's hand passed to DEPARTING, on their way to another destination; their units stay held.

    No receiver has them any more: NEW.
    """

    transition: ClassVar[Transition] = transition(MessageState.DELIVERED, Move.RETURNED)
    session: SessionId
    messages: Sequence[ReturnedMessage]


@dataclass(frozen=True, slots=True)
class PassedToBranch:
    """A branch is durably prepared: what sessions settled in it is in the branch's hand, DELIVERED as before.

    All that it takes of the channel is in this one change, whichever consumers got it. What else a session has of their
    units is its own, and comes behind them.
    """

    transition: ClassVar[Transition] = transition(MessageState.DELIVERED, Move.OFFERED)
    branch: str
    taken: Mapping[SessionId, Sequence[int]]

    @property
    def offsets(self) -> list[int]:
        """All of them."""
        return [offset for offsets in self.taken.values() for offset in offsets]


@dataclass(frozen=True, slots=True)
class BranchEnded:
    """The decision on the branch is carried out: it has nothing of the channel any more."""

    branch: str


@dataclass(frozen=True, slots=True)
class TakenOut:
    """At somebody's wish these passed to DEPARTING from wherever they waited, NEW as before: in memory, in the held
    store, or known and not read yet. Their units wait for them, but for those of which a session has some in hand: it
    gets what follows.
    """

    references: Sequence[Reference]


@dataclass(frozen=True, slots=True)
class DepartureFailed:
    """Nobody takes copies of these messages that DEPARTING holds: they wait again where they did, NEW as before.

    Nothing of their gates may be in the held store: core/channel/operator_removal.py says whether that is so.
    """

    messages: Sequence[ReturnedMessage]


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Time is now `now_ms`: delays that end by then are over."""

    now_ms: int
    set_back_ms: int = 0
    """How far behind that the wall clock is, by which senders stamp: somebody has set it back."""


@dataclass(frozen=True, slots=True)
class Selected:
    """Receivers have these selectors from now on. What is in the held store is looked at when it comes back."""

    present: int
    """A bit for each selector, EVERYONE for receivers without one."""
    chosen_by: Mapping[int, int] = field(default_factory=dict)
    """The selectors that choose a message in memory, by its offset, where that is not as it was."""
    asks: bool = True
    """A selector has come, which what is shelved was not asked by; False: some only left."""


@dataclass(frozen=True, slots=True)
class UndeliverableHere:
    """A receiver with a bit of its own is not to get this one again, which its session has in hand."""

    session: SessionId
    offset: int
    chooses: int
    """The receiver's bit."""


@dataclass(frozen=True, slots=True)
class AddedUncommitted:
    """Messages sent in an open transaction take their place: NOT_COMMITTED (contract channels only)."""

    transaction: str
    references: Sequence[Reference]


@dataclass(frozen=True, slots=True)
class SendsCommitted:
    """A transaction's NOT_COMMITTED messages became NEW."""

    transition: ClassVar[Transition] = transition(MessageState.NOT_COMMITTED, Move.SESSION_COMMITTED)
    references: Sequence[Reference]


@dataclass(frozen=True, slots=True)
class SendsRolledBack:
    """A transaction's NOT_COMMITTED messages are gone."""

    transition: ClassVar[Transition] = transition(MessageState.NOT_COMMITTED, Move.SESSION_ROLLED_BACK)
    references: Sequence[Reference]


@dataclass(frozen=True, slots=True)
class Spilled:
    """All but the first `kept` messages waiting at a gate moved to the held store: `spillable` says which may."""

    key: GateKey
    kept: int
    """0 only when the head is held back and nobody has anything of the gate in hand."""


@dataclass(frozen=True, slots=True)
class Unspilled:
    """The next messages of a gate came back from the held store, in offset order."""

    key: GateKey
    references: Sequence[Reference]


@dataclass(frozen=True, slots=True)
class Shelved:
    """Messages that each waited alone at a gate moved to the held store, and the gates are gone:
    core/channel/cold_index.py.

    `spillable` says which may.
    """

    place: Place
    offsets: Sequence[int]
    """Ascending."""


@dataclass(frozen=True, slots=True)
class Unshelved:
    """Messages came back from a place of the shelf and wait at gates again."""

    place: Place
    references: Sequence[Reference]


@dataclass(frozen=True, slots=True)
class UnitsShelved:
    """Units of which the held store has all that waits left memory with their gates: core/channel/shelved_units.py.

    `shelvable` says which may.
    """

    place: Place
    heads: Sequence[UnitHead]
    """Ascending."""


@dataclass(frozen=True, slots=True)
class UnitsUnshelved:
    """Units came back from a place of the shelf: they have gates again, and all that waited is still in the held
    store."""

    place: Place
    heads: Sequence[UnitHead]


@dataclass(frozen=True, slots=True)
class UnitNotShelved:
    """A unit that might have been shelved is not: what has come of it waits for nothing earlier."""

    unit: bytes


@dataclass(frozen=True, slots=True)
class ShelfAsked:
    """A place was looked at again for messages that nobody chose: the chosen ones came back, the others stay."""

    place: Place
    below: int | None
    """So far, by offset; None: to the end."""


@dataclass(frozen=True, slots=True)
class KeptForOperator:
    """A new owner found messages whose attempts crashes have used up; nobody gets them before an operator says so."""

    messages: Sequence[ReturnedMessage]


@dataclass(frozen=True, slots=True)
class Released:
    """An operator lets messages that were kept on hold go on: out of the channel, or to be tried anew."""

    messages: Sequence[ReturnedMessage]


@dataclass(frozen=True, slots=True)
class LetGo:
    """An operator lets messages go before their time: no delay holds them back any more (SEND-10)."""

    units: Mapping[int, bytes | None]
    """By offset the unit of each, for readers of the changelog."""


@dataclass(frozen=True, slots=True)
class OfferedRaised:
    """Offsets below `offered_position` are durably marked as possibly handed over."""

    offered_position: int


@dataclass(frozen=True, slots=True)
class LogTruncated:
    """We deleted what lies below this offset from the log; all of it was settled."""

    before: int


@dataclass(frozen=True, slots=True)
class Frozen:
    """A checkpoint has taken what was dirty: see core/channel/freeze.py."""

    checkpoint_id: str
    blocks: frozenset[int]
    held: frozenset[int]
    buckets: frozenset[int] = frozenset()
    """Buckets of the window against duplicates."""
    branches: frozenset[str] = frozenset()
    """Branches that have ended."""
    unparked: frozenset[int] = frozenset()
    """Offsets whose parked records are deleted."""


@dataclass(frozen=True, slots=True)
class FreezeDurable:
    """The checkpoint that took `frozen` is committed."""

    frozen: Frozen
    offered_position: int
    blocks_gone: frozenset[int]
    held_gone: frozenset[int]
    attempted: Mapping[int, bytes | None] = field(default_factory=dict)
    """The marks that were written of messages in hand, by block; None: deleted."""
    parked: Mapping[int, int] = field(default_factory=dict)
    """Bytes of the records that the changelog keeps from now on, by offset."""


@dataclass(frozen=True, slots=True)
class FreezeFailed:
    """The checkpoint that took `frozen` was aborted: all of it is dirty again."""

    frozen: Frozen


Change = (
    Fetched
    | Offered
    | Acknowledged
    | Returned
    | Transferred
    | PassedToBranch
    | BranchEnded
    | TakenOut
    | DepartureFailed
    | TimePassed
    | Selected
    | UndeliverableHere
    | Spilled
    | Unspilled
    | Shelved
    | Unshelved
    | UnitsShelved
    | UnitsUnshelved
    | UnitNotShelved
    | ShelfAsked
    | KeptForOperator
    | Released
    | LetGo
    | OfferedRaised
    | LogTruncated
    | Frozen
    | FreezeDurable
    | FreezeFailed
)
"""Everything that happens to a channel over Kafka."""

ContractChange = Change | AcknowledgedEarly | FoundInHand | AddedUncommitted | SendsCommitted | SendsRolledBack
"""Everything that happens to a contract channel (`jbm_kafka.local`)."""
