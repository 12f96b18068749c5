"""The messages of one channel in this process: the contract's ChannelState, over the machine that serves Kafka.

Every message is a reference in the core's state and, where it is reliable, a record. What settles a message deletes its
record first, so that nothing settled comes back; a delivery is made first and written afterwards, for the receiver has
the message whatever becomes of the record. Thread-safe: managers and stores are called with the lock held, receivers
and filters never.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final, cast

from jbm_kafka.contract import (
    ChannelState,
    CoreMessage,
    MessageReference,
    MessageState,
    MessageStore,
    PersistenceManager,
    Routable,
    TransactionManager,
)
from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.delivery_count import delivery_count_of
from jbm_kafka.core.channel.departure import DEPARTS_BY
from jbm_kafka.core.channel.entries import Held, MessageFate, Position
from jbm_kafka.core.channel.redelivery import is_expired
from jbm_kafka.core.channel.redelivery_states import RETURNED
from jbm_kafka.core.channel.reference import DEPARTING, Reference, SessionId
from jbm_kafka.core.channel.settlement import Modified, decide_return
from jbm_kafka.core.channel.states import Move, Transition, transition
from jbm_kafka.core.jms_errors import (
    CorruptRecordError,
    IllegalStateError,
    MessageFormatError,
    TransactionRolledBackError,
    UnknownMessageError,
)
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.local.channel_messages import reference_to, refused
from jbm_kafka.local.contract_state import ContractChannelState, decide_delivery
from jbm_kafka.local.message_store import MemoryMessageStore, Writing, write_together

logger = logging.getLogger(__name__)
FOR_EVER: Final = ResolvedSettings(max_delivery_attempts=-1, redelivery_delay_ms=0)
"""The specification gives nothing up: a message comes back at once, as often as it is asked for."""
EVERYBODY: Final[SessionId] = "<everybody>"
"""The receivers of a topic, which are one to the machine: over Kafka a message has one hand at a time (STATE-4)."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """The receivers that have to do with a message; those of a queue's are one at most."""

    owing: frozenset[str] = frozenset()
    """The NACK set: they have it and have not acknowledged it."""
    early: frozenset[str] = frozenset()
    """They acknowledged it before the delivery to them was recorded."""
    is_offered: bool = False
    """All receivers that are to have it have been offered it: it leaves with its last acknowledgement."""
    lost_by: str | None = None
    """Its receiver was lost, and nobody has taken it since; or it waits for that one's acknowledgement to count."""


@dataclass(slots=True, eq=False)
class Holding:
    """One message of a channel. Only `LocalChannelState` changes it, with its lock held."""

    reference: Reference
    """The core's, whose record is the contract's."""
    has_body: bool = False
    """The store has recorded the body for this channel."""
    share: Sharing = Sharing()
    record: bytes | None = None
    """The record that the persistence manager has of it."""
    is_reserved: bool = False
    """It is just being offered."""
    submitted: set[str] = field(default_factory=set)
    """The receivers that acknowledged it in an open transaction (STATE-7)."""

    @property
    def offset(self) -> int:
        """Its place among all messages the channel ever took."""
        return self.reference.offset

    @property
    def stored(self) -> MessageReference:
        """The contract's reference."""
        return cast(MessageReference, self.reference.record)

    @property
    def message_id(self) -> str:
        """The message's id."""
        return self.stored.message_id


Sharings = Mapping[Holding, Sharing | None]
"""How messages are shared from now on; None: they leave."""
Plan = tuple[Sequence[c.ContractChange], Sharings]
"""What the machine is to make, and how messages are shared then."""


