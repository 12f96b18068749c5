"""How a channel offers its messages to receivers: one pass at a time, the receiver first, the record after it.

A message that came and a commit offer what nobody has taken yet (STATE-13), in order; everything that is NEW is offered
when the channel is asked to deliver, and what came back only then (STATE-5).

Until a receiver took it a message is NEW, so a refusal leaves no trace (STATE-10). The state's lock is never held
while a receiver or a filter runs; an acknowledgement may come from any thread, and before the delivery is recorded.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterator, Sequence
from enum import Enum

from jbm_kafka.contract import CoreMessage, Receiver
from jbm_kafka.core import changes as c
from jbm_kafka.core.delivery_count import delivery_count_of
from jbm_kafka.core.jms_errors import RoutableNotAcceptedError, UnknownMessageError
from jbm_kafka.core.redelivery import is_exhausted, is_expired
from jbm_kafka.core.reference import GateKey, Reference, SessionId
from jbm_kafka.core.settlement import RETURNED
from jbm_kafka.local.channel_messages import shown
from jbm_kafka.local.delivery_lock import DeliveryLock
from jbm_kafka.local.handover import decide_delivery, heads
from jbm_kafka.local.ledger import message_id_of
from jbm_kafka.local.receivers import Receivers
from jbm_kafka.local.returning import LocalDepartures
from jbm_kafka.local.state import LocalChannelState

logger = logging.getLogger(__name__)


class OfferAnswer(Enum):
    """What a receiver says to a message."""

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


def offer_soon(channel: str, lock: DeliveryLock) -> None:
    """Have a pass made for what is stored or committed already; when it fails, the sender does not get the error.

    It may have been about another's message, and a message that is sent again because of it is there already.
    """
    try:
        lock.work_soon()
    except Exception:
        logger.exception(
            "%s: what became of an offered message cannot be recorded; nothing is lost, the next message or deliver() "
            "goes on",
            channel,
        )


class Offering:
    """The passes over one channel's messages."""

    def __init__(self, state: LocalChannelState, receivers: Receivers, departures: LocalDepartures) -> None:
        self._state = state
        self._receivers = receivers
        self._departures = departures
        self._delivery_lock = DeliveryLock(self._offer_unoffered)
        self._is_delivering = False
        self._lost_by: dict[int, str] = {}
        """NEW messages by the receiver whose loss returned them, until somebody takes them."""

    def deliver(self) -> None:
        """Offer every NEW message present now, each to the receivers in turn; does nothing when a receiver calls it."""
        with self._delivery_lock.one():
            if self._is_delivering:
                return
            self._is_delivering = True
            try:
                self._begin()
                with self._state.lock:
                    self._state.ledger.unoffered.clear()
                for reference in self._candidates():
                    self._offer(reference)
            finally:
                self._is_delivering = False

    def offer_first(self) -> None:
        """Offer what nobody was offered yet, soon and without waiting for anybody (`DeliveryLock.work_soon`).

        Nothing in an open transaction, whose fate the receivers' answers would share.
        """
        state = self._state
        if self._receivers.all and state.ledger.unoffered and state.transactions.open_transaction is None:
            offer_soon(state.name, self._delivery_lock)

    def redeliver(self, receiver: Receiver) -> bool:
        """Offer the receiver what it owes, each once; True iff it owes nothing any more.

        Without a redelivery delay the messages stay in its hand meanwhile; with one they wait first, for anybody.
        """
        receiver_id = receiver.receiver_id
        with self._delivery_lock.one():
            self._begin()
            owed = self._owed_by(receiver_id)
            waiting = self._lost(receiver_id)
            if self._are_due_again(owed):
                self._offer_again(receiver, owed)
            else:
                self._departures.give_back(receiver_id, owed)
                waiting += self._note_lost(receiver_id, owed, if_due=True)
            for reference in sorted(waiting):
                if self._may_offer(receiver_id, reference):
                    self._offer_to(receiver, reference)
        with self._state.lock:
            return not (self._owed_by(receiver_id, all_of_them=True) or self._lost(receiver_id))

    def lose(self, receiver_id: str) -> None:
        """The receiver is gone: what it has in hand comes back at once (STATE-5), but for acknowledgements in doubt."""
        with self._state.lock:
            self._state.complete_early()
            references = self._owed_by(receiver_id)
        self.lose_some(receiver_id, references)

    def lose_some(self, receiver_id: str, references: Sequence[Reference]) -> None:
        """These come back from a receiver that is gone."""
        self._departures.give_back(receiver_id, references, delay_ms=0)
        self._note_lost(receiver_id, references)

    # -- one pass ----------------------------------------------------------------------------------------------

    def _offer_unoffered(self) -> None:
        state = self._state
        with state.lock:
            state.core.apply(c.TimePassed(state.ledger.clock_ms()))
            units, end = list(state.ledger.unoffered), state.core.end_position
            state.ledger.unoffered.clear()
        heads = [head for head in map(self._head, units) if head is not None]
        due = [(-head.priority, head.offset, head.gate_key) for head in heads]
        try:
            for reference in self._in_turn(due, set(), end):
                if not state.is_redelivered(reference):
                    self._offer(reference)
        except BaseException:
            with state.lock:
                gates = state.core.gates.by_key
                state.ledger.unoffered.update((unit, None) for unit in units if unit in gates)
            raise

    def _begin(self) -> None:
        state, now_ms = self._state, self._state.ledger.clock_ms()
        with state.lock:
            state.core.apply(c.TimePassed(now_ms))
            state.complete_early()
        self._departures.expire(now_ms)

    def _candidates(self) -> Iterator[Reference]:
        """Messages that may go, the highest priority and then the oldest first, none that came later.

        Each once, and once more when its unit came free meanwhile: then others may have it.
        """
        state, tried = self._state, set[tuple[int, SessionId | None]]()
        with state.lock:
            end = state.core.end_position
        while True:
            with state.lock:
                going = [r for r, owner in heads(state.core) if (r.offset, owner) not in tried]
                due = [(-r.priority, r.offset, r.gate_key) for r in going]
            due = [entry for entry in due if entry[1] < end]
            if not due:
                return
            yield from self._in_turn(due, tried, end)

    def _in_turn(
        self, due: list[tuple[int, int, GateKey]], tried: set[tuple[int, SessionId | None]], end: int
    ) -> Iterator[Reference]:
        """These heads, the best first, and behind each the next of its unit if it can go then."""
        heapq.heapify(due)
        while due:
            _, offset, unit = heapq.heappop(due)
            reference = self._state.ledger.by_offset.get(offset)
            if reference is not None and offset < end:
                tried.add((offset, self._owner(unit)))
                yield reference
            follower = self._head(unit)  # also of one that expired when another was offered
            if follower is None or follower.offset >= end:
                continue
            if (follower.offset, self._owner(unit)) not in tried:
                heapq.heappush(due, (-follower.priority, follower.offset, unit))

    def _owner(self, key: GateKey) -> SessionId | None:
        """The session that holds earlier messages of this unit."""
        with self._state.lock:
            gate = self._state.core.gates.by_key.get(key)
            return None if gate is None else gate.owner

    def _head(self, key: GateKey) -> Reference | None:
        """The message of this unit that may go next, if one may."""
        with self._state.lock:
            gate = self._state.core.gates.by_key.get(key)
            return gate.waiting[0] if gate is not None and gate.listed_in is not None else None

    def _offer(self, reference: Reference) -> None:
        if self._departures.is_out_of_attempts(reference):
            self._departures.leave_again(reference)
            return
        for receiver in self._receivers_for(reference):
            if not self._may_offer(receiver.receiver_id, reference):
                return
            if self._offer_to(receiver, reference):
                return
        with self._state.lock:  # as if it had never been offered (STATE-10): before what comes after it
            if self._state.ledger.is_waiting(reference) and not self._state.is_redelivered(reference):
                self._state.ledger.unoffered[reference.gate_key] = None

    def _receivers_for(self, reference: Reference) -> tuple[Receiver, ...]:
        """The one that has earlier messages of its unit in hand (UNIT-3); when nobody has, all of them."""
        with self._state.lock:
            owner = self._owner(reference.gate_key)
            if owner is None:
                return self._receivers.in_turn()
            receiver = self._receivers.find(owner)
            return () if receiver is None else (receiver,)

    def _may_offer(self, receiver_id: str, reference: Reference) -> bool:
        """Whether it may go to this receiver now; one found to have expired is sent off on the way."""
        state = self._state
        with state.lock:
            if (
                state.is_closed
                or reference.offset in state.reserved
                or reference.offset in state.transactions.submitted
                or self._head(reference.gate_key) != reference
                or decide_delivery(state.core, receiver_id, reference) is None
            ):
                return False
        now_ms = state.ledger.clock_ms()
        if is_expired(reference.expiration_ms, now_ms):
            self._departures.expire(now_ms)
            return False
        return not self._departures.is_out_of_attempts(reference)

    def _offer_to(self, receiver: Receiver, reference: Reference) -> bool:
        """Hand it over and record that; False when the receiver did not take it."""
        state, receiver_id = self._state, receiver.receiver_id
        message = self._shown(reference, redelivered=state.is_redelivered(reference))
        if message is None:
            return False
        was_present = receiver_id in self._receivers
        with state.reserve([reference]):
            answer = ask(receiver, message)
            with state.lock:
                if answer is OfferAnswer.REFUSED and (receiver_id, reference.offset) not in state.core.early:
                    return False
                state.record_delivery(receiver_id, reference, acknowledged=answer is OfferAnswer.ACKNOWLEDGED)
                self._lost_by.pop(reference.offset, None)
                self._receivers.took_one(receiver_id)
        if was_present and receiver_id not in self._receivers:
            self.lose(receiver_id)
        return True

    def _shown(self, reference: Reference, *, redelivered: bool) -> CoreMessage | None:
        try:
            message = self._state.message_store.retrieve(message_id_of(reference))
        except UnknownMessageError:
            logger.exception("%s: a message has lost its body and cannot be delivered", self._state.name)
            return None
        return shown(message, redelivered=redelivered)

    # -- what a receiver owes ----------------------------------------------------------------------------------

    def _owed_by(self, receiver_id: str, *, all_of_them: bool = False) -> list[Reference]:
        """What it has in hand, in order; without what it is just being offered or has acknowledged in a transaction."""
        state = self._state
        with state.lock:
            hand = state.core.in_hand.get(receiver_id, {})
            return sorted(
                reference
                for offset, reference in hand.items()
                if (receiver_id, offset) not in state.core.early
                and (all_of_them or (offset not in state.reserved and offset not in state.transactions.submitted))
            )

    def _lost(self, receiver_id: str) -> list[Reference]:
        """What came back when it was lost and nobody has taken since."""
        with self._state.lock:
            mine = [offset for offset, lost_by in self._lost_by.items() if lost_by == receiver_id]
            held = [self._state.ledger.by_offset[offset] for offset in mine if offset in self._state.ledger.by_offset]
            return [reference for reference in held if self._state.ledger.is_waiting(reference)]

    def _note_lost(self, receiver_id: str, references: Sequence[Reference], *, if_due: bool = False) -> list[Reference]:
        with self._state.lock:
            redeliveries = self._state.core.redeliveries
            back = [
                reference
                for reference in references
                if self._state.ledger.is_waiting(reference)
                and not (if_due and redeliveries[reference.offset].due_at_ms > self._state.core.time_ms)
            ]
            self._lost_by.update((reference.offset, receiver_id) for reference in back)
            return back

    def _are_due_again(self, references: Sequence[Reference]) -> bool:
        """Whether all of these may be handed over again on the spot: no delay, attempts and time left."""
        state, settings, now_ms = self._state, self._departures.settings, self._state.ledger.clock_ms()
        return not settings.redelivery_delay_ms and not any(
            is_exhausted(delivery_count_of(state.core, reference.offset).attempts + 1, settings.max_delivery_attempts)
            or is_expired(reference.expiration_ms, now_ms)
            for reference in references
        )

    def _offer_again(self, receiver: Receiver, references: Sequence[Reference]) -> None:
        """Offer what stays in its hand; after a refusal nothing more of that unit."""
        refused: set[GateKey] = set()
        for reference in references:
            message = self._shown(reference, redelivered=True)
            if reference.gate_key in refused or message is None or not self._has(receiver.receiver_id, reference):
                continue
            with self._state.reserve([reference]):
                answer = ask(receiver, message)
                if answer is OfferAnswer.REFUSED:
                    refused.add(reference.gate_key)
                else:
                    self._record_again(receiver.receiver_id, reference, answer)

    def _record_again(self, receiver_id: str, reference: Reference, answer: OfferAnswer) -> None:
        state = self._state
        with state.lock:
            if not self._has(receiver_id, reference):
                return
            if answer is OfferAnswer.TAKEN or state.transactions.open_transaction is not None:
                attempts = delivery_count_of(state.core, reference.offset).attempts + 1
                again = c.ReturnedMessage(reference.offset, attempts, due_at_ms=0, delay_ms=0, reason=RETURNED)
                state.ledger.change(c.OfferedAgain(receiver_id, [again]))
            if answer is OfferAnswer.ACKNOWLEDGED and reference.offset not in state.transactions.submitted:
                state.acknowledge(message_id_of(reference), receiver_id)

    def _has(self, receiver_id: str, reference: Reference) -> bool:
        with self._state.lock:
            return reference.offset in self._state.core.in_hand.get(receiver_id, {})
