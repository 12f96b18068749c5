"""What a topic channel knows of its messages: the contract's ChannelState, with NACK sets of several receivers.

Every move is a row of the table of states, and `_move` alone makes them. Thread-safe. Managers and stores are called
with the lock held, receivers and filters never.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from jbm_kafka.contract import (
    CoreMessage,
    MessageReference,
    MessageState,
    MessageStore,
    PersistenceManager,
    Routable,
    TransactionManager,
)
from jbm_kafka.core.jms_errors import TransactionRolledBackError, UnknownMessageError
from jbm_kafka.core.redelivery import is_expired
from jbm_kafka.core.states import Move, transition
from jbm_kafka.local.channel_messages import StoredReference, reference_to, refused
from jbm_kafka.local.recording import Writing, drop_body, keep_body, write_together
from jbm_kafka.local.topic_records import HeldByTopic, decode_topic_records, in_offering_order, records_and_bodies
from jbm_kafka.local.transactions import after_commit, manager_here

logger = logging.getLogger(__name__)


class TopicState:
    """The messages of one topic channel, each in one state."""

    def __init__(
        self,
        name: str,
        *,
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
        self.is_closed = False
        self.held: dict[str, HeldByTopic] = {}
        """Every message here by id, in arrival order."""
        self.submitted: dict[tuple[str, str], str] = {}
        """Acknowledgements by message and receiver, with the open transaction they are part of (STATE-7)."""
        self.doomed: dict[str, str] = {}
        """Transactions that can only be rolled back, with the reason."""
        self.offer_committed: Callable[[], None] = lambda: None
        """Called after a commit, when no transaction is open any more and no lock is held."""
        self._next_place = 0

    def __repr__(self) -> str:
        return f"<TopicState of {self.name!r}: {len(self.held)} messages>"

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
        manager = manager_here(self.transaction_manager)
        return None if manager is None else manager.current

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
            self._hold(reference, has_body_record=reference.is_reliable)

    def update(self, message_id: str, receiver_id: str, positive: bool, /) -> None:
        if positive:
            self.acknowledge(message_id, receiver_id)
            return
        with self.lock:
            held = self.find(message_id)
            self._move(held, Move.OFFERED)
            held.is_offered = True
            self.delivered(held, receiver_id)
            self.finish(held)

    def remove(self, message_id: str, /) -> None:
        with self.lock:
            self._leave(self.find(message_id), Move.REMOVED)

    def state_of(self, message_id: str, /) -> MessageState | None:
        with self.lock:
            held = self.held.get(message_id)
            return None if held is None else held.state

    def nacks(self, message_id: str, /) -> frozenset[str]:
        with self.lock:
            held = self.held.get(message_id)
            return frozenset() if held is None else frozenset(held.owing)

    def transaction_of(self, message_id: str, /) -> str | None:
        with self.lock:
            held = self.held.get(message_id)
            return None if held is None else held.transaction

    def references(self, state: MessageState | None = None) -> Sequence[MessageReference]:
        with self.lock:
            return [_marked(held) for held in self.held.values() if state in (None, held.state)]

    # -- messages come and go ----------------------------------------------------------------------------------

    def take(self, message: CoreMessage) -> None:
        """Store the body, and hold the message; the caller has seen that it may be held."""
        with self.lock:
            reference, has_record = keep_body(self.message_store, message)
            try:
                self._hold(reference, has_body_record=has_record)
            except BaseException:
                drop_body(self.message_store, reference.message_id)
                raise

    def find(self, message_id: str) -> HeldByTopic:
        """The message.

        Raises:
            UnknownMessageError: it is not here.
        """
        held = self.held.get(message_id)
        if held is None:
            raise UnknownMessageError(f"channel {self.name!r} holds no message {message_id!r}", message_id=message_id)
        return held

    def to_offer(self) -> Iterator[HeldByTopic]:
        """What nobody was offered yet, the best first; not what waits behind an uncommitted one of its unit."""
        with self.lock:
            messages = list(self.held.values())
        return in_offering_order(messages)

    def delivered(self, held: HeldByTopic, receiver_id: str) -> None:
        """The receiver has it; an acknowledgement that came before cancels what it owes (STATE-6)."""
        if receiver_id in held.early:
            held.early.discard(receiver_id)
        else:
            held.owing.add(receiver_id)

    def offered(self, held: HeldByTopic, receiver_id: str, *, acknowledged: bool) -> None:
        """One of the receivers took it; with the acknowledgement or without."""
        with self.lock:
            if not self._is_here(held):
                return
            self._move(held, Move.OFFERED)
            self.delivered(held, receiver_id)
            if acknowledged and receiver_id in held.owing:
                self.acknowledge(held.message_id, receiver_id)

    def finish(self, held: HeldByTopic) -> None:
        """Everybody was offered it: it stays while somebody owes it; what nobody took is discarded (STATE-8)."""
        with self.lock:
            if not self._is_here(held):
                return
            held.is_offered = True
            if held.owing:
                self._write(held)
            else:
                self._leave(held, Move.DISCARDED if held.state is MessageState.NEW else Move.ACKNOWLEDGED)

    def finish_again(self) -> None:
        """Have those leave that everybody was offered and nobody owes, when that could not be recorded before."""
        with self.lock:
            for held in [each for each in self.held.values() if each.is_offered and not each.owing]:
                self.finish(held)

    def acknowledge(self, message_id: str, receiver_id: str) -> None:
        """The receiver is done with it: at once, or when the open transaction commits (STATE-7)."""
        with self.lock:
            held = self.find(message_id)
            if (message_id, receiver_id) in self.submitted or receiver_id in held.early:
                raise UnknownMessageError(
                    f"message {message_id!r} was acknowledged by {receiver_id!r} already", message_id=message_id
                )
            if held.transaction is not None:
                transition(held.state, Move.ACKNOWLEDGED_EARLY)
            if held.is_offered and receiver_id not in held.owing:
                raise UnknownMessageError(
                    f"receiver {receiver_id!r} does not have message {message_id!r}", receiver_id=receiver_id
                )
            transaction = self._enlisted()
            if transaction is None:
                self._settle(held, receiver_id)
            else:
                self.submitted[message_id, receiver_id] = transaction

    def acknowledge_if_owed(self, held: HeldByTopic, receiver_id: str) -> None:
        """The receiver is done with what it was offered again; it may have said so already."""
        with self.lock:
            if held in self.owed_by(receiver_id):
                self.acknowledge(held.message_id, receiver_id)

    def owed_by(self, receiver_id: str, *, all_of_them: bool = False) -> list[HeldByTopic]:
        """What it has, in order; without what it has acknowledged in an open transaction."""
        with self.lock:
            return [
                held
                for held in self.held.values()
                if receiver_id in held.owing and (all_of_them or (held.message_id, receiver_id) not in self.submitted)
            ]

    def is_waiting_for(self, held: HeldByTopic, receiver_id: str) -> bool:
        """Whether this receiver is to be offered the message: not when it acknowledged it before (STATE-6)."""
        with self.lock:
            if receiver_id in held.early:
                held.early.discard(receiver_id)
                return False
            return self._is_here(held) and receiver_id not in held.owing

    def give_up(self, held: HeldByTopic, receiver_id: str) -> None:
        """The receiver does not have it any more, for its time has ended; the last one's share takes it away."""
        with self.lock:
            if receiver_id not in held.owing or not self._is_here(held):
                return
            others, is_last = held.owing - {receiver_id}, held.is_offered and held.owing == {receiver_id}
            # Written first: what cannot be written stays as it is.
            write_together([self._writing([], [held]) if is_last else self._writing([(held, others)], [])])
            self.submitted.pop((held.message_id, receiver_id), None)
            held.owing.discard(receiver_id)
            self._move(held, Move.RETURNED if is_last else Move.RETURNED_IN_PART)
            if is_last:
                self._leave(held, Move.EXPIRED, is_written=True)

    def expire(self, now_ms: int) -> list[str]:
        """Let go of the NEW messages whose time has ended; those sent in open transactions doom them (STATE-2)."""
        with self.lock:
            over = [held for held in self.held.values() if is_expired(held.reference.expiration_ms, now_ms)]
            for held in over:
                if held.transaction is not None:
                    self.doomed[held.transaction] = f"message {held.message_id!r} expired before its commit"
            gone = [held for held in over if held.state is MessageState.NEW]
            for held in gone:
                self._leave(held, Move.EXPIRED)
            return [held.message_id for held in gone]

    # -- transactions ------------------------------------------------------------------------------------------

    def prepare_transaction(self, transaction_id: str, /) -> None:
        """Check that the transaction can commit here.

        Raises:
            TransactionRolledBackError: a message sent in it has expired (STATE-2), or the channel was closed.
        """
        with self.lock:
            for held in self._sent_in(transaction_id):
                if is_expired(held.reference.expiration_ms, self.clock_ms()):
                    self.doomed[transaction_id] = f"message {held.message_id!r} expired before its commit"
            if transaction_id in self.doomed:
                raise TransactionRolledBackError(
                    f"channel {self.name!r}: {self.doomed[transaction_id]}", transaction_id=transaction_id
                )

    def commit_transaction(self, transaction_id: str, /) -> None:
        """What was sent is NEW, what was acknowledged is settled: both or, when it raises, neither.

        Raises:
            TransactionRolledBackError: see `prepare_transaction`; this channel's part is rolled back.
        """
        with self.lock:
            try:
                self.prepare_transaction(transaction_id)
            except TransactionRolledBackError:
                self.rollback_transaction(transaction_id)
                raise
            write_together([self.commit_writing(transaction_id)])
            self.commit_recorded(transaction_id)
        after_commit(self.offer_committed)

    def commit_writing(self, transaction_id: str) -> Writing:
        """What to write so that the transaction is committed here, with the lock held."""
        settled = self._settled_in(transaction_id)
        gone = [held for held, receivers in settled.items() if held.is_offered and held.owing <= receivers]
        less = [(held, held.owing - receivers) for held, receivers in settled.items() if held not in gone]
        sent = [(held, held.owing) for held in self._sent_in(transaction_id)]
        return self._writing([*sent, *less], gone)

    def commit_recorded(self, transaction_id: str) -> None:
        """It is committed, for `commit_writing` is written; the lock was held since."""
        settled = self._settled_in(transaction_id)
        self._forget_transaction(transaction_id)
        for held in self._sent_in(transaction_id):
            self._move(held, Move.SESSION_COMMITTED)
            held.transaction, held.has_body_record = None, held.reference.is_reliable
        for held, receivers in settled.items():
            for receiver_id in receivers:
                self._settle(held, receiver_id, is_written=True)

    def rollback_transaction(self, transaction_id: str, /) -> None:
        """What was sent is gone, what was acknowledged is owed again."""
        with self.lock:
            self._forget_transaction(transaction_id)
            for held in self._sent_in(transaction_id):
                self._leave(held, Move.SESSION_ROLLED_BACK)

    def close(self) -> None:
        """Transactions can only roll back; what is not recorded is let go."""
        with self.lock:
            self.is_closed = True
            sent = {held.transaction for held in self.held.values() if held.transaction is not None}
            for transaction_id in {*sent, *self.submitted.values()}:
                self.rollback_transaction(transaction_id)
                self.doomed[transaction_id] = "it was closed"
            for held in list(self.held.values()):
                if self.persistence_manager is None or not held.reference.is_reliable:
                    self._leave(held, Move.REMOVED)

    # -- records -----------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Hold again what an earlier channel of this name had recorded; its receivers may come back and ask."""
        if self.persistence_manager is None:
            return
        for record in decode_topic_records(self.persistence_manager.read(self.name)):
            try:
                message = self.message_store.retrieve(record.message_id)
            except UnknownMessageError:
                logger.error(  # noqa: TRY400 - the trace says nothing more
                    "%s: message %s is recorded, but store %s does not have it; it is passed over",
                    self.name,
                    record.message_id,
                    self.message_store.store_id,
                )
                continue
            reference = reference_to(message, self.message_store.store_id)
            held = HeldByTopic(record.place, reference, MessageState.NEW, is_doubtful=True, has_body_record=True)
            self.held[record.message_id] = held
            self._next_place = record.place + 1
            for receiver_id in record.owing or ():
                self._move(held, Move.OFFERED)
                held.owing.add(receiver_id)
                held.is_offered = True

    # -- leaves ------------------------------------------------------------------------------------------------

    def _is_here(self, held: HeldByTopic) -> bool:
        """Not when it left meanwhile, or the channel was closed."""
        return not self.is_closed and self.held.get(held.message_id) is held

    def _hold(self, reference: MessageReference, *, has_body_record: bool) -> None:
        transaction = self._enlisted()
        state = MessageState.NEW if transaction is None else MessageState.NOT_COMMITTED
        held = HeldByTopic(self._next_place, reference, state, transaction, has_body_record=has_body_record)
        if transaction is None:
            write_together([self._writing([(held, held.owing)], [])])
            held.has_body_record = reference.is_reliable
        self._next_place += 1
        self.held[held.message_id] = held

    def _settle(self, held: HeldByTopic, receiver_id: str, *, is_written: bool = False) -> None:
        if receiver_id not in held.owing:
            if held.state is MessageState.NEW:
                self._move(held, Move.ACKNOWLEDGED_EARLY)
            held.early.add(receiver_id)
            return
        if held.is_offered and held.owing == {receiver_id}:
            self._leave(held, Move.ACKNOWLEDGED, is_written=is_written)
            return
        if not is_written:
            write_together([self._writing([(held, held.owing - {receiver_id})], [])])
        self._move(held, Move.ACKNOWLEDGED_IN_PART)
        held.owing.discard(receiver_id)

    def _leave(self, held: HeldByTopic, move: Move, *, is_written: bool = False) -> None:
        transition(held.state, move)
        if not is_written:
            write_together([self._writing([], [held])])
        self._move(held, move)
        for key in [key for key in self.submitted if key[0] == held.message_id]:
            del self.submitted[key]
        drop_body(self.message_store, held.message_id)

    def _move(self, held: HeldByTopic, move: Move) -> None:
        row = transition(held.state, move)
        if isinstance(row.target, MessageState):
            held.state = row.target
        else:
            del self.held[held.message_id]

    def _write(self, held: HeldByTopic) -> None:
        write_together([self._writing([(held, held.owing)], [])])

    def _writing(self, stay: Iterable[tuple[HeldByTopic, Iterable[str]]], gone: Iterable[HeldByTopic]) -> Writing:
        """What to write when these stay, owed by those, and these go."""
        records, bodies = records_and_bodies(stay, gone)
        return Writing(self.name, self.persistence_manager, records, self.message_store, bodies)

    def _enlisted(self) -> str | None:
        """The transaction the caller is in, which from now on ends here too."""
        manager, transaction = manager_here(self.transaction_manager), self.open_transaction
        if manager is not None and transaction is not None:
            manager.enlist(self)
        return transaction

    def _sent_in(self, transaction_id: str) -> list[HeldByTopic]:
        return [held for held in self.held.values() if held.transaction == transaction_id]

    def _settled_in(self, transaction_id: str) -> dict[HeldByTopic, set[str]]:
        """What was acknowledged in it, and by which receivers."""
        settled: dict[HeldByTopic, set[str]] = {}
        for (message_id, receiver_id), transaction in self.submitted.items():
            if transaction == transaction_id:
                settled.setdefault(self.held[message_id], set()).add(receiver_id)
        return settled

    def _forget_transaction(self, transaction_id: str) -> None:
        self.doomed.pop(transaction_id, None)
        self.submitted = {key: each for key, each in self.submitted.items() if each != transaction_id}


def _marked(held: HeldByTopic) -> MessageReference:
    """The reference, marked as redelivered where this channel may have offered it before."""
    reference = held.reference
    if isinstance(reference, StoredReference) and reference.redelivered != held.is_doubtful:
        return replace(reference, redelivered=held.is_doubtful)
    return reference
