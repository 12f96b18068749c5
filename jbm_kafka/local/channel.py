"""The contract's Channel over the machine that serves Kafka: one lane, driven by whoever calls, no thread of its own.

One pass over the messages runs at a time (ORDER-1). A receiver is asked first, and the machine told after it: until a
receiver took it a message is NEW, so a refusal leaves no trace (STATE-10). The state's lock is never held while a
receiver or a filter runs; an acknowledgement may come from any thread, and before the delivery is recorded (STATE-6).
What the channels promise is docs/semantics.md, section 1; their choices are docs/decisions/12-house.md.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import ClassVar, Generic, TypeVar, cast

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
from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.redelivery import is_expired
from jbm_kafka.core.channel.reference import GateKey, Reference
from jbm_kafka.core.jms_errors import IllegalStateError, RoutableNotAcceptedError, UnknownMessageError
from jbm_kafka.local.channel_messages import message_of, part_of, refused, shown
from jbm_kafka.local.state import LocalChannelState, message_id_of

logger = logging.getLogger(__name__)
State = TypeVar("State", bound=LocalChannelState)


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class OfferAnswer(Enum):
    """A receiver's answer to a message."""

    ACKNOWLEDGED = "acknowledged"
    """It took the message and is done with it."""
    TAKEN = "taken"
    """It took the message and owes its acknowledgement."""
    REFUSED = "refused"
    """It did not want it, refused it, or broke."""


def ask(receiver: Receiver, message: CoreMessage) -> OfferAnswer:
    """Offer the message, advice first. The log names a receiver that raises, and the channel goes on."""
    try:
        if not receiver.accept(message):
            return OfferAnswer.REFUSED
        return OfferAnswer.ACKNOWLEDGED if receiver.handle(message) else OfferAnswer.TAKEN
    except RoutableNotAcceptedError:
        return OfferAnswer.REFUSED
    except Exception:
        logger.exception("receiver %s broke on message %s; it stays", receiver.receiver_id, message.message_id)
        return OfferAnswer.REFUSED


