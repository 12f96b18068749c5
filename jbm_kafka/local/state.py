"""The messages of one channel in this process: the contract's ChannelState, over the machine that serves Kafka.

Every message is a reference in the core's state, and a record where it is reliable. What settles a message deletes its
record first, so that nothing settled comes back; what happens to it otherwise is written afterwards. Thread-safe:
managers and stores are called with the lock held, receivers and filters never.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import cast

from jbm_kafka.contract import (
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
from jbm_kafka.core.channel.states import Move, Transition, transition
from jbm_kafka.core.jms_errors import (
    CorruptRecordError,
    IllegalStateError,
    MessageFormatError,
    TransactionRolledBackError,
    UnknownMessageError,
)
from jbm_kafka.local.channel_messages import reference_to, refused
from jbm_kafka.local.contract_state import ContractChannelState, decide_delivery
from jbm_kafka.local.message_store import MemoryMessageStore, Writing, write_together

logger = logging.getLogger(__name__)
ACKNOWLEDGED_IN_PART = transition(MessageState.DELIVERED, Move.ACKNOWLEDGED_IN_PART)
EXPIRED = DEPARTS_BY[MessageFate.EXPIRED]
RETURNED_IN_PART = transition(MessageState.DELIVERED, Move.RETURNED_IN_PART)


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A persistent channel's record of a message: its whole state, always. Every version reads what 0.1.0 wrote."""

    offset: int
    """Its place among all messages the channel ever took."""
    message_id: str
    attempts: int = 0
    due_at_ms: int = 0
    delay_ms: int = 0
    reason: str = ""
    receiver_id: str | None = None
    """The receiver that has it in hand."""
    is_acknowledged: bool = False
    """That receiver acknowledged it before its delivery was recorded."""
    owing: Sequence[str] | None = None
    """The receivers that owe a topic's message; None: nobody was offered it yet."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The receivers that have to do with a message from now on; those of a queue's are one at most."""

    reference: Reference
    owing: frozenset[str] = frozenset()
    """The NACK set: they have it and have not acknowledged it."""
    early: frozenset[str] = frozenset()
    """They acknowledged it before the delivery to them was recorded."""
    is_offered: bool = False
    """All receivers that are to have it have been offered it: it leaves with its last acknowledgement."""
    lost_by: str | None = None
    """Its receiver was lost, and nobody has taken it since; or it waits for that one's acknowledgement to count."""
    transition: Transition | None = None
    """The row by which it stays DELIVERED; None: it was offered, or is NEW."""


LocalChange = c.ContractChange | Shared


