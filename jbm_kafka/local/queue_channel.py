"""A queue in one process: the contract's Channel over the core that serves Kafka.

What it promises is docs/semantics.md, section 1; where that leaves a choice, docs/decisions/local-channels.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from jbm_kafka.contract import (
    CoreMessage,
    Filter,
    MessageState,
    MessageStore,
    PersistenceManager,
    Receiver,
    Routable,
    TransactionManager,
)
from jbm_kafka.core import changes as c
from jbm_kafka.core.address_settings import AddressSettings, ResolvedSettings
from jbm_kafka.core.jms_errors import IllegalStateError, MessageFormatError
from jbm_kafka.core.redelivery import is_expired
from jbm_kafka.core.reference import DEPARTING, Reference
from jbm_kafka.core.states import Move, transition
from jbm_kafka.local.channel_messages import message_of, refused, shown
from jbm_kafka.local.ledger import contract_reference
from jbm_kafka.local.managed import ManagedByState
from jbm_kafka.local.offering import OfferAnswer, Offering, ask
from jbm_kafka.local.receivers import Receivers
from jbm_kafka.local.returning import LocalDepartures, resolved_settings
from jbm_kafka.local.state import LocalChannelState


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class QueueChannel(ManagedByState[LocalChannelState]):
    """Stores every message until one receiver has acknowledged it. Thread-safe.

    With a persistence manager, a new channel of the same name over the same store goes on where this one ended.
    `dead_letter_channel` takes what has used up its attempts, `expiry_channel` what has expired; without them such
    messages are removed. Time is `clock_ms`, the wall clock unless given.
    """

    def __init__(
        self,
        name: str,
        *,
        message_store: MessageStore,
        persistence_manager: PersistenceManager | None = None,
        transaction_manager: TransactionManager | None = None,
        synchronous: bool = False,
        settings: AddressSettings | ResolvedSettings | None = None,
        clock_ms: Callable[[], int] | None = None,
        dead_letter_channel: Receiver | None = None,
        expiry_channel: Receiver | None = None,
    ) -> None:
        super().__init__(
            LocalChannelState(
                name,
                message_store=message_store,
                persistence_manager=persistence_manager,
                transaction_manager=transaction_manager,
                clock_ms=clock_ms or wall_clock_ms,
            )
        )
        self._is_synchronous = synchronous
        self._receivers = Receivers(name)
        resolved = resolved_settings(settings, dead_letter_channel=dead_letter_channel, expiry_channel=expiry_channel)
        self._departures = LocalDepartures(
            self._state, resolved, dead_letter_channel=dead_letter_channel, expiry_channel=expiry_channel
        )
        self._offering = Offering(self._state, self._receivers, self._departures)
        self._lost_in_doubt: set[tuple[str, int]] = set()
        """Receivers lost while their acknowledgement of a message waited for its transaction."""
        self._state.transactions.when_discarded = self._owed_after_all
        self._state.transactions.offer_committed = self._offering.offer_first
        self._recover()

    def __repr__(self) -> str:
        return f"QueueChannel({self.name!r})"

    # -- what it is --------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The queue's name."""
        return self._state.name

    @property
    def receiver_id(self) -> str:
        """Its name: a channel may be the receiver of another."""
        return self._state.name

    @property
    def is_synchronous(self) -> bool:
        """It hands over within `handle`, in the caller's thread, and stores nothing."""
        return self._is_synchronous

    @property
    def is_storing_undeliverable_messages(self) -> bool:
        """A queue does (STATE-8); synchronous it stores nothing at all (STATE-13)."""
        return not self._is_synchronous

    @property
    def receivers(self) -> Sequence[Receiver]:
        """In the order in which they were added."""
        return self._receivers.all

    def set_synchronous(self, value: bool, /) -> bool:
        """True iff it switched: not when it is so already, nor to synchronous while it holds messages."""
        with self._state.lock:
            self._check_open()
            if value == self._is_synchronous or (value and self._state.ledger.held):
                return False
            self._is_synchronous = value
            return True

    # -- messages come -----------------------------------------------------------------------------------------

    def accept(self, routable: Routable, /) -> bool:
        """Whether `handle` would take it now."""
        if self._state.is_closed:
            return False
        if self._is_synchronous:
            return self._state.transactions.open_transaction is None and any(
                each.accept(routable) for each in self._receivers.all
            )
        with self._state.lock:
            return self._state.refusal(routable) is None

    def handle(self, routable: Routable, /) -> bool:
        """Store the message, NOT_COMMITTED in an open transaction, else NEW, and offer what nobody was offered yet.

        What receivers do with it changes nothing for the sender: True is its acknowledgement. A synchronous channel
        stores nothing, and its answer is the receiver's. A message will do, or a reference into this channel's store.

        Raises:
            RoutableNotAcceptedError: a message of this id is here, or the channel cannot hold it (STATE-11); nothing
                changed.
            IllegalStateError: the channel is closed.
        """
        with self._state.lock:
            self._check_open()
            is_passed_on = self._is_synchronous
            if not is_passed_on:
                self._store(routable)
        if is_passed_on:
            return self._pass_on(routable)
        self._offering.offer_first()
        return True

    def _store(self, routable: Routable) -> None:
        reason = self._state.refusal(routable)
        if reason is not None:
            raise refused(self.name, routable, reason)
        message = message_of(routable, channel=self.name, store=self.message_store)
        try:
            self._state.take(message)
        except MessageFormatError as error:
            raise refused(self.name, routable, str(error)) from error

    def _pass_on(self, routable: Routable) -> bool:
        """Synchronously: what the first receiver that takes it says; False when none does. Nothing is stored."""
        if self._state.transactions.open_transaction is not None:
            raise refused(self.name, routable, "a transaction is open and a synchronous channel holds nothing for it")
        message = message_of(routable, channel=self.name, store=self.message_store)
        if is_expired(message.expiration_ms, self._state.ledger.clock_ms()):
            return False
        for receiver in self._receivers.in_turn():
            answer = ask(receiver, shown(message, redelivered=False))
            if answer is not OfferAnswer.REFUSED:
                self._receivers.took_one(receiver.receiver_id)
                return answer is OfferAnswer.ACKNOWLEDGED
        return False

    # -- messages go -------------------------------------------------------------------------------------------

    def add_receiver(self, receiver: Receiver, /) -> None:
        """Offer messages to this one too, from the next message, commit or `deliver()` on.

        Raises:
            IllegalStateError: another receiver has its id, or the channel is closed.
        """
        with self._state.lock:
            self._check_open()
            self._receivers.add(receiver)
            self._state.ledger.everything_unoffered()

    def remove_receiver(self, receiver_id: str, /) -> None:
        """What it has in hand comes back: one attempt more each, no delay. Unknown ids are passed over."""
        with self._state.lock:
            self._check_open()
            self._receivers.remove(receiver_id)
            submitted = self._state.transactions.submitted.items()
            self._lost_in_doubt.update((receiver_id, offset) for offset, by in submitted if by[0] == receiver_id)
        self._offering.lose(receiver_id)

    def deliver(self) -> bool:
        """Offer every NEW message present now; True iff none is NEW any more (STATE-9)."""
        self._check_open()
        self._offering.deliver()
        return not self.has_messages(MessageState.NEW)

    def redeliver(self, receiver: Receiver, /) -> bool:
        """Offer this receiver again what it owes, registered or not; True iff it owes nothing any more (STATE-9)."""
        self._check_open()
        return self._offering.redeliver(receiver)

    def acknowledge(self, message_id: str, receiver_id: str, /) -> None:
        """The receiver is done with the message; in a transaction, when that commits (STATE-7).

        Raises:
            UnknownMessageError: it is not here, or in another hand, or acknowledged already.
            IllegalStateError: it is NOT_COMMITTED, or the channel is closed.
        """
        self._check_open()
        self._state.acknowledge(message_id, receiver_id)

    def expire(self, now_ms: int, /) -> list[str]:
        """Let go of the NEW messages whose time has ended by then, and return their ids in arrival order."""
        self._check_open()
        return self._departures.expire(now_ms)

    def close(self) -> None:
        """All receivers leave, open transactions of its messages can only roll back. What was recorded is kept."""
        state = self._state
        with state.lock:
            if state.is_closed:
                return
            state.is_closed = True
            transactions = {
                *state.core.uncommitted.values(),
                *(by[1] for by in state.transactions.submitted.values()),
            }
            for transaction_id in transactions:
                state.transactions.rollback_transaction(transaction_id)
                state.transactions.doomed[transaction_id] = "it was closed"
            holders = [session for session in state.core.in_hand if session != DEPARTING]
        for receiver_id in holders:
            self._offering.lose(receiver_id)
        self._receivers = Receivers(self.name)
        with state.lock:
            is_kept = self.persistence_manager is not None
            new = [each for each in state.ledger.held.values() if state.ledger.is_waiting(each)]
            gone = [each for each in new if not (is_kept and contract_reference(each).is_reliable)]
            state.ledger.change(c.Withdrawn(gone, transition(MessageState.NEW, Move.REMOVED)))

    # -- looking -----------------------------------------------------------------------------------------------

    def browse(self, filter: Filter | None = None, /) -> list[CoreMessage]:  # noqa: A002 - the contract's word
        """What is NEW or DELIVERED, in arrival order; consumes nothing (STATE-9)."""
        messages = self._messages(MessageState.NEW, MessageState.DELIVERED)
        return [message for message in messages if filter is None or filter.accept(message)]

    def has_messages(self, state: MessageState, /) -> bool:
        """Whether it holds messages in that state."""
        core = self._state.core
        with self._state.lock:
            self._check_open()
            if state is MessageState.NEW:
                return core.gates.waiting_count > len(core.uncommitted) or DEPARTING in core.in_hand
            return bool(core.in_hand.keys() - {DEPARTING} if state is MessageState.DELIVERED else core.uncommitted)

    def get_messages(self, state: MessageState, /) -> list[CoreMessage]:
        """Those it holds in that state, in arrival order."""
        return self._messages(state)

    # -- leaves ------------------------------------------------------------------------------------------------

    def _messages(self, *states: MessageState) -> list[CoreMessage]:
        state = self._state
        with state.lock:
            self._check_open()
            return [
                shown(self.message_store.retrieve(message_id), redelivered=state.is_redelivered(reference))
                for message_id, reference in state.ledger.held.items()
                if state.ledger.stands(reference) in states
            ]

    def _check_open(self) -> None:
        if self._state.is_closed:
            raise IllegalStateError(f"channel {self.name!r} is closed; make a new one of that name")

    def _owed_after_all(self, discarded: Sequence[tuple[str, Reference]]) -> None:
        """A rollback discarded these acknowledgements: what a lost receiver owes comes back now (STATE-5, STATE-7)."""
        owed: dict[str, list[Reference]] = {}
        for receiver_id, reference in discarded:
            if (receiver_id, reference.offset) in self._lost_in_doubt:
                self._lost_in_doubt.discard((receiver_id, reference.offset))
                owed.setdefault(receiver_id, []).append(reference)
        for lost, references in owed.items():
            self._offering.lose_some(lost, references)

    def _recover(self) -> None:
        """Go on where the last channel of this name ended; its receivers are lost."""
        state = self._state
        receivers: dict[str, list[Reference]] = {}
        for record in state.ledger.recover():
            if record.receiver_id is not None:
                reference = state.ledger.by_offset[record.offset]
                if record.is_acknowledged:
                    state.settle_early(record.receiver_id, reference)
                else:
                    state.ledger.change(c.FoundInHand(record.receiver_id, reference))
                    receivers.setdefault(record.receiver_id, []).append(reference)
        for receiver_id, references in receivers.items():
            self._offering.lose_some(receiver_id, references)
