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
from typing import ClassVar

from jbm_kafka.contract import (
    Channel,
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
from jbm_kafka.core.channel.reference import GateKey
from jbm_kafka.core.jms_errors import IllegalStateError, RoutableNotAcceptedError, UnknownMessageError
from jbm_kafka.local.channel_messages import message_of, part_of, refused, shown
from jbm_kafka.local.contract_state import decide_delivery
from jbm_kafka.local.state import Holding, LocalChannelState

logger = logging.getLogger(__name__)


def wall_clock_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def ask(receiver: Receiver, message: CoreMessage) -> bool | None:
    """Offer the message, advice first, and return the answer: acknowledged, or taken and owed; None: refused.

    The log names a receiver that raises, and the channel goes on.
    """
    try:
        return bool(receiver.handle(message)) if receiver.accept(message) else None
    except RoutableNotAcceptedError:
        return None
    except Exception:
        logger.exception("receiver %s broke on message %s; it stays", receiver.receiver_id, message.message_id)
        return None


class LocalChannel(Channel, ABC):
    """The part that a queue and a topic share: they differ in whom they offer a message to, and when it is finished.

    With a persistence manager, a new channel of the same name over the same store goes on where this one ended. Time is
    `clock_ms`, the wall clock unless given. Thread-safe.
    """

    _is_topic: ClassVar[bool]
    name: str = part_of("_state", "name")
    """The channel's name, and as a receiver of other channels its id."""
    receiver_id = part_of("_state", "name")
    message_store = part_of("_state", "message_store")
    persistence_manager = part_of("_state", "persistence_manager")
    transaction_manager = part_of("_state", "transaction_manager")
    is_reliable = part_of("_state", "is_reliable")
    is_transactional = part_of("_state", "is_transactional")

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
        self._state = LocalChannelState(name, message_store, *managers, clock_ms, self._is_topic)
        self._is_synchronous = synchronous
        self._receivers: dict[str, Receiver] = {}
        """The receivers by id, in the order in which they were added."""
        self._pass = threading.RLock()
        self._depth = 0
        """How many passes are open in the thread that has the lock."""
        self._is_asked = False
        """Another thread wants a pass made as soon as this one is over."""
        self._state.offer_committed = self._offer_soon
        self._state.recover()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def state(self) -> LocalChannelState:
        """Return what the channel knows of its messages: the contract's ChannelState."""
        return self._state

    @property
    def is_synchronous(self) -> bool:
        return self._is_synchronous

    @property
    def is_storing_undeliverable_messages(self) -> bool:
        return not (self._is_synchronous or self._is_topic)

    @property
    def receivers(self) -> Sequence[Receiver]:
        return tuple(self._receivers.values())

    def set_synchronous(self, value: bool, /) -> bool:
        with self._opened():
            if value == self._is_synchronous or (value and self._state.held):
                return False
            self._is_synchronous = value
            return True

    # -- messages come -----------------------------------------------------------------------------------------

    def accept(self, routable: Routable, /) -> bool:
        """Return True if `handle` would take it now.

        A synchronous queue asks its receivers, or its answer would say that the message is taken, and owed (STATE-10).
        """
        if self._state.is_closed or self._refusal(routable) is not None:
            return False
        is_asked = self._is_synchronous and not self._is_topic
        return not is_asked or any(each.accept(routable) for each in self.receivers)

    def handle(self, routable: Routable, /) -> bool:
        state = self._state
        with self._opened():
            is_passed_on, reason = self._is_synchronous, self._refusal(routable)
            if reason is not None:
                raise refused(self.name, routable, reason)
            message = message_of(routable, channel=self.name, store=state.message_store)
            # A topic without receivers discards it (STATE-8); in a transaction that is asked later.
            if not is_passed_on and (self._receivers or state.open_transaction is not None or not self._is_topic):
                state.take(message)
        if not is_passed_on:
            self._offer_soon()
            return True
        is_late = is_expired(message.expiration_ms, state.clock_ms())
        return not is_late and self._forward(shown(message, redelivered=False))

    def _refusal(self, routable: Routable) -> str | None:
        if not self._is_synchronous:
            return self._state.refusal(routable)
        is_open = self._state.open_transaction is not None
        return "a transaction is open and a synchronous channel holds nothing for it" if is_open else None

    @abstractmethod
    def _forward(self, message: CoreMessage) -> bool:
        """Synchronously: the receivers' answer. Nothing is stored."""

    # -- messages go -------------------------------------------------------------------------------------------

    def add_receiver(self, receiver: Receiver, /) -> None:
        with self._opened():
            name = receiver.receiver_id
            if self._receivers.setdefault(name, receiver) is not receiver:
                told = f"channel {self.name!r} has another receiver {name!r}; remove it first"
                raise IllegalStateError(told, receiver_id=name)

    def remove_receiver(self, receiver_id: str, /) -> None:
        with self._opened():
            self._receivers.pop(receiver_id, None)
        if not self._is_topic:
            self._state.lose(receiver_id)

    def deliver(self) -> bool:
        self._check_open()
        with self._one_pass() as is_outermost:
            if is_outermost:
                self._begin_pass()
                self._offer_waiting(everything=True)
        return not self.has_messages(MessageState.NEW)

    def redeliver(self, receiver: Receiver, /) -> bool:
        self._check_open()
        state, name, refused_units = self._state, receiver.receiver_id, set[GateKey]()
        with self._one_pass():
            self._begin_pass()
            lost = state.lost(name)  # before: what it loses meanwhile is not for it
            for holding in [each for each in state.owed_by(name) if name not in each.submitted]:
                key = holding.reference.gate_key
                if key not in refused_units and not self._offer_again(receiver, holding):
                    refused_units.add(key)
            for holding in lost:
                self._offer_one(receiver, holding)
        return not state.owed_by(name) and not state.lost(name)

    def acknowledge(self, message_id: str, receiver_id: str, /) -> None:
        self._check_open()
        self._state.acknowledge(message_id, receiver_id)

    def expire(self, now_ms: int, /) -> list[str]:
        self._check_open()
        return self._state.expire(now_ms)

    def close(self) -> None:
        if not self._state.is_closed:
            self._state.close()
            self._receivers = {}

    def _begin_pass(self) -> None:
        """Finish what waits for nobody, before anybody is offered anything. The caller has the pass."""
        self._state.finish_again()
        self._state.expire(self._state.clock_ms())

    @abstractmethod
    def _offer(self, holding: Holding) -> None:
        """Offer one NEW message to whom it may go to."""

    @abstractmethod
    def _offer_one(self, receiver: Receiver, holding: Holding) -> bool:
        """Hand it over if it may go to this receiver now; False when the receiver did not take it."""

    def _offer_waiting(self, *, everything: bool) -> None:
        """One pass: offer what nobody was offered yet, or everything that is NEW. The caller has the pass."""
        tried = set[tuple[int, str | None]]()
        with self._state.lock:
            self._state.core.apply(c.TimePassed(self._state.clock_ms()))
            end = self._state.core.end_position
        while (holding := self._next(tried, end, everything=everything)) is not None:
            self._offer(holding)

    def _next(self, tried: set[tuple[int, str | None]], end: int, *, everything: bool) -> Holding | None:
        """The message to offer next in a pass, of those that came before `end`.

        Each is tried once, and once more when its unit came free meanwhile: then others may have it. What came back
        goes in a pass over everything only (STATE-5).
        """
        state = self._state
        with state.lock:
            for reference in state.core.heads():
                holding = state.by_offset[reference.offset]
                attempt = (reference.offset, state.core.owner_of(reference.gate_key))
                is_due = everything or not state.is_redelivered(holding)
                if is_due and reference.offset < end and attempt not in tried and not state.is_spoken_for(holding):
                    tried.add(attempt)
                    return holding
        return None

    def _hand_over(self, receiver: Receiver, holding: Holding, message: CoreMessage) -> bool:
        """Ask the receiver and record its answer; False when it did not take it. The message is reserved."""
        state, name = self._state, receiver.receiver_id
        answer = ask(receiver, message)
        with state.lock:
            is_taken = answer is not None or name in holding.share.early
            if is_taken:
                state.record_delivery(name, holding, acknowledged=bool(answer))
            return is_taken

    def _offer_again(self, receiver: Receiver, holding: Holding) -> bool:
        """Return True if it took the message again; one whose time has ended comes back, and leaves (STATE-4)."""
        state, name = self._state, receiver.receiver_id
        if name not in holding.share.owing or not state.is_here(holding):
            return True  # settled meanwhile, or lost
        if is_expired(holding.reference.expiration_ms, state.clock_ms()):
            state.give_up(holding, name)
            return True
        message = self._shown(holding, redelivered=True)
        answer = None if message is None else ask(receiver, message)
        is_owed = name in holding.share.owing and name not in holding.submitted
        if answer and is_owed and state.is_here(holding):
            state.acknowledge(holding.message_id, name)
        return answer is not None

    def _shown(self, holding: Holding, *, redelivered: bool | None = None) -> CoreMessage | None:
        """Return the message as a receiver sees it; None when it is not here, or has lost its body."""
        state = self._state
        if not state.is_here(holding):
            return None
        is_flagged = state.is_redelivered(holding) if redelivered is None else redelivered
        try:
            return shown(self.message_store.retrieve(holding.message_id), redelivered=is_flagged)
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
        messages = self._messages(MessageState.NEW, MessageState.DELIVERED)
        return [message for message in messages if filter is None or filter.accept(message)]

    def has_messages(self, state: MessageState, /) -> bool:
        with self._opened():
            return bool(self._state.in_state(state))

    def get_messages(self, state: MessageState, /) -> list[CoreMessage]:
        return self._messages(state)

    def _messages(self, *states: MessageState) -> list[CoreMessage]:
        state, store = self._state, self.message_store
        with self._opened():
            return [
                shown(store.retrieve(holding.message_id), redelivered=state.is_redelivered(holding))
                for holding in state.in_state(*states)
            ]

    def _check_open(self) -> None:
        if self._state.is_closed:
            raise IllegalStateError(f"channel {self.name!r} is closed; make a new one of that name")

    @contextmanager
    def _opened(self) -> Iterator[None]:
        with self._state.lock:
            self._check_open()
            yield


class QueueChannel(LocalChannel):
    """Stores every message until one receiver has acknowledged it, and takes it back when that one is lost."""

    _is_topic = False
    _turn = ""
    """The receiver that took the last message: the next one's turn."""

    def _forward(self, message: CoreMessage) -> bool:
        """Return the answer of the first receiver that takes it; False when none does."""
        for receiver in self._in_turn():
            if (answer := ask(receiver, message)) is not None:
                self._turn = receiver.receiver_id
                return answer
        return False

    def _offer(self, holding: Holding) -> None:
        any(self._offer_one(receiver, holding) for receiver in self._in_turn())

    def _in_turn(self) -> Sequence[Receiver]:
        """All receivers, the one after the last that took a message first."""
        names = list(self._receivers)
        begin = names.index(self._turn) + 1 if self._turn in names else 0
        return [self._receivers[name] for name in names[begin:] + names[:begin]]

    def _offer_one(self, receiver: Receiver, holding: Holding) -> bool:
        state, name = self._state, receiver.receiver_id
        if not self._may_offer(name, holding) or (message := self._shown(holding)) is None:
            return False
        was_present = name in self._receivers
        with state.reserve(holding):
            if not self._hand_over(receiver, holding, message):
                return False
        self._turn = name
        if was_present and name not in self._receivers and not state.is_closed:
            state.lose(name)
        return True

    def _may_offer(self, receiver_id: str, holding: Holding) -> bool:
        """Return True if it may go to this receiver now; one found to have expired is sent off on the way."""
        state = self._state
        with state.lock:
            is_free = state.is_here(holding) and not state.is_spoken_for(holding)
            if not is_free or decide_delivery(state.core, receiver_id, holding.reference) is None:
                return False
            now_ms = state.clock_ms()
            is_late = is_expired(holding.reference.expiration_ms, now_ms)
            if is_late:
                state.expire(now_ms)
            return not is_late


class TopicChannel(LocalChannel):
    """Offers every message to all receivers of that moment, and keeps it until each of them acknowledged.

    A receiver may ask again, under its id and after a restart, for what it owes. A message is not kept for receivers
    that are not there: a durable subscription is a queue channel that is a receiver of the topic.
    """

    _is_topic = True

    def _forward(self, message: CoreMessage) -> bool:
        """True iff every receiver took the message and acknowledged it."""
        answers = [ask(receiver, message) for receiver in self.receivers]
        return all(answers)

    def _offer_waiting(self, *, everything: bool) -> None:
        state = self._state
        state.finish_again()
        for holding in state.in_state(MessageState.DELIVERED):
            if not holding.share.is_offered:  # acknowledged early by one; the others are to have it
                self._offer(holding)
        super()._offer_waiting(everything=True)

    def _offer(self, holding: Holding) -> None:
        state, receivers = self._state, self.receivers
        if is_expired(holding.reference.expiration_ms, now_ms := state.clock_ms()):
            state.expire(now_ms)
            receivers = ()
        if self._shown(holding) is None:
            return
        with state.reserve(holding):
            for receiver in receivers:
                self._offer_one(receiver, holding)
        state.finish(holding)

    def _offer_one(self, receiver: Receiver, holding: Holding) -> bool:
        state, name = self._state, receiver.receiver_id
        if name in holding.share.early:
            return state.record_delivery(name, holding)  # STATE-6: that settles it
        message = None if name in holding.share.owing else self._shown(holding)
        return message is not None and self._hand_over(receiver, holding, message)