class LocalChannelState:
    """The messages of one channel, each in one state, and every move between states."""

    kind = "message"
    """Before the place of a message in the keys of its records."""
    is_offered_to_all = False
    """A message goes to all receivers, and not to one."""

    def __init__(
        self,
        name: str,
        message_store: MessageStore,
        persistence_manager: PersistenceManager | None,
        transaction_manager: TransactionManager | None,
        clock_ms: Callable[[], int],
    ) -> None:
        self.name = name
        self.message_store = message_store
        self.persistence_manager = persistence_manager
        self.transaction_manager = transaction_manager
        self.clock_ms = clock_ms
        self.lock = threading.RLock()
        self.core = ContractChannelState()
        self.held: dict[str, Reference] = {}
        """Every message here, by id, in arrival order. The record of a reference is the contract's reference."""
        self.by_offset: dict[int, Reference] = {}
        self.shares: dict[int, Shared] = {}
        """Who has to do with a message, by its offset, where anybody has."""
        self.reserved: set[int] = set()
        """Offsets of messages that are just being offered."""
        self.submitted: dict[int, dict[str, str]] = {}
        """Acknowledgements in open transactions: by offset and receiver, the transaction (STATE-7)."""
        self.doomed: dict[str, str] = {}
        """Transactions that can only be rolled back, with the reason."""
        self.is_closed = False
        self.offer_committed: Callable[[], None] = lambda: None
        """Called after a commit, when no transaction is open any more and no lock is held."""
        self._unrecorded: set[int] = set()
        """Reliable messages whose body this channel has to record with its reference."""

    # -- what it is --------------------------------------------------------------------------------------------

    @property
    def is_reliable(self) -> bool:
        """Its persistence manager and its store are (STATE-11)."""
        manager = self.persistence_manager
        return manager is not None and manager.is_reliable and self.message_store.is_reliable

    @property
    def is_transactional(self) -> bool:
        """It has a transaction manager."""
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

    def session_of(self, receiver_id: str) -> SessionId:
        """The session by which the machine knows the receiver."""
        return receiver_id

    # -- the contract ------------------------------------------------------------------------------------------

    def add(self, reference: MessageReference, /) -> None:
        with self.lock:
            reason = self.refusal(reference)
            if reason is not None:
                raise refused(self.name, reference, reason)
            self._hold(reference, is_recorded=True)

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
                self._hold(reference, is_recorded=not isinstance(store, MemoryMessageStore))
            except BaseException:
                self._drop_body(reference.message_id)
                raise

    def update(self, message_id: str, receiver_id: str, positive: bool, /) -> None:
        if positive:
            self.acknowledge(message_id, receiver_id)
            return
        with self.lock:
            reference = self.find(message_id)
            transition(self._state_of(reference), Move.OFFERED)
            if not self.record_delivery(receiver_id, reference, is_last=True):
                why = "it, or an earlier one of its unit, waits or is in another hand"
                told = f"message {message_id!r} cannot be in the hand of {receiver_id!r} now: {why}"
                raise IllegalStateError(told, message_id=message_id)

    def remove(self, message_id: str, /) -> None:
        with self.lock:
            reference = self.find(message_id)
            row = transition(self._state_of(reference), Move.REMOVED)
            self.change(*leaving([reference], row, self.core.holder_of(reference.offset)))

    def state_of(self, message_id: str, /) -> MessageState | None:
        with self.lock:
            return None if message_id not in self.held else self._state_of(self.held[message_id])

    def nacks(self, message_id: str, /) -> frozenset[str]:
        with self.lock:
            return frozenset() if message_id not in self.held else self.share_of(self.held[message_id]).owing

    def transaction_of(self, message_id: str, /) -> str | None:
        with self.lock:
            return None if message_id not in self.held else self.core.uncommitted.get(self.held[message_id].offset)

    def references(self, state: MessageState | None = None) -> Sequence[MessageReference]:
        with self.lock:
            held = [r for r in self.held.values() if state is None or self._state_of(r) is state]
            store_id = self.message_store.store_id
            return [reference_to(contract_reference(r), store_id, redelivered=self.is_redelivered(r)) for r in held]

    # -- deliveries and acknowledgements -----------------------------------------------------------------------

    def share_of(self, reference: Reference) -> Shared:
        """Who has to do with the message."""
        return self.shares.get(reference.offset) or Shared(reference)

    def is_here(self, reference: Reference) -> bool:
        """Return False when it left meanwhile, or the channel was closed."""
        return not self.is_closed and reference.offset in self.by_offset

    def is_spoken_for(self, reference: Reference) -> bool:
        """It is being offered, or its early acknowledgement waits for a commit."""
        return reference.offset in self.reserved or bool(self.submitted.get(reference.offset))

    def is_submitted(self, offset: int, receiver_id: str) -> bool:
        """The receiver's acknowledgement of this message waits for its transaction."""
        return receiver_id in self.submitted.get(offset, {})

    def owed_by(self, receiver_id: str, *, all_of_them: bool = False) -> list[Reference]:
        """Return what it has, in order; without what it has acknowledged in an open transaction."""
        with self.lock:
            owed = [each for each in self.held.values() if receiver_id in self.share_of(each).owing]
            return [each for each in owed if all_of_them or not self.is_submitted(each.offset, receiver_id)]

    def lost(self, receiver_id: str) -> list[Reference]:
        """Return what came back when it was lost and nobody has taken since."""
        with self.lock:
            mine = [share.reference for share in self.shares.values() if share.lost_by == receiver_id]
            return sorted(reference for reference in mine if self.core.is_waiting(reference.offset))

    def record_delivery(
        self, receiver_id: str, reference: Reference, *, acknowledged: bool = False, is_last: bool = False
    ) -> bool:
        """The receiver was handed the message, and may have acknowledged it by the way; nobody else will be, if last.

        False when that can no longer be, because the message moved on while the receiver had it.
        """
        with self.lock:
            if reference.offset not in self.by_offset:
                return False
            session, offset, share = self.session_of(receiver_id), reference.offset, self.share_of(reference)
            is_new = self.core.is_waiting(offset)
            taken = decide_delivery(self.core, session, reference) if is_new else None
            if taken is None and self.core.holder_of(offset) != session:
                if acknowledged and is_new:
                    self.change(*self.settling(reference, [receiver_id]))
                return False
            owes = {receiver_id} - share.early
            if acknowledged and owes and not self.is_submitted(offset, receiver_id):
                transaction = self._enlisted()
                if transaction is None:
                    owes = set()
                else:
                    self.submitted.setdefault(offset, {})[receiver_id] = transaction
            share = replace(
                share,
                owing=share.owing - {receiver_id} | owes,
                early=share.early - {receiver_id},
                is_offered=share.is_offered or is_last or not self.is_offered_to_all,
                lost_by=None,
                transition=None,
            )
            self.change(*([] if taken is None else [taken]), *self.shared_so(session, share))
            return True

    def acknowledge(self, message_id: str, receiver_id: str) -> None:
        """The receiver is done with it: at once, or when the open transaction commits (STATE-7)."""
        with self.lock:
            reference = self.find(message_id)
            if self.is_submitted(reference.offset, receiver_id):
                told = f"message {message_id!r} was acknowledged in a transaction that is open"
                raise UnknownMessageError(told, message_id=message_id)
            changes = self.settling(reference, [receiver_id])
            transaction = self._enlisted()
            if transaction is None:
                self.change(*changes)
            else:
                self.submitted.setdefault(reference.offset, {})[receiver_id] = transaction

    def settling(
        self, reference: Reference, receivers: Collection[str], *, at_commit: bool = False
    ) -> list[LocalChange]:
        """The changes by which these receivers' acknowledgement of the message is effective.

        `at_commit`: it was looked at when it came, and who has settled it otherwise meanwhile is passed over.

        Raises:
            UnknownMessageError: one of them does not have it, nor could, or acknowledged it before.
            IllegalStateError: it is NOT_COMMITTED.
        """
        share, session = self.share_of(reference), self.session_of(next(iter(receivers)))
        others, holder = frozenset(receivers) - share.owing, self.core.holder_of(reference.offset)
        if holder is None:
            transition(self._state_of(reference), Move.ACKNOWLEDGED_EARLY)
        is_theirs = (holder or self.core.owner_of(reference.gate_key)) in (None, session)
        is_late = bool(others) and (share.is_offered or bool(others & share.early))
        if not is_theirs or (is_late and not at_commit):
            message_id = message_id_of(reference)
            told = f"{', '.join(others)} does not have message {message_id!r}, or acknowledged it before"
            raise UnknownMessageError(told, message_id=message_id)
        if at_commit and holder is None and not self.is_offered_to_all:  # in the one write of the commit
            early_one = c.AcknowledgedEarly(session, reference)
            return [early_one, c.Acknowledged(session, [reference.offset])]
        owing, early = share.owing.difference(receivers), share.early | others
        share = replace(share, owing=owing, early=early, transition=ACKNOWLEDGED_IN_PART)
        first = [c.AcknowledgedEarly(session, reference)] if holder is None else []
        return [*first, *self.shared_so(session, share)]

    def give_up(self, reference: Reference, receiver_id: str) -> None:
        """The receiver does not have it any more, for its time has ended; the last one's share takes it away."""
        with self.lock:
            share, offset = self.share_of(reference), reference.offset
            if receiver_id not in share.owing or not self.is_here(reference):
                return
            owing = share.owing - {receiver_id}
            if owing or not share.is_offered:
                self.change(replace(share, owing=owing, transition=RETURNED_IN_PART))
            else:
                back = c.ReturnedMessage(offset, attempts=0, due_at_ms=0, delay_ms=0, reason=RETURNED)
                self.change(c.Returned(self.session_of(receiver_id), [back]), *leaving([reference], EXPIRED))

    def expire(self, now_ms: int) -> list[str]:
        """Let go of the NEW messages whose time has ended by then, and return their ids in arrival order."""
        with self.lock:
            self.doom_expired(now_ms)
            waiting = [r for r in self.held.values() if self.core.is_waiting(r.offset) and not self.is_spoken_for(r)]
            expired = [reference for reference in waiting if is_expired(reference.expiration_ms, now_ms)]
            if expired:
                self.change(*leaving(expired, EXPIRED))
            return [message_id_of(reference) for reference in expired]

    def is_redelivered(self, reference: Reference) -> bool:
        """Return True if it was handed over before."""
        return delivery_count_of(self.core, reference.offset).redelivered

    def find(self, message_id: str) -> Reference:
        """The message's reference. Raises UnknownMessageError when it is not here."""
        reference = self.held.get(message_id)
        if reference is None:
            raise UnknownMessageError(f"channel {self.name!r} holds no message {message_id!r}", message_id=message_id)
        return reference

    @contextmanager
    def reserve(self, reference: Reference) -> Iterator[None]:
        """Within the block nobody else offers this one or lets it expire."""
        with self.lock:
            self.reserved.add(reference.offset)
        try:
            yield
        finally:
            with self.lock:
                self.reserved.discard(reference.offset)

    def _state_of(self, reference: Reference) -> MessageState:
        return cast(MessageState, self.core.state_of(reference.offset))  # for what is held, it is never None

    def shared_so(self, session: SessionId, share: Shared) -> list[LocalChange]:
        """It is shared so from now on, or leaves with its last acknowledgement."""
        is_done = share.is_offered and not share.owing
        return [c.Acknowledged(session, [share.reference.offset])] if is_done else [share]

    # -- every change of a message -----------------------------------------------------------------------------

    def change(self, *changes: LocalChange) -> None:
        """Make these changes as one. When the persistence manager raises before anything settled, nothing changed."""
        write_together([self.writing(changes)])
        self.take_effect(changes)

    def _hold(self, reference: MessageReference, *, is_recorded: bool) -> None:
        """Take a message in, NOT_COMMITTED in the open transaction, else NEW."""
        transaction, added = self._enlisted(), core_reference(self.core.end_position, reference)
        if reference.is_reliable and not is_recorded:
            self._unrecorded.add(added.offset)
        if transaction is not None:
            self.core.apply(c.AddedUncommitted(transaction, [added]))
        else:
            try:
                write_together([self.writing([], [added])])
            finally:
                self._unrecorded.discard(added.offset)
            self.core.apply(c.Fetched(added.offset, added.offset + 1, [added]))
        self.held[reference.message_id] = self.by_offset[added.offset] = added

    def writing(self, changes: Iterable[LocalChange], come: Iterable[Reference] = ()) -> Writing:
        """Return what to write before these changes; those that `come` are held for good from now on."""
        records: dict[str, bytes | None] = {}
        bodies: dict[str, int] = {}
        for reference in come:
            if contract_reference(reference).is_reliable:
                records[self._key(reference.offset)] = self.encoded(reference)
                if reference.offset in self._unrecorded:
                    bodies[message_id_of(reference)] = 1
        for share in [each for each in changes if isinstance(each, Shared) and each.is_offered]:
            if self.is_offered_to_all:  # it counts when it is written: a commit is one write, parts of a topic too
                for reference in self._recorded_of([share.reference.offset]):
                    records[self._key(reference.offset)] = self.encoded(reference, share)
        for reference in self._recorded_of(offset for each in changes for offset in _settled_by(each)):
            records[self._key(reference.offset)] = None
            bodies[message_id_of(reference)] = -1
        return Writing(self.name, self.persistence_manager, records, self.message_store, bodies)

    def take_effect(self, changes: Iterable[LocalChange], come: Iterable[Reference] = ()) -> None:
        """Make the changes for which `writing` was written, and write what they touched."""
        self._unrecorded.difference_update(reference.offset for reference in come)
        for each in changes:
            self._apply(each)
        for offset in [offset for each in changes for offset in _settled_by(each)]:
            self._forget(self.by_offset[offset])
        by = () if self.is_offered_to_all else changes
        touched = self._recorded_of(offset for each in by for offset in _touched_by(each))
        records = {self._key(reference.offset): self.encoded(reference) for reference in touched}
        if records and self.persistence_manager is not None:
            self.persistence_manager.write(self.name, records)

    def _apply(self, change: LocalChange) -> None:
        """Make one change, which is written."""
        if isinstance(change, Shared):
            assert change.transition is None or self.core.holder_of(change.reference.offset) is not None, change
            self.shares[change.reference.offset] = change
            return
        self.core.apply(change)
        if isinstance(change, c.Returned):
            for message in change.messages:
                self.shares.pop(message.offset, None)

    def _recorded_of(self, offsets: Iterable[int]) -> list[Reference]:
        """Return the messages that have a record, of those that are still here."""
        here = [self.by_offset[offset] for offset in dict.fromkeys(offsets) if offset in self.by_offset]
        return [r for r in here if contract_reference(r).is_reliable and r.offset not in self._unrecorded]

    def _forget(self, reference: Reference) -> None:
        message_id = message_id_of(reference)
        del self.held[message_id], self.by_offset[reference.offset]
        self._unrecorded.discard(reference.offset)
        self.submitted.pop(reference.offset, None)
        self.shares.pop(reference.offset, None)
        self._drop_body(message_id)

    def _drop_body(self, message_id: str) -> None:
        store = self.message_store
        with suppress(UnknownMessageError):  # the application may have removed it from the store itself
            store.release(message_id) if isinstance(store, MemoryMessageStore) else store.remove(message_id)

    # -- transactions ------------------------------------------------------------------------------------------

    def prepare_transaction(self, transaction_id: str, /) -> None:
        """Check that the transaction can commit here, with the lock held.

        Raises:
            TransactionRolledBackError: a message sent in it has expired (STATE-2), or the channel was closed.
        """
        self.doom_expired(self.clock_ms(), transaction_id)
        if transaction_id in self.doomed:
            told = f"channel {self.name!r}: {self.doomed[transaction_id]}"
            raise TransactionRolledBackError(told, transaction_id=transaction_id)

    def doom_expired(self, now_ms: int, transaction_id: str | None = None) -> None:
        """Transactions in which messages were sent that have expired can only be rolled back (STATE-2)."""
        for offset, transaction in self.core.uncommitted.items():
            reference = self.by_offset[offset]
            if transaction_id in (None, transaction) and is_expired(reference.expiration_ms, now_ms):
                self.doomed[transaction] = f"message {message_id_of(reference)!r} expired before its commit"

    def commit_transaction(self, transaction_id: str, /) -> None:
        """Make what was sent NEW and settle what was acknowledged: both or, when it raises, neither.

        Raises:
            TransactionRolledBackError: see `prepare_transaction`; this channel's part is rolled back.
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
            self.core.apply(c.SendsRolledBack(sent))
            # References to what the application stored itself: those have recorded bodies.
            bodies = {message_id_of(reference): -1 for reference in self._recorded_of(r.offset for r in sent)}
            write_together([Writing(self.name, self.persistence_manager, {}, self.message_store, bodies)])
            for reference in sent:
                self._forget(reference)
            self.owed_after_all(self.end_transaction(transaction_id))

    def owed_after_all(self, discarded: Sequence[tuple[str, Reference]]) -> None:
        """Look at the acknowledgements, with their receivers, that a rollback discarded."""

    def committing(self, transaction_id: str) -> tuple[list[LocalChange], list[Reference]]:
        """Return the changes by which the transaction is committed here, and what was sent in it."""
        sent = self._sent_in(transaction_id)
        changes: list[LocalChange] = [c.SendsCommitted(sent)]
        for offset, by in self.submitted.items():
            receivers = [receiver_id for receiver_id, transaction in by.items() if transaction == transaction_id]
            with suppress(UnknownMessageError):  # settled otherwise meanwhile
                changes += self.settling(self.by_offset[offset], receivers, at_commit=True) if receivers else []
        return changes, sent

    def _enlisted(self) -> str | None:
        """The transaction the caller is in, which from now on ends here too."""
        transaction = self.open_transaction
        if self.transaction_manager is not None and transaction is not None:
            self.transaction_manager.enlist(self)
        return transaction

    def _sent_in(self, transaction_id: str) -> list[Reference]:
        uncommitted = self.core.uncommitted.items()
        return [self.by_offset[offset] for offset, transaction in uncommitted if transaction == transaction_id]

    def end_transaction(self, transaction_id: str) -> list[tuple[str, Reference]]:
        """The acknowledgements submitted in it, of messages that are still here, by receiver; they are forgotten."""
        self.doomed.pop(transaction_id, None)
        mine = [(r, o) for o, by in self.submitted.items() for r, each in by.items() if each == transaction_id]
        for receiver_id, offset in mine:
            del self.submitted[offset][receiver_id]
        self.submitted = {offset: by for offset, by in self.submitted.items() if by}
        return [(receiver_id, self.by_offset[offset]) for receiver_id, offset in mine]

    def close(self) -> None:
        """Take nothing any more. Open transactions can only roll back; what is not recorded is let go."""
        with self.lock:
            self.is_closed = True
            submitted = [transaction for by in self.submitted.values() for transaction in by.values()]
            for transaction_id in {*self.core.uncommitted.values(), *submitted}:
                self.rollback_transaction(transaction_id)
                self.doomed[transaction_id] = "it was closed"
            for message_id, reference in list(self.held.items()):
                if self.persistence_manager is None or not contract_reference(reference).is_reliable:
                    self.remove(message_id)

    # -- records -----------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Hold again what an earlier channel of this name had recorded and its store still has.

        It is in the hands that had it, but for what was acknowledged.
        """
        records: list[tuple[MessageRecord, Reference]] = []
        store = self.message_store
        for record in self._recorded():
            try:
                message = store.retrieve(record.message_id)
            except UnknownMessageError:
                told = "%s: message %s is recorded, but store %s does not have it; it is passed over"
                logger.error(told, self.name, record.message_id, store.store_id)  # noqa: TRY400 - no trace says more
                continue
            records.append((record, core_reference(record.offset, reference_to(message, store.store_id))))
        if not records:
            return
        first, end = records[0][0].offset, records[-1][0].offset + 1
        offered = end if self.is_offered_to_all else 0  # some may have had it, and their records do not say so
        self.core.apply(c.TimePassed(self.clock_ms()))
        self.core.apply(Position(self.name, "", watermark=first, fetched=end, offered=offered, truncated=0))
        for each, reference in records:
            if each.attempts or each.due_at_ms:
                past = each.attempts, each.due_at_ms, each.delay_ms, reference.unit, each.reason
                self.core.apply(Held(each.offset, *past))
        self.core.apply(c.Fetched(first, end, [reference for _, reference in records]))
        for _, reference in records:
            self.held[message_id_of(reference)] = self.by_offset[reference.offset] = reference
        for record, reference in records:
            owing = record.owing or ([record.receiver_id] if record.receiver_id else [])
            if not owing:
                continue
            session = self.session_of(owing[0])
            self.core.apply(c.FoundInHand(session, reference))
            self.shares[record.offset] = Shared(reference, frozenset(owing), is_offered=True)
            if record.is_acknowledged:
                self.change(c.Acknowledged(session, [record.offset]))

    def encoded(self, reference: Reference, share: Shared | None = None) -> bytes:
        """The record of a message as it stands, or as it will be when it is shared so."""
        offset, past = reference.offset, self.core.redeliveries.get(reference.offset)
        share = share or self.share_of(reference)
        record: dict[str, object] = {"offset": offset, "message_id": message_id_of(reference)}
        if past is not None:
            record.update(attempts=past.attempts, due_at_ms=past.due_at_ms, delay_ms=past.delay_ms, reason=past.reason)
        for receiver_id in share.owing | share.early:
            record.update(receiver_id=receiver_id, is_acknowledged=receiver_id in share.early)
        return json.dumps(record).encode()

    def _key(self, offset: int) -> str:
        """The key of the record of the message in this place; keys sort as offsets do."""
        return f"{self.kind}|{offset:019d}"

    def _recorded(self) -> Iterator[MessageRecord]:
        """The messages of an earlier channel of this name, in arrival order.

        Raises:
            CorruptRecordError: no channel wrote one of the records.
        """
        records = {} if self.persistence_manager is None else self.persistence_manager.read(self.name)
        for key in sorted(key for key in records if key.startswith(f"{self.kind}|")):
            try:
                row = json.loads(records[key])
                if "place" in row:
                    row["offset"] = row.pop("place")  # as topics call it
                record = MessageRecord(**row)
            except (ValueError, TypeError) as fault:
                raise CorruptRecordError(f"record {key!r} is no message of a channel: {fault}") from fault
            if self._key(record.offset) != key:
                raise CorruptRecordError(f"record {key!r} holds the message at {record.offset}")
            yield record