class LocalChannelState(ChannelState):
    """The messages of one channel, each in one state, and every move between states."""

    def __init__(
        self,
        name: str,
        message_store: MessageStore,
        persistence_manager: PersistenceManager | None,
        transaction_manager: TransactionManager | None,
        clock_ms: Callable[[], int],
        is_topic: bool,
    ) -> None:
        self.name = name
        self.message_store = message_store
        self.persistence_manager = persistence_manager
        self.transaction_manager = transaction_manager
        self.clock_ms = clock_ms
        self.is_topic = is_topic
        """A message goes to all receivers, and not to one."""
        self.lock = threading.RLock()
        self.core = ContractChannelState()
        self.held: dict[str, Holding] = {}
        """Every message here, by id, in arrival order."""
        self.by_offset: dict[int, Holding] = {}
        self.submitted: dict[str, list[tuple[Holding, str]]] = {}
        """The acknowledgements in open transactions, by transaction, each with its receiver."""
        self.doomed: dict[str, str] = {}
        """Transactions that can only be rolled back, with the reason."""
        self.is_closed = False
        self.offer_committed: Callable[[], None] = lambda: None
        """Called after a commit, when no transaction is open any more and no lock is held."""

    # -- what it is --------------------------------------------------------------------------------------------

    @property
    def is_reliable(self) -> bool:
        manager = self.persistence_manager
        return manager is not None and manager.is_reliable and self.message_store.is_reliable

    @property
    def is_transactional(self) -> bool:
        return self.transaction_manager is not None

    @property
    def open_transaction(self) -> str | None:
        """The transaction the caller is in."""
        return None if self.transaction_manager is None else self.transaction_manager.current

    def refusal(self, routable: Routable) -> str | None:
        """Why this message cannot be held here now; None when it can."""
        if routable.message_id in self.held:
            return "a message of this id is here already"
        if routable.is_reliable and not self.is_reliable:
            return "it is reliable and the channel is not; give channel and store a reliable persistence manager"
        return None

    # -- the contract ------------------------------------------------------------------------------------------

    def add(self, reference: MessageReference, /) -> None:
        with self.lock:
            reason = self.refusal(reference)
            if reason is not None:
                raise refused(self.name, reference, reason)
            self._hold(reference, has_body=True)

    def take(self, message: CoreMessage) -> None:
        """Store the body, and hold the message; the caller has seen that it may be held.

        Raises:
            RoutableNotAcceptedError: it is reliable and cannot be written.
        """
        store = self.message_store
        with self.lock:
            try:
                reference = store.hold(message) if isinstance(store, MemoryMessageStore) else store.store(message)
            except MessageFormatError as error:
                raise refused(self.name, message, str(error)) from error
            try:
                self._hold(reference, has_body=not isinstance(store, MemoryMessageStore))
            except BaseException:
                self._drop_body(reference.message_id)
                raise

    def update(self, message_id: str, receiver_id: str, positive: bool, /) -> None:
        if positive:
            self.acknowledge(message_id, receiver_id)
            return
        with self.lock:
            holding = self.find(message_id)
            transition(self._state_of(holding), Move.OFFERED)
            if not self.record_delivery(receiver_id, holding, is_last=True):
                why = "it, or an earlier one of its unit, waits or is in another hand"
                told = f"message {message_id!r} cannot be in the hand of {receiver_id!r} now: {why}"
                raise IllegalStateError(told, message_id=message_id)

    def remove(self, message_id: str, /) -> None:
        with self.lock:
            holding = self.find(message_id)
            row = transition(self._state_of(holding), Move.REMOVED)
            self.change(*leaving([holding], row, self.core.holder_of(holding.offset)))

    def state_of(self, message_id: str, /) -> MessageState | None:
        with self.lock:
            return None if message_id not in self.held else self._state_of(self.held[message_id])

    def nacks(self, message_id: str, /) -> frozenset[str]:
        with self.lock:
            return frozenset() if message_id not in self.held else self.held[message_id].share.owing

    def transaction_of(self, message_id: str, /) -> str | None:
        with self.lock:
            return None if message_id not in self.held else self.core.uncommitted.get(self.held[message_id].offset)

    def references(self, state: MessageState | None = None) -> Sequence[MessageReference]:
        store_id = self.message_store.store_id
        return [
            reference_to(holding.stored, store_id, redelivered=self.is_redelivered(holding))
            for holding in self.in_state(*MessageState if state is None else [state])
        ]

    def in_state(self, *states: MessageState) -> list[Holding]:
        """Return those it holds in one of these states, in arrival order."""
        with self.lock:
            return [holding for holding in self.held.values() if self._state_of(holding) in states]

    # -- deliveries and acknowledgements -----------------------------------------------------------------------

    def is_here(self, holding: Holding) -> bool:
        """Return False when it left meanwhile, or the channel was closed."""
        return not self.is_closed and holding.offset in self.by_offset

    def is_spoken_for(self, holding: Holding) -> bool:
        """It is being offered; or, of a queue, its early acknowledgement waits for a commit."""
        return holding.is_reserved or (bool(holding.submitted) and not self.is_topic)

    def owed_by(self, receiver_id: str) -> list[Holding]:
        """Return what it has, in order; also what it has acknowledged in an open transaction."""
        with self.lock:
            return [holding for holding in self.held.values() if receiver_id in holding.share.owing]

    def lost(self, receiver_id: str) -> list[Holding]:
        """Return what came back when it was lost and nobody has taken since."""
        with self.lock:
            mine = [holding for holding in self.held.values() if holding.share.lost_by == receiver_id]
            return [holding for holding in mine if self.core.is_waiting(holding.offset)]

    def record_delivery(
        self, receiver_id: str, holding: Holding, *, acknowledged: bool = False, is_last: bool = False
    ) -> bool:
        """The receiver was handed the message, and may have acknowledged it by the way; nobody else will be, if last.

        False when that can no longer be, because the message moved on while the receiver had it.
        """
        with self.lock:
            if holding.offset not in self.by_offset:
                return False
            session, share = self._session_of(receiver_id), holding.share
            is_new = self.core.is_waiting(holding.offset)
            taken = decide_delivery(self.core, session, holding.reference) if is_new else None
            if taken is None and self.core.holder_of(holding.offset) != session:
                if acknowledged and is_new:
                    self.change(*self._settling(holding, {receiver_id}))
                return False
            owes = {receiver_id} - share.early
            if (
                acknowledged
                and owes
                and receiver_id not in holding.submitted
                and not self._submit(holding, receiver_id)
            ):
                owes = set()
            share = Sharing(
                owing=share.owing - {receiver_id} | owes,
                early=share.early - {receiver_id},
                is_offered=share.is_offered or is_last or not self.is_topic,
            )
            changes, shares = self._shared(holding, share, session)
            self.change([*([] if taken is None else [taken]), *changes], shares, is_made=bool(owes))
            return True

    def acknowledge(self, message_id: str, receiver_id: str) -> None:
        """The receiver is done with it: at once, or when the open transaction commits (STATE-7)."""
        with self.lock:
            holding = self.find(message_id)
            if receiver_id in holding.submitted:
                told = f"message {message_id!r} was acknowledged in a transaction that is open"
                raise UnknownMessageError(told, message_id=message_id)
            plan = self._settling(holding, {receiver_id})
            if not self._submit(holding, receiver_id):
                self.change(*plan)

    def _settling(self, holding: Holding, receivers: set[str], *, at_commit: bool = False) -> Plan:
        """Plan that these receivers' acknowledgement of the message is effective.

        `at_commit`: it was looked at when it came, and who has settled it otherwise meanwhile is passed over.

        Raises:
            UnknownMessageError: one of them does not have it, nor could, or acknowledged it before.
            IllegalStateError: it is NOT_COMMITTED.
        """
        share, session = holding.share, self._session_of(next(iter(receivers)))
        others, holder = receivers - share.owing, self.core.holder_of(holding.offset)
        is_early = holder is None
        if at_commit and is_early and not self.is_topic:  # whoever has got what is before it in its unit meanwhile
            return leaving([holding], transition(self._state_of(holding), Move.REMOVED))
        transition(self._state_of(holding), Move.ACKNOWLEDGED_EARLY if is_early else Move.ACKNOWLEDGED_IN_PART)
        is_theirs = (holder or self.core.owner_of(holding.reference.gate_key)) in (None, session)
        is_late = bool(others) and (share.is_offered or bool(others & share.early))
        if not is_theirs or (is_late and not at_commit):
            told = f"{', '.join(others)} does not have message {holding.message_id!r}, or acknowledged it before"
            raise UnknownMessageError(told, message_id=holding.message_id)
        share = replace(share, owing=share.owing - receivers, early=share.early | others)
        changes, shares = self._shared(holding, share, session)
        return [*([c.AcknowledgedEarly(session, holding.reference)] if is_early else []), *changes], shares

    def _shared(self, holding: Holding, share: Sharing, session: SessionId) -> Plan:
        """Plan that the message is shared so from now on, or leaves with its last acknowledgement."""
        is_done = share.is_offered and not share.owing
        return ([c.Acknowledged(session, [holding.offset])], {holding: None}) if is_done else ([], {holding: share})

    def finish(self, holding: Holding) -> None:
        """Everybody was offered it: it stays while somebody owes it; what nobody took is discarded (STATE-8)."""
        with self.lock:
            if not self.is_here(holding):
                return
            holding.share = replace(holding.share, is_offered=True)  # so `finish_again` does what cannot be written now
            holder = self.core.holder_of(holding.offset)
            if holder is None:
                self.change(*leaving([holding], transition(MessageState.NEW, Move.DISCARDED)))
            else:
                self.change(*self._shared(holding, holding.share, holder))

    def finish_again(self) -> None:
        """Have those leave that nobody owes: they were acknowledged early, or could not be recorded before."""
        with self.lock:
            for holding in list(self.held.values()):
                share = holding.share
                is_over = share.is_offered or (bool(share.early) and not self.is_topic)
                if is_over and not share.owing and not holding.is_reserved:
                    self.finish(holding)

    def lose(self, receiver_id: str, among: Sequence[Holding] | None = None) -> None:
        """The receiver is gone: what it has in hand comes back at once (STATE-5), but for acknowledgements in doubt.

        `among`: of these, for since it may be there again, and have others.
        """
        with self.lock:
            self.finish_again()
            had = [holding for holding in self.owed_by(receiver_id) if among is None or holding in among]
            owed, now_ms = [holding for holding in had if receiver_id not in holding.submitted], self.clock_ms()
            decision = decide_return(
                self.core,
                receiver_id,
                [Modified(holding.offset, counted=True) for holding in owed],
                settings=FOR_EVER,
                now_ms=now_ms,
                chance=0.0,
                keep={each.offset for each in self.held.values() if each.submitted or each.is_reserved},
            )
            back = [self.by_offset[message.offset] for _, message in decision.returned]
            self.change(decision.changes, dict.fromkeys(back, Sharing()), is_made=True)
            for holding in had:
                holding.share = replace(holding.share, lost_by=receiver_id)
            if any(is_expired(holding.reference.expiration_ms, now_ms) for holding in owed):
                self.expire(now_ms)  # STATE-4: in hand it could not

    def give_up(self, holding: Holding, receiver_id: str) -> None:
        """The receiver does not have it any more, for its time has ended; the last one's share takes it away."""
        with self.lock:
            share = replace(holding.share, owing=holding.share.owing - {receiver_id})
            if receiver_id not in holding.share.owing or not self.is_here(holding):
                return
            if share.owing or not share.is_offered:
                transition(self._state_of(holding), Move.RETURNED_IN_PART)
                self.change([], {holding: share})
                return
            back = c.ReturnedMessage(holding.offset, attempts=0, due_at_ms=0, delay_ms=0, reason=RETURNED)
            changes, shares = leaving([holding], DEPARTS_BY[MessageFate.EXPIRED])
            self.change([c.Returned(self._session_of(receiver_id), [back]), *changes], shares)

    def expire(self, now_ms: int) -> list[str]:
        """Let go of the NEW messages whose time has ended by then, and return their ids in arrival order."""
        with self.lock:
            self._doom_expired(now_ms)
            ended = [each for each in self.held.values() if is_expired(each.reference.expiration_ms, now_ms)]
            gone = [each for each in ended if self.core.is_waiting(each.offset) and not self.is_spoken_for(each)]
            if gone:
                self.change(*leaving(gone, DEPARTS_BY[MessageFate.EXPIRED]))
            return [holding.message_id for holding in gone]

    def is_redelivered(self, holding: Holding) -> bool:
        """Return True if it was handed over before."""
        return delivery_count_of(self.core, holding.offset).redelivered

    def find(self, message_id: str) -> Holding:
        """The message. Raises UnknownMessageError when it is not here."""
        holding = self.held.get(message_id)
        if holding is None:
            raise UnknownMessageError(f"channel {self.name!r} holds no message {message_id!r}", message_id=message_id)
        return holding

    @contextmanager
    def reserve(self, holding: Holding) -> Iterator[None]:
        """Within the block nobody else offers this one or lets it expire."""
        holding.is_reserved = True
        try:
            yield
        finally:
            holding.is_reserved = False

    def _state_of(self, holding: Holding) -> MessageState:
        return cast(MessageState, self.core.state_of(holding.offset))  # for what is held, it is never None

    def _session_of(self, receiver_id: str) -> SessionId:
        return EVERYBODY if self.is_topic else receiver_id

    # -- every change of a message -----------------------------------------------------------------------------

    def change(self, changes: Iterable[c.ContractChange], shares: Sharings, *, is_made: bool = False) -> None:
        """Make these changes as one. When they cannot be written nothing has changed, unless they are made anyway."""
        if is_made:
            self.make(changes, shares)
        write_together([self.writing(shares)])
        self.written(shares)
        if not is_made:
            self.make(changes, shares)

    def writing(self, shares: Sharings) -> Writing:
        """Return what to write for messages to be shared so."""
        records: dict[str, bytes | None] = {}
        bodies: dict[str, int] = {}
        for holding, share in shares.items():
            record = self._record_of(holding, share)
            if record != holding.record:
                records[self._key(holding.offset)] = record
            bodies[holding.message_id] = (record is not None) - holding.has_body
        return Writing(self.name, self.persistence_manager, records, self.message_store, bodies)

    def written(self, shares: Sharings) -> None:
        """Note that it was."""
        for holding, share in shares.items():
            holding.record = self._record_of(holding, share)
            holding.has_body = holding.record is not None

    def make(self, changes: Iterable[c.ContractChange], shares: Sharings) -> None:
        """Make the changes, and hold messages so."""
        for change in changes:
            self.core.apply(change)
        for holding, share in shares.items():
            if share is not None:
                holding.share = share
                self.held[holding.message_id] = self.by_offset[holding.offset] = holding
            else:
                del self.held[holding.message_id], self.by_offset[holding.offset]
                self._drop_body(holding.message_id)

    def _hold(self, reference: MessageReference, *, has_body: bool) -> None:
        """Take a message in, NOT_COMMITTED in the open transaction, else NEW."""
        transaction, added = self._enlisted(), core_reference(self.core.end_position, reference)
        shares = {Holding(added, has_body=has_body and reference.is_reliable): Sharing()}
        if transaction is not None:
            self.make([c.AddedUncommitted(transaction, [added])], shares)
        else:
            self.change([c.Fetched(added.offset, added.offset + 1, [added])], shares)

    def _drop_body(self, message_id: str) -> None:
        store = self.message_store
        with suppress(UnknownMessageError):  # the application may have removed it from the store itself
            store.release(message_id) if isinstance(store, MemoryMessageStore) else store.remove(message_id)

    # -- transactions ------------------------------------------------------------------------------------------

    def commit_transaction(self, transaction_id: str, /) -> None:
        """Make what was sent NEW and settle what was acknowledged: both or, when it raises, neither.

        Raises:
            TransactionRolledBackError: a message sent in it has expired (STATE-2), or the channel was closed; this
                channel's part is rolled back.
        """
        with self.lock:
            try:
                commit_together([self], transaction_id)
            except TransactionRolledBackError:
                self.rollback_transaction(transaction_id)
                raise
        self.offer_committed()

    def rollback_transaction(self, transaction_id: str, /) -> None:
        """Drop what was sent, and owe again what was acknowledged."""
        with self.lock:
            sent = self._sent_in(transaction_id)
            rolled_back = c.SendsRolledBack([holding.reference for holding in sent])
            self.change([rolled_back], dict.fromkeys(sent))
            lost: dict[str, list[Holding]] = {}  # those who acknowledged, and were lost before this (STATE-5, STATE-7)
            for holding, receiver_id in self.end_transaction(transaction_id):
                if self.is_here(holding) and holding.share.lost_by == receiver_id:
                    lost.setdefault(receiver_id, []).append(holding)
            for receiver_id, holdings in lost.items():
                self.lose(receiver_id, holdings)

    def committing(self, transaction_id: str) -> Plan:
        """Plan the commit, with the lock held.

        Raises:
            TransactionRolledBackError: a message sent in it has expired (STATE-2), or the channel was closed.
        """
        self._doom_expired(self.clock_ms(), transaction_id)
        if transaction_id in self.doomed:
            told = f"channel {self.name!r}: {self.doomed[transaction_id]}"
            raise TransactionRolledBackError(told, transaction_id=transaction_id)
        sent, by = self._sent_in(transaction_id), dict[Holding, set[str]]()
        changes: list[c.ContractChange] = [c.SendsCommitted([holding.reference for holding in sent])]
        shares: dict[Holding, Sharing | None] = {holding: holding.share for holding in sent}
        for holding, receiver_id in self.submitted.get(transaction_id, []):
            if holding.offset in self.by_offset:
                by.setdefault(holding, set()).add(receiver_id)
        for holding, receivers in by.items():
            with suppress(UnknownMessageError):  # settled otherwise meanwhile
                more, settled = self._settling(holding, receivers, at_commit=True)
                changes += more
                shares |= settled
        return changes, shares

    def end_transaction(self, transaction_id: str) -> list[tuple[Holding, str]]:
        """Forget the acknowledgements submitted in it, and return them."""
        self.doomed.pop(transaction_id, None)
        submitted = self.submitted.pop(transaction_id, [])
        for holding, receiver_id in submitted:
            holding.submitted.discard(receiver_id)
        return submitted

    def close(self) -> None:
        """Take nothing any more. Open transactions can only roll back; what is not recorded is let go."""
        with self.lock:
            self.is_closed = True
            for transaction_id in {*self.core.uncommitted.values(), *self.submitted}:
                self.rollback_transaction(transaction_id)
                self.doomed[transaction_id] = "it was closed"
            for holding in list(self.held.values()):
                if self.persistence_manager is None or not holding.stored.is_reliable:
                    self.remove(holding.message_id)

    def _submit(self, holding: Holding, receiver_id: str) -> bool:
        """The receiver acknowledges in the open transaction; False when none is open."""
        transaction = self._enlisted()
        if transaction is not None:
            holding.submitted.add(receiver_id)
            self.submitted.setdefault(transaction, []).append((holding, receiver_id))
        return transaction is not None

    def _doom_expired(self, now_ms: int, transaction_id: str | None = None) -> None:
        """Transactions in which messages were sent that have expired can only be rolled back (STATE-2)."""
        for offset, transaction in self.core.uncommitted.items():
            holding = self.by_offset[offset]
            if transaction_id in (None, transaction) and is_expired(holding.reference.expiration_ms, now_ms):
                self.doomed[transaction] = f"message {holding.message_id!r} expired before its commit"

    def _enlisted(self) -> str | None:
        """The transaction the caller is in, which from now on ends here too."""
        transaction = self.open_transaction
        if self.transaction_manager is not None and transaction is not None:
            self.transaction_manager.enlist(self)
        return transaction

    def _sent_in(self, transaction_id: str) -> list[Holding]:
        uncommitted = self.core.uncommitted.items()
        return [self.by_offset[offset] for offset, transaction in uncommitted if transaction == transaction_id]

    # -- records -----------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Hold again what an earlier channel of this name had recorded and its store still has.

        What receivers of a topic owe they owe again. The receivers of a queue are lost: what they had comes back, and
        so two of them may be named for one unit, where the loss of the first could not be written.
        """
        found = list(self._recorded())
        if not found:
            return
        first, end = found[0][0].offset, found[-1][0].offset + 1
        offered = end if self.is_topic else 0  # some may have had it, and their records do not say so
        self.core.apply(c.TimePassed(self.clock_ms()))
        self.core.apply(Position(self.name, "", watermark=first, fetched=end, offered=offered, truncated=0))
        owing = {holding: _owing(row) for holding, row in found}
        for holding, row in found:
            attempts = cast(int, row.get("attempts", 0)) + bool(owing[holding] and not self.is_topic)
            if attempts:
                self.core.apply(Held(holding.offset, attempts, 0, 0, holding.reference.unit, RETURNED))
        references = [holding.reference for holding in owing]
        self.make([c.Fetched(first, end, references)], dict.fromkeys(owing, Sharing()))
        had = [holding for holding in owing if owing[holding]]
        if self.is_topic:
            owed = {holding: Sharing(frozenset(owing[holding]), is_offered=True) for holding in had}
            self.make([c.FoundInHand(EVERYBODY, holding.reference) for holding in had], owed)
            return
        self.change([], {holding: Sharing(lost_by=owing[holding][0]) for holding in had}, is_made=True)
        for holding in [holding for holding, row in found if row.get("is_acknowledged")]:
            self.remove(holding.message_id)
        now_ms = self.clock_ms()
        if any(is_expired(holding.reference.expiration_ms, now_ms) for holding in had):
            self.expire(now_ms)  # STATE-4: in hand it could not

    def _record_of(self, holding: Holding, share: Sharing | None) -> bytes | None:
        """Return the record of a message that is shared so. Every version reads what 0.2.0 wrote.

        None where there is none: it is not reliable, or leaves; or it is acknowledged early, and no crash may bring it
        back.
        """
        is_over = share is None or (bool(share.early) and not self.is_topic)
        if share is None or is_over or not holding.stored.is_reliable:
            return None
        past = self.core.redeliveries.get(holding.offset)
        row = {
            "offset": holding.offset,
            "message_id": holding.message_id,
            "attempts": 0 if past is None else past.attempts,
            "owing": sorted(share.owing) if share.is_offered else None,
        }
        return json.dumps(row).encode()

    def _key(self, offset: int) -> str:
        """The key of the record of the message in this place; keys sort as offsets do."""
        return f"{'topic' if self.is_topic else 'message'}|{offset:019d}"

    def _recorded(self) -> Iterator[tuple[Holding, dict[str, object]]]:
        """The messages of an earlier channel of this name, in arrival order, with their records.

        Raises:
            CorruptRecordError: no channel wrote one of the records.
        """
        records = {} if self.persistence_manager is None else self.persistence_manager.read(self.name)
        store, kind = self.message_store, self._key(0).partition("|")[0]
        for key in sorted(key for key in records if key.startswith(f"{kind}|")):
            try:
                row = json.loads(records[key])
                offset, message_id = int(row.get("offset", row.get("place"))), str(row["message_id"])
            except (ValueError, TypeError, KeyError, AttributeError) as fault:
                raise CorruptRecordError(f"record {key!r} is no message of a channel: {fault}") from fault
            if self._key(offset) != key:
                raise CorruptRecordError(f"record {key!r} holds the message at {offset}")
            try:
                reference = core_reference(offset, reference_to(store.retrieve(message_id), store.store_id))
            except UnknownMessageError:
                told = "%s: message %s is recorded, but store %s does not have it; it is passed over"
                logger.error(told, self.name, message_id, store.store_id)  # noqa: TRY400 - no trace says more
                continue
            yield Holding(reference, has_body=True, record=records[key]), row


def _owing(row: Mapping[str, object]) -> list[str]:
    """Return the receivers that a record names; 0.2.0 wrote one, and those of topics as today."""
    return cast(list[str], row.get("owing") or ([row["receiver_id"]] if row.get("receiver_id") else []))


def commit_together(channels: Sequence[LocalChannelState], transaction_id: str) -> None:
    """Commit on all of these channels by one write: on each of them or, when it raises, on none."""
    with ExitStack() as locks:
        for channel in sorted(channels, key=id):  # so that two commits cannot wait for each other
            locks.enter_context(channel.lock)
        plans = [(channel, *channel.committing(transaction_id)) for channel in channels]
        write_together([channel.writing(shares) for channel, _, shares in plans])
        for channel, changes, shares in plans:
            channel.written(shares)
            channel.make(changes, shares)
            channel.end_transaction(transaction_id)


def core_reference(offset: int, reference: MessageReference) -> Reference:
    """The core's reference to a message that takes this place."""
    unit = reference.unit_of_order
    return Reference(
        offset, unit.encode() if unit else None, reference.priority, reference.expiration_ms, record=reference
    )


def leaving(holdings: Sequence[Holding], row: Transition, holder: SessionId | None = None) -> Plan:
    """Plan that messages leave from where they wait, or from their holder's hand."""
    gone = c.Acknowledged(holder or DEPARTING, [holding.offset for holding in holdings], transition=row)
    out = [c.TakenOut([holding.reference for holding in holdings])] if holder is None else []
    return [*out, gone], dict.fromkeys(holdings)
