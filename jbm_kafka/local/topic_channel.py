"""A topic in one process: the contract's Channel that offers each message to all its receivers (STATE-4).

It stores no message for receivers that are not there: a durable subscription is a queue channel that is a receiver of
the topic. What it promises is docs/semantics.md, section 1; its choices are in docs/decisions/local-channels.md.
"""

from __future__ import annotations

import logging
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
from jbm_kafka.core.jms_errors import IllegalStateError, MessageFormatError, UnknownMessageError
from jbm_kafka.core.redelivery import is_expired
from jbm_kafka.core.states import Move, transition
from jbm_kafka.local.channel_messages import message_of, refused, shown
from jbm_kafka.local.delivery_lock import DeliveryLock
from jbm_kafka.local.managed import ManagedByState
from jbm_kafka.local.offering import OfferAnswer, ask, offer_soon
from jbm_kafka.local.queue_channel import wall_clock_ms
from jbm_kafka.local.receivers import Receivers
from jbm_kafka.local.topic_records import HeldByTopic
from jbm_kafka.local.topic_state import TopicState

logger = logging.getLogger(__name__)


class TopicChannel(ManagedByState[TopicState]):
    """Offers every message to all receivers of that moment, and keeps it until each of them acknowledged. Thread-safe.

    With a persistence manager, a new channel of the same name over the same store goes on where this one ended: its
    receivers may ask again, under their ids, for what they owe. Time is `clock_ms`, the wall clock unless given.
    """

    def __init__(
        self,
        name: str,
        *,
        message_store: MessageStore,
        persistence_manager: PersistenceManager | None = None,
        transaction_manager: TransactionManager | None = None,
        synchronous: bool = False,
        clock_ms: Callable[[], int] | None = None,
    ) -> None:
        super().__init__(
            TopicState(
                name,
                message_store=message_store,
                persistence_manager=persistence_manager,
                transaction_manager=transaction_manager,
                clock_ms=clock_ms or wall_clock_ms,
            )
        )
        self._is_synchronous = synchronous
        self._receivers = Receivers(name)
        self._delivery_lock = DeliveryLock(self._offer_waiting)
        self._state.offer_committed = self._offer_soon
        self._state.recover()

    def __repr__(self) -> str:
        return f"TopicChannel({self.name!r})"

    # -- what it is --------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The topic's name."""
        return self._state.name

    @property
    def receiver_id(self) -> str:
        """Its name: a channel may be the receiver of another."""
        return self._state.name

    @property
    def is_synchronous(self) -> bool:
        """It hands over within `handle`, in the caller's thread."""
        return self._is_synchronous

    @property
    def is_storing_undeliverable_messages(self) -> bool:
        """A topic discards what nobody takes (STATE-8)."""
        return False

    @property
    def receivers(self) -> Sequence[Receiver]:
        """In the order in which they were added."""
        return self._receivers.all

    def set_synchronous(self, value: bool, /) -> bool:
        """True iff it switched: not when it is so already, nor to synchronous while it holds messages."""
        with self._state.lock:
            self._check_open()
            if value == self._is_synchronous or (value and self._state.held):
                return False
            self._is_synchronous = value
            return True

    # -- messages come -----------------------------------------------------------------------------------------

    def accept(self, routable: Routable, /) -> bool:
        """Whether `handle` would take it now."""
        state = self._state
        with state.lock:
            if state.is_closed or (self._is_synchronous and state.open_transaction is not None):
                return False
            return self._is_synchronous or state.refusal(routable) is None

    def handle(self, routable: Routable, /) -> bool:
        """Offer the message to all receivers, in an open transaction when that commits.

        Asynchronously the sender is acknowledged whatever they do, also when nobody is there. A synchronous channel
        stores nothing; it answers True iff every receiver took the message and acknowledged it.

        Raises:
            RoutableNotAcceptedError: a message of this id is here, or the channel cannot hold it (STATE-11); nothing
                changed.
            IllegalStateError: the channel is closed.
        """
        state = self._state
        with state.lock:
            self._check_open()
            is_passed_on = self._is_synchronous
            if not is_passed_on:
                self._store(routable)
        if is_passed_on:
            return self._pass_on(routable)
        self._offer_soon()
        return True

    def _store(self, routable: Routable) -> None:
        state = self._state
        reason = state.refusal(routable)
        if reason is not None:
            raise refused(self.name, routable, reason)
        message = message_of(routable, channel=self.name, store=state.message_store)
        if not self._receivers.all and state.open_transaction is None:
            transition(MessageState.NEW, Move.DISCARDED)
            return
        try:
            state.take(message)
        except MessageFormatError as error:
            raise refused(self.name, routable, str(error)) from error

    def _pass_on(self, routable: Routable) -> bool:
        state = self._state
        if state.open_transaction is not None:
            raise refused(self.name, routable, "a transaction is open and a synchronous channel holds nothing for it")
        message = message_of(routable, channel=self.name, store=state.message_store)
        if is_expired(message.expiration_ms, state.clock_ms()):
            return False
        answers = [ask(receiver, shown(message, redelivered=False)) for receiver in self._receivers.all]
        return all(answer is OfferAnswer.ACKNOWLEDGED for answer in answers)

    # -- messages go -------------------------------------------------------------------------------------------

    def add_receiver(self, receiver: Receiver, /) -> None:
        """Offer messages to this one too, from the next one on.

        Raises:
            IllegalStateError: another receiver has its id, or the channel is closed.
        """
        with self._state.lock:
            self._check_open()
            self._receivers.add(receiver)

    def remove_receiver(self, receiver_id: str, /) -> None:
        """It gets nothing more by itself; it may still ask for what it owes (`redeliver`). Unknown ids do nothing."""
        with self._state.lock:
            self._check_open()
            self._receivers.remove(receiver_id)

    def deliver(self) -> bool:
        """Offer every NEW message to all receivers; True iff none is NEW any more (STATE-9)."""
        self._check_open()
        with self._delivery_lock.one() as is_outermost:
            if is_outermost:
                self._offer_waiting()
        return not self.has_messages(MessageState.NEW)

    def redeliver(self, receiver: Receiver, /) -> bool:
        """Offer this receiver again what it owes, registered or not; True iff it owes nothing any more (STATE-9)."""
        self._check_open()
        receiver_id = receiver.receiver_id
        refused_units: set[str] = set()
        with self._delivery_lock.one():
            for held in self._state.owed_by(receiver_id):
                unit = held.reference.unit_of_order
                if unit not in refused_units and not self._offer_again(receiver, held) and unit is not None:
                    refused_units.add(unit)
        return not self._state.owed_by(receiver_id, all_of_them=True)

    def acknowledge(self, message_id: str, receiver_id: str, /) -> None:
        """The receiver is done with the message; in a transaction, when that commits (STATE-7).

        Raises:
            UnknownMessageError: it is not here, or not in that hand, or acknowledged already.
            IllegalStateError: it is NOT_COMMITTED, or the channel is closed.
        """
        self._check_open()
        self._state.acknowledge(message_id, receiver_id)

    def expire(self, now_ms: int, /) -> list[str]:
        """Let go of the NEW messages whose time has ended by then, and return their ids in arrival order."""
        self._check_open()
        return self._state.expire(now_ms)

    def close(self) -> None:
        """All receivers leave, open transactions of its messages can only roll back. What was recorded is kept."""
        with self._state.lock:
            if not self._state.is_closed:
                self._state.close()
                self._receivers = Receivers(self.name)

    # -- looking -----------------------------------------------------------------------------------------------

    def browse(self, filter: Filter | None = None, /) -> list[CoreMessage]:  # noqa: A002 - the contract's word
        """What is NEW or DELIVERED, in arrival order; consumes nothing (STATE-9)."""
        messages = self._messages(MessageState.NEW, MessageState.DELIVERED)
        return [message for message in messages if filter is None or filter.accept(message)]

    def has_messages(self, state: MessageState, /) -> bool:
        """Whether it holds messages in that state."""
        with self._state.lock:
            self._check_open()
            return any(held.state is state for held in self._state.held.values())

    def get_messages(self, state: MessageState, /) -> list[CoreMessage]:
        """Those it holds in that state, in arrival order."""
        return self._messages(state)

    # -- leaves ------------------------------------------------------------------------------------------------

    def _offer_soon(self) -> None:
        if self._state.open_transaction is None:
            offer_soon(self.name, self._delivery_lock)

    def _offer_waiting(self) -> None:
        self._state.finish_again()
        for held in self._state.to_offer():
            self._offer(held)

    def _offer(self, held: HeldByTopic) -> None:
        state, receivers = self._state, self._receivers.all
        if is_expired(held.reference.expiration_ms, now_ms := state.clock_ms()):
            state.expire(now_ms)
            receivers = ()
        message = self._shown(held, redelivered=held.is_doubtful)
        if message is None:
            return
        for receiver in receivers:
            receiver_id = receiver.receiver_id
            if state.is_waiting_for(held, receiver_id):
                answer = ask(receiver, message)
                if answer is not OfferAnswer.REFUSED or receiver_id in held.early:
                    state.offered(held, receiver_id, acknowledged=answer is OfferAnswer.ACKNOWLEDGED)
        state.finish(held)

    def _offer_again(self, receiver: Receiver, held: HeldByTopic) -> bool:
        """Whether it took the message again; one whose time has ended comes back, and leaves."""
        state, receiver_id = self._state, receiver.receiver_id
        if is_expired(held.reference.expiration_ms, state.clock_ms()):
            state.give_up(held, receiver_id)
            return True
        message = self._shown(held, redelivered=True)
        answer = OfferAnswer.REFUSED if message is None else ask(receiver, message)
        if answer is OfferAnswer.ACKNOWLEDGED:
            state.acknowledge_if_owed(held, receiver_id)
        return answer is not OfferAnswer.REFUSED

    def _shown(self, held: HeldByTopic, *, redelivered: bool) -> CoreMessage | None:
        if self._state.held.get(held.message_id) is not held:
            return None
        try:
            return shown(self.message_store.retrieve(held.message_id), redelivered=redelivered)
        except UnknownMessageError:
            logger.exception("%s: a message has lost its body and cannot be delivered", self.name)
            return None

    def _messages(self, *states: MessageState) -> list[CoreMessage]:
        state = self._state
        with state.lock:
            self._check_open()
            return [
                shown(self.message_store.retrieve(held.message_id), redelivered=held.is_doubtful)
                for held in state.held.values()
                if held.state in states
            ]

    def _check_open(self) -> None:
        if self._state.is_closed:
            raise IllegalStateError(f"channel {self.name!r} is closed; make a new one of that name")
