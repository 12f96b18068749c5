"""What a channel in this process knows of its messages: the contract's ChannelState, over the core's.

Thread-safe. Managers and stores are called with the lock held, receivers and filters never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
from jbm_kafka.core import changes as c
from jbm_kafka.core.delivery_count import delivery_count_of
from jbm_kafka.core.jms_errors import (
    IllegalStateError,
    UnknownMessageError,
)
from jbm_kafka.core.reference import Reference
from jbm_kafka.core.states import Move, transition
from jbm_kafka.local.channel_messages import StoredReference, refused
from jbm_kafka.local.handover import decide_acknowledgement, decide_delivery, owing
from jbm_kafka.local.ledger import Ledger, contract_reference
from jbm_kafka.local.recording import drop_body, keep_body
from jbm_kafka.local.transaction_part import TransactionPart


class LocalChannelState:
    """The messages of one channel, each in one state, and every move between states."""

    def __init__(
        self,
        name: str,
        *,
        message_store: MessageStore,
        persistence_manager: PersistenceManager | None = None,
        transaction_manager: TransactionManager | None = None,
        clock_ms: Callable[[], int],
    ) -> None:
        self.name = name
        self.ledger = Ledger(
            name, message_store=message_store, persistence_manager=persistence_manager, clock_ms=clock_ms
        )
        self.lock, self.core = self.ledger.lock, self.ledger.core
        """The channel's, for all that decide by the core's state."""
        self.transactions = TransactionPart(self.ledger, transaction_manager)
        self.reserved: set[int] = set()
        """Offsets of messages that are just being offered, or on their way out."""
        self.is_closed = False
        """Nothing is offered any more."""

    # -- what it is --------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<LocalChannelState of {self.name!r}: {len(self.ledger.held)} messages>"

    @property
    def message_store(self) -> MessageStore:
        """Where the bodies are."""
        return self.ledger.message_store

    @message_store.setter
    def message_store(self, store: MessageStore) -> None:
        self.ledger.message_store = store

    @property
    def persistence_manager(self) -> PersistenceManager | None:
        """Where what happens is recorded; None: nowhere."""
        return self.ledger.persistence_manager

    @persistence_manager.setter
    def persistence_manager(self, manager: PersistenceManager | None) -> None:
        self.ledger.persistence_manager = manager

    @property
    def transaction_manager(self) -> TransactionManager | None:
        """Whose transactions it takes part in; None: in none."""
        return self.transactions.manager

    @transaction_manager.setter
    def transaction_manager(self, manager: TransactionManager | None) -> None:
        self.transactions.manager = manager

    @property
    def is_reliable(self) -> bool:
        """Its persistence manager and its store are (STATE-11)."""
        manager = self.persistence_manager
        return manager is not None and manager.is_reliable and self.message_store.is_reliable

    @property
    def is_transactional(self) -> bool:
        """It has a transaction manager."""
        return self.transaction_manager is not None

    def refusal(self, routable: Routable) -> str | None:
        """Why this message cannot be held here now; None when it can."""
        if routable.message_id in self.ledger.held:
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
            self.ledger.hold(reference, transaction=self.transactions.enlisted(), has_body_record=True)

    def take(self, message: CoreMessage) -> None:
        """Store the body, and hold the message; the caller has seen that it may be held.

        Raises:
            MessageFormatError: it is reliable and cannot be written.
        """
        with self.lock:
            reference, has_record = keep_body(self.message_store, message)
            try:
                self.ledger.hold(reference, transaction=self.transactions.enlisted(), has_body_record=has_record)
            except BaseException:
                drop_body(self.message_store, reference.message_id)
                raise

    def update(self, message_id: str, receiver_id: str, positive: bool, /) -> None:
        if positive:
            self.acknowledge(message_id, receiver_id)
            return
        with self.lock:
            reference = self.ledger.find(message_id)
            if (state := self.ledger.stands(reference)) is not None:
                transition(state, Move.OFFERED)
            if not self.record_delivery(receiver_id, reference):
                raise IllegalStateError(
                    f"message {message_id!r} cannot be in the hand of {receiver_id!r} now: it, or an earlier one of "
                    "its unit, waits or is in another hand",
                    message_id=message_id,
                )

    def remove(self, message_id: str, /) -> None:
        with self.lock:
            reference = self.ledger.find(message_id)
            state = self.ledger.stands(reference)
            assert state is not None, message_id
            removal = transition(state, Move.REMOVED)
            holders = [s for s, hand in self.core.in_hand.items() if reference.offset in hand]
            if holders:
                self.ledger.change(c.Acknowledged(holders[0], [reference.offset], transition=removal))
            else:
                self.ledger.change(c.Withdrawn([reference], removal))
            self.transactions.submitted.pop(reference.offset, None)

    def state_of(self, message_id: str, /) -> MessageState | None:
        with self.lock:
            reference = self.ledger.held.get(message_id)
            return None if reference is None else self.ledger.stands(reference)

    def nacks(self, message_id: str, /) -> frozenset[str]:
        with self.lock:
            reference = self.ledger.held.get(message_id)
            return frozenset() if reference is None else owing(self.core, reference.offset)

    def transaction_of(self, message_id: str, /) -> str | None:
        with self.lock:
            reference = self.ledger.held.get(message_id)
            return None if reference is None else self.core.uncommitted.get(reference.offset)

    def references(self, state: MessageState | None = None) -> Sequence[MessageReference]:
        with self.lock:
            held = [each for each in self.ledger.held.values() if state is None or self.ledger.stands(each) is state]
            return [self._as_redelivered(each) for each in held]

    # -- deliveries and acknowledgements -----------------------------------------------------------------------

    def acknowledge(self, message_id: str, receiver_id: str) -> None:
        """The receiver is done with it: at once, or when the open transaction commits (STATE-7)."""
        with self.lock:
            reference = self.ledger.find(message_id)
            if reference.offset in self.transactions.submitted:
                raise UnknownMessageError(
                    f"message {message_id!r} was acknowledged in a transaction that is open", message_id=message_id
                )
            change = decide_acknowledgement(self.core, receiver_id, reference)
            if self.transactions.open_transaction is None:
                self.ledger.change(change)
            else:
                self.transactions.submit(receiver_id, reference)

    def settle_early(self, receiver_id: str, reference: Reference) -> None:
        """An acknowledgement of a NEW message counts at once, because no delivery of it will be recorded any more."""
        early = c.AcknowledgedEarly(receiver_id, reference)
        self.ledger.change(early, c.Acknowledged(receiver_id, [reference.offset]))

    def complete_early(self) -> None:
        """Settle what was acknowledged while nobody was being offered it: there is no delivery to wait for."""
        with self.lock:
            for receiver_id, offset in sorted(self.core.early):
                if offset not in self.reserved:
                    self.ledger.change(c.Acknowledged(receiver_id, [offset]))

    def record_delivery(self, receiver_id: str, reference: Reference, *, acknowledged: bool = False) -> bool:
        """The receiver was handed the message, and may have acknowledged it by the way.

        False when that can no longer be, because the message moved on while the receiver had it.
        """
        with self.lock:
            change = decide_delivery(self.core, receiver_id, reference)
            if change is None:
                if acknowledged and self.ledger.is_waiting(reference):
                    self.settle_early(receiver_id, reference)
                return False
            settles = isinstance(change, c.Acknowledged)
            if not acknowledged or settles or self.transactions.open_transaction is not None:
                self.ledger.change(change)
            else:
                self.ledger.change(change, c.Acknowledged(receiver_id, [reference.offset]))
            if acknowledged and not settles and self.transactions.open_transaction is not None:
                self.transactions.submit(receiver_id, reference)
            return True

    def is_redelivered(self, reference: Reference) -> bool:
        """Whether it was handed over before."""
        return delivery_count_of(self.core, reference.offset).redelivered

    @contextmanager
    def reserve(self, references: Sequence[Reference]) -> Iterator[None]:
        """Within the block nobody else offers these or lets them expire."""
        offsets = {reference.offset for reference in references}
        with self.lock:
            assert not offsets & self.reserved, (offsets, self.reserved)
            self.reserved |= offsets
        try:
            yield
        finally:
            with self.lock:
                self.reserved -= offsets

    # -- leaves ------------------------------------------------------------------------------------------------

    def _as_redelivered(self, reference: Reference) -> MessageReference:
        held = contract_reference(reference)
        redelivered = self.is_redelivered(reference)
        if isinstance(held, StoredReference) and held.redelivered != redelivered:
            return replace(held, redelivered=redelivered)
        return held
