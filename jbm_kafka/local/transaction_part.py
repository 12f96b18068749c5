"""The sends and acknowledgements of open transactions on a channel (STATE-2, STATE-7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from jbm_kafka.contract import TransactionManager
from jbm_kafka.core import changes as c
from jbm_kafka.core.jms_errors import TransactionRolledBackError, UnknownMessageError
from jbm_kafka.core.redelivery import is_expired
from jbm_kafka.core.reference import Reference
from jbm_kafka.local.handover import decide_acknowledgement
from jbm_kafka.local.ledger import Ledger, message_id_of
from jbm_kafka.local.recording import Writing, write_together
from jbm_kafka.local.transactions import after_commit, manager_here


class TransactionPart:
    """A channel's messages as a resource of transactions."""

    def __init__(self, ledger: Ledger, transaction_manager: TransactionManager | None) -> None:
        self._ledger = ledger
        self.manager = transaction_manager
        self.submitted: dict[int, tuple[str, str]] = {}
        """Acknowledgements submitted in an open transaction: by offset, the receiver and the transaction (STATE-7)."""
        self.doomed: dict[str, str] = {}
        """Transactions that can only be rolled back, with the reason."""
        self.when_discarded: Callable[[Sequence[tuple[str, Reference]]], None] = lambda _discarded: None
        """Called with the acknowledgements, and their receivers, that a rollback discarded."""
        self.offer_committed: Callable[[], None] = lambda: None
        """Called after a commit, when no transaction is open any more and no lock is held."""

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The channel's."""
        return self._ledger.lock

    @property
    def open_transaction(self) -> str | None:
        """The transaction the caller is in."""
        manager = manager_here(self.manager)
        return None if manager is None else manager.current

    def submit(self, receiver_id: str, reference: Reference) -> None:
        """The acknowledgement counts when the open transaction commits; the first one submitted stands."""
        transaction = self.enlisted()
        assert transaction is not None, reference.offset
        self.submitted.setdefault(reference.offset, (receiver_id, transaction))

    def prepare_transaction(self, transaction_id: str, /) -> None:
        """Check that the transaction can commit here.

        Raises:
            TransactionRolledBackError: a message sent in it has expired (STATE-2), or the channel was closed.
        """
        with self._ledger.lock:
            now_ms = self._ledger.clock_ms()
            for reference in self._sent_in(transaction_id):
                if is_expired(reference.expiration_ms, now_ms):
                    self.doom(reference, f"message {message_id_of(reference)!r} expired before its commit")
            if transaction_id in self.doomed:
                raise TransactionRolledBackError(
                    f"channel {self._ledger.name!r}: {self.doomed[transaction_id]}", transaction_id=transaction_id
                )

    def commit_transaction(self, transaction_id: str, /) -> None:
        """What was sent is NEW, what was acknowledged is settled: both or, when it raises, neither.

        Raises:
            TransactionRolledBackError: see `prepare_transaction`; this channel's part is rolled back.
        """
        with self._ledger.lock:
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
        return self._ledger.writing_of(self._changes_of(transaction_id), committed=self._sent_in(transaction_id))

    def commit_recorded(self, transaction_id: str) -> None:
        """It is committed, for `commit_writing` is written; the lock was held since."""
        self._ledger.take_effect(self._changes_of(transaction_id), committed=self._sent_in(transaction_id))
        self._forget_transaction(transaction_id)

    def rollback_transaction(self, transaction_id: str, /) -> None:
        """What was sent is gone, what was acknowledged is owed again."""
        with self._ledger.lock:
            sent = self._sent_in(transaction_id)
            self._ledger.core.apply(c.SendsRolledBack(transaction_id))
            if recorded := [each for each in sent if each.offset not in self._ledger.without_body_record]:
                write_together([self._ledger.writing([], recorded)])  # references to what the application stored itself
            self._ledger.came_free(sent)
            self._ledger.forget(sent)
            discarded = self._forget_transaction(transaction_id)
        self.when_discarded(discarded)

    def doom(self, reference: Reference, reason: str) -> None:
        """The transaction that sent this message can only be rolled back."""
        self.doomed[self._ledger.core.uncommitted[reference.offset]] = reason

    def _changes_of(self, transaction_id: str) -> list[c.ContractChange]:
        changes: list[c.ContractChange] = [c.SendsCommitted(transaction_id)]
        for offset, (receiver_id, transaction) in self.submitted.items():
            if transaction == transaction_id and offset in self._ledger.by_offset:
                changes += self._effective(receiver_id, self._ledger.by_offset[offset])
        return changes

    def _effective(self, receiver_id: str, reference: Reference) -> list[c.ContractChange]:
        """A submitted acknowledgement, now that it counts; nothing when the message was settled otherwise meanwhile."""
        try:
            change = decide_acknowledgement(self._ledger.core, receiver_id, reference)
        except UnknownMessageError:
            return []
        if isinstance(change, c.AcknowledgedEarly):
            return [change, c.Acknowledged(receiver_id, [reference.offset])]
        return [change]

    def enlisted(self) -> str | None:
        """The transaction the caller is in, which from now on ends here too."""
        manager = manager_here(self.manager)
        transaction = None if manager is None else manager.current
        if manager is not None and transaction is not None:
            manager.enlist(self)
        return transaction

    def _sent_in(self, transaction_id: str) -> list[Reference]:
        uncommitted = self._ledger.core.uncommitted.items()
        return [self._ledger.by_offset[offset] for offset, transaction in uncommitted if transaction == transaction_id]

    def _forget_transaction(self, transaction_id: str) -> list[tuple[str, Reference]]:
        """The acknowledgements submitted in it, of messages that are still here."""
        self.doomed.pop(transaction_id, None)
        mine = [(o, receiver) for o, (receiver, transaction) in self.submitted.items() if transaction == transaction_id]
        for offset, _ in mine:
            del self.submitted[offset]
        return [
            (receiver, self._ledger.by_offset[offset]) for offset, receiver in mine if offset in self._ledger.by_offset
        ]