def commit_together(channels: Sequence[LocalChannelState], transaction_id: str) -> None:
    """Commit on all of these channels by one write: on each of them or, when it raises, on none."""
    with ExitStack() as locks:
        for channel in sorted(channels, key=id):  # so that two commits cannot wait for each other
            locks.enter_context(channel.lock)
        for channel in channels:
            channel.prepare_transaction(transaction_id)
        parts = [(channel, *channel.committing(transaction_id)) for channel in channels]
        write_together([channel.writing(changes, sent) for channel, changes, sent in parts])
        for channel, changes, sent in parts:
            channel.take_effect(changes, sent)
            channel.end_transaction(transaction_id)


def core_reference(offset: int, reference: MessageReference) -> Reference:
    """The core's reference to a message that takes this place."""
    unit = reference.unit_of_order
    return Reference(
        offset, unit.encode() if unit else None, reference.priority, reference.expiration_ms, record=reference
    )


def contract_reference(reference: Reference) -> MessageReference:
    """The contract's reference that a channel of ours put into the core's."""
    return cast(MessageReference, reference.record)


def message_id_of(reference: Reference) -> str:
    """The message's id."""
    return contract_reference(reference).message_id


def leaving(references: Sequence[Reference], row: Transition, holder: SessionId | None = None) -> list[LocalChange]:
    """Return the changes by which messages leave from where they wait, or from their holder's hand."""
    gone = c.Acknowledged(holder or DEPARTING, [reference.offset for reference in references], transition=row)
    return [c.TakenOut(references), gone] if holder is None else [gone]


def _settled_by(change: LocalChange) -> Sequence[int]:
    return change.offsets if isinstance(change, c.Acknowledged) else []


def _touched_by(change: LocalChange) -> Sequence[int]:
    """Messages of which more than their place in memory changes, but which stay."""
    match change:
        case c.Returned(messages=messages):
            return [message.offset for message in messages]
        case Shared(is_offered=True) | c.AcknowledgedEarly():
            return [change.reference.offset]
        case _:
            return []