class LocalChannel(ABC, Generic[State]):
    """The part that a queue and a topic share: they differ in whom they offer a message to, and when it is finished.

    With a persistence manager, a new channel of the same name over the same store goes on where this one ended. Time is
    `clock_ms`, the wall clock unless given.
    """

    _state_class: ClassVar[type[LocalChannelState]]
    name: str = part_of("_state", "name")
    """The channel's name."""
    receiver_id: str = part_of("_state", "name")
    """Its name: a channel may be the receiver of another."""
    message_store: MessageStore = part_of("_state", "message_store")
    """Where the bodies are."""
    persistence_manager: PersistenceManager | None = part_of("_state", "persistence_manager")
    """Where the state is written; None: nowhere."""
    transaction_manager: TransactionManager | None = part_of("_state", "transaction_manager")
    """Whose transactions it takes part in; None: in none."""
    is_reliable: bool = part_of("_state", "is_reliable")
    """Its persistence manager and its store are (STATE-11)."""
    is_transactional: bool = part_of("_state", "is_transactional")
    """It has a transaction manager."""

    def __init__(
        self,
        name: str,
        *,
        message_store: MessageStore,
        persistence_manager: PersistenceManager | None = None,
        transaction_manager: TransactionManager | None = None,
        synchronous: bool = False,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        managers = persistence_manager, transaction_manager
        state = self._state = cast(State, self._state_class(name, message_store, *managers, clock_ms))
        self._is_synchronous = synchronous
        self._receivers: dict[str, Receiver] = {}
        """The receivers by id, in the order in which they were added."""
        self._pass = threading.RLock()
        self._depth = 0
        """How many passes are open in the thread that has the lock."""
        self._is_asked = False
        """Another thread wants a pass made as soon as this one is over."""
        state.offer_committed = self._offer_soon
        state.recover()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def state(self) -> State:
        """Return what the channel knows of its messages: the contract's ChannelState."""
        return self._state

    @property
    def is_synchronous(self) -> bool:
        """It hands over within `handle`, in the caller's thread, and stores nothing."""
        return self._is_synchronous

    @property
    def is_storing_undeliverable_messages(self) -> bool:
        """A queue does; a topic, and what is synchronous, discards them (STATE-8, STATE-13)."""
        return not (self._is_synchronous or self._state.is_offered_to_all)

    @property
    def receivers(self) -> Sequence[Receiver]:
        """In the order in which they were added."""
        return tuple(self._receivers.values())

    def set_synchronous(self, value: bool, /) -> bool:
        """True iff it switched: not when it is so already, nor to synchronous while it holds messages."""
        with self._opened():
            if value == self._is_synchronous or (value and self._state.held):
                return False
            self._is_synchronous = value
            return True

    # -- messages come -----------------------------------------------------------------------------------------

    def accept(self, routable: Routable, /) -> bool:
        """Return True if `handle` would take it now."""
        if self._state.is_closed or self._refusal(routable) is not None:
            return False
        return not self._is_synchronous or self._accepts_now(routable)

    def _accepts_now(self, routable: Routable) -> bool:
        """Synchronously: somebody would take it. Else its answer would say that it is taken, and owed (STATE-10)."""
        return True

    def handle(self, routable: Routable, /) -> bool:
        """Store the message, NOT_COMMITTED in an open transaction, else NEW, and offer what nobody was offered yet.

        What receivers do with it changes nothing for the sender: True is its acknowledgement. A synchronous channel
        stores nothing, and its answer is the receivers'. A message will do, or a reference into this channel's store.

        Raises:
            RoutableNotAcceptedError: a message of this id is here, or the channel cannot hold it (STATE-11); nothing
                changed.
            IllegalStateError: the channel is closed.
        """
        state = self._state
        with self._opened():
            is_passed_on, reason = self._is_synchronous, self._refusal(routable)
            if reason is not None:
                raise refused(self.name, routable, reason)
            message = message_of(routable, channel=self.name, store=state.message_store)
            if not is_passed_on and self._is_kept():
                state.take(message)
        if not is_passed_on:
            self._offer_soon()
            return True
        is_late = is_expired(message.expiration_ms, state.clock_ms())
        return not is_late and self._pass_on(shown(message, redelivered=False))

    def _refusal(self, routable: Routable) -> str | None:
        if not self._is_synchronous:
            return self._state.refusal(routable)
        is_open = self._state.open_transaction is not None
        return "a transaction is open and a synchronous channel holds nothing for it" if is_open else None

    @abstractmethod
    def _pass_on(self, message: CoreMessage) -> bool:
        """Synchronously: the receivers' answer. Nothing is stored."""

    def _is_kept(self) -> bool:
        """Return True if a message that comes now is to be stored at all."""
        return True

    # -- messages go -------------------------------------------------------------------------------------------

    def add_receiver(self, receiver: Receiver, /) -> None:
        """Offer messages to this one too, from the next message, commit or `deliver()` on.

        Raises:
            IllegalStateError: another receiver has its id, or the channel is closed.
        """
        with self._opened():
            known = self._receivers.setdefault(receiver.receiver_id, receiver)
            if known is not receiver:
                raise IllegalStateError(
                    f"channel {self.name!r} has another receiver {receiver.receiver_id!r}; remove it first",
                    receiver_id=receiver.receiver_id,
                )

    def deliver(self) -> bool:
        """Offer every NEW message present now; True iff none is NEW any more (STATE-9).

        Does nothing when a receiver calls it: each message is offered once in a pass.
        """
        self._check_open()
        with self._one_pass() as is_outermost:
            if is_outermost:
                self._begin_pass()
                self._offer_waiting(everything=True)
        return not self.has_messages(MessageState.NEW)

    def redeliver(self, receiver: Receiver, /) -> bool:
        """Offer this receiver again what it owes, registered or not; True iff it owes nothing any more (STATE-9).

        The messages stay in its hand meanwhile. After a refusal nothing more of that unit is offered.
        """
        self._check_open()
        state, refused_units = self._state, set[GateKey]()
        with self._one_pass():
            self._begin_pass()
            lost = state.lost(receiver.receiver_id)  # before: what it loses meanwhile is not for it
            for reference in state.owed_by(receiver.receiver_id):
                if reference.gate_key not in refused_units and not self._offer_again(receiver, reference):
                    refused_units.add(reference.gate_key)
            for reference in lost:
                self._offer_lost(receiver, reference)
        owed = state.owed_by(receiver.receiver_id, all_of_them=True)
        return not owed and not state.lost(receiver.receiver_id)

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
        return self._state.expire(now_ms)

    def close(self) -> None:
        """All receivers leave, open transactions of its messages can only roll back. What was recorded is kept."""
        if not self._state.is_closed:
            self._state.close()
            self._receivers = {}

    def _begin_pass(self) -> None:
        """Finish what waits for nobody, before anybody is offered anything. The caller has the pass."""

    @abstractmethod
    def _offer(self, reference: Reference) -> None:
        """Offer one NEW message to whom it may go to."""

    def _offer_lost(self, receiver: Receiver, reference: Reference) -> None:
        """Offer it one that came back when it was lost."""

    def _offer_waiting(self, *, everything: bool) -> None:
        """One pass: offer what nobody was offered yet, or everything that is NEW. The caller has the pass."""
        tried = set[tuple[int, str | None]]()
        with self._state.lock:
            self._state.core.apply(c.TimePassed(self._state.clock_ms()))
            end = self._state.core.end_position
        while (reference := self._next(tried, end, everything=everything)) is not None:
            self._offer(reference)

    def _next(self, tried: set[tuple[int, str | None]], end: int, *, everything: bool) -> Reference | None:
        """The message to offer next in a pass, of those that came before `end`.

        Each is tried once, and once more when its unit came free meanwhile: then others may have it. What came back
        goes in a pass over everything only (STATE-5).
        """
        state = self._state
        with state.lock:
            for reference in state.core.heads():
                attempt = (reference.offset, state.core.owner_of(reference.gate_key))
                is_due = everything or not state.is_redelivered(reference)
                if is_due and reference.offset < end and attempt not in tried and not state.is_spoken_for(reference):
                    tried.add(attempt)
                    return reference
        return None

    def _offer_to(self, receiver: Receiver, reference: Reference, message: CoreMessage) -> bool:
        """Hand it over and record that; False when the receiver did not take it. The message is reserved."""
        state, name = self._state, receiver.receiver_id
        answer = ask(receiver, message)
        with state.lock:
            is_taken = answer is not OfferAnswer.REFUSED or name in state.share_of(reference).early
            if is_taken:
                state.record_delivery(name, reference, acknowledged=answer is OfferAnswer.ACKNOWLEDGED)
            return is_taken

    def _offer_again(self, receiver: Receiver, reference: Reference) -> bool:
        """Return True if it took the message again; one whose time has ended comes back, and leaves (STATE-4)."""
        state, receiver_id = self._state, receiver.receiver_id
        if receiver_id not in state.share_of(reference).owing:
            return True  # settled meanwhile, or lost
        if is_expired(reference.expiration_ms, state.clock_ms()):
            state.give_up(reference, receiver_id)
            return True
        message = self._shown(reference, redelivered=True)
        answer = OfferAnswer.REFUSED if message is None else ask(receiver, message)
        if answer is OfferAnswer.ACKNOWLEDGED and reference in state.owed_by(receiver_id):
            state.acknowledge(message_id_of(reference), receiver_id)
        return answer is not OfferAnswer.REFUSED

    def _shown(self, reference: Reference, *, redelivered: bool) -> CoreMessage | None:
        """Return the message as a receiver sees it; None when it is not here, or has lost its body."""
        if not self._state.is_here(reference):
            return None
        try:
            return shown(self.message_store.retrieve(message_id_of(reference)), redelivered=redelivered)
        except UnknownMessageError:
            logger.exception("%s: a message has lost its body and cannot be delivered", self.name)
            return None

    # -- whose turn it is to call receivers --------------------------------------------------------------------

    @contextmanager
    def _one_pass(self) -> Iterator[bool]:
        """Within the block no other thread has a pass; False when it is within a pass of this thread."""
        with self._pass:
            self._depth += 1
            try:
                yield self._depth == 1
            finally:
                self._depth -= 1
        self._look_again()

    def _offer_soon(self) -> None:
        """Offer what nobody was offered yet, now or by the thread that has the pass: nobody waits for a receiver.

        Within a pass of this thread nothing is done: two channels would keep each other busy for ever. Nor in an open
        transaction, whose fate the receivers' answers would share. A failure is not the sender's: it may be about
        another's message, and its own is stored.
        """
        if self._state.open_transaction is not None:
            return
        try:
            if not self._try_pass():
                self._is_asked = True
            self._look_again()
        except Exception:
            told = "%s: what became of a message cannot be recorded; nothing is lost, the next one or deliver() goes on"
            logger.exception(told, self.name)

    def _look_again(self) -> None:
        """A thread that asks finds the pass taken; one that leaves the pass comes here: one of both sees the other."""
        while self._is_asked and not self._depth and self._try_pass():
            pass

    def _try_pass(self) -> bool:
        """False when another thread has the pass. Within this thread's own nothing is done, and no ask is forgotten."""
        if not self._pass.acquire(blocking=False):
            return False
        try:
            if not self._depth:
                self._is_asked, self._depth = False, 1
                try:
                    self._offer_waiting(everything=False)
                finally:
                    self._depth = 0
        finally:
            self._pass.release()
        return True

    # -- looking -----------------------------------------------------------------------------------------------

    def browse(self, filter: Filter | None = None, /) -> list[CoreMessage]:  # noqa: A002 - the contract's word
        """Return what is NEW or DELIVERED, in arrival order; consumes nothing (STATE-9)."""
        messages = self._messages(MessageState.NEW, MessageState.DELIVERED)
        return [message for message in messages if filter is None or filter.accept(message)]

    def has_messages(self, state: MessageState, /) -> bool:
        """Return True if it holds messages in that state."""
        with self._opened():
            return any(self._state.core.state_of(offset) is state for offset in self._state.by_offset)

    def get_messages(self, state: MessageState, /) -> list[CoreMessage]:
        """Return those it holds in that state, in arrival order."""
        return self._messages(state)

    def _messages(self, *states: MessageState) -> list[CoreMessage]:
        state = self._state
        with self._opened():
            return [
                shown(self.message_store.retrieve(message_id), redelivered=state.is_redelivered(reference))
                for message_id, reference in state.held.items()
                if state.core.state_of(reference.offset) in states
            ]

    def _check_open(self) -> None:
        if self._state.is_closed:
            raise IllegalStateError(f"channel {self.name!r} is closed; make a new one of that name")

    @contextmanager
    def _opened(self) -> Iterator[None]:
        with self._state.lock:
            self._check_open()
            yield
