"""A topic in one process: each message goes to all receivers of that moment, and stays until each has acknowledged it.

To the machine all receivers are one session, EVERYBODY, that has each message in hand; who of them owes what is kept
here, for over Kafka a message has one hand at a time (STATE-4). A topic stores no message for receivers that are not
there: a durable subscription is a queue channel that is a receiver of the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from jbm_kafka.contract import (
    CoreMessage,
    MessageState,
    MessageStore,
    PersistenceManager,
    Receiver,
    Routable,
    TransactionManager,
)
from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.departure import DEPARTS_BY
from jbm_kafka.core.channel.entries import MessageFate
from jbm_kafka.core.channel.redelivery import is_expired
from jbm_kafka.core.channel.redelivery_states import RETURNED
from jbm_kafka.core.channel.reference import Reference, SessionId
from jbm_kafka.core.channel.states import Move, transition
from jbm_kafka.core.jms_errors import UnknownMessageError
from jbm_kafka.local.channel import LocalChannel, OfferAnswer, ask, wall_clock_ms
from jbm_kafka.local.contract_state import decide_delivery
from jbm_kafka.local.state import LocalChange, LocalChannelState, Shared, message_id_of

EVERYBODY: Final[SessionId] = "<everybody>"
IN_PART: Final = transition(MessageState.DELIVERED, Move.ACKNOWLEDGED_IN_PART)


class TopicState(LocalChannelState):
    """The messages of a topic, with NACK sets of several receivers."""

    kind = "topic"
    may_be_redelivered_after_restart = True

    def __init__(
        self,
        name: str,
        message_store: MessageStore,
        persistence_manager: PersistenceManager | None,
        transaction_manager: TransactionManager | None,
        clock_ms: Callable[[], int],
    ) -> None:
        super().__init__(name, message_store, persistence_manager, transaction_manager, clock_ms)
        self._shares: dict[int, Shared] = {}

    def share_of(self, reference: Reference) -> Shared:
        """Who has to do with the message."""
        return self._shares.get(reference.offset) or Shared(reference)

    def is_here(self, reference: Reference) -> bool:
        """Not when it left meanwhile, or the channel was closed."""
        return not self.is_closed and reference.offset in self.by_offset

    def owing(self, offset: int) -> frozenset[str]:
        return self.share_of(self.by_offset[offset]).owing

    def is_submitted(self, offset: int, receiver_id: str) -> bool:
        return receiver_id in self.submitted.get(offset, {})

    def owed_by(self, receiver_id: str, *, all_of_them: bool = False) -> list[Reference]:
        """Return what it has, in order; without what it has acknowledged in an open transaction."""
        with self.lock:
            owed = [each for each in self.held.values() if receiver_id in self.share_of(each).owing]
            return [each for each in owed if all_of_them or not self.is_submitted(each.offset, receiver_id)]

    def update(self, message_id: str, receiver_id: str, positive: bool, /) -> None:
        with self.lock:
            reference = self.find(message_id)
            super().update(message_id, receiver_id, positive)
            if not positive:
                self.finish(reference)

    def record_delivery(self, receiver_id: str, reference: Reference, *, acknowledged: bool = False) -> bool:
        with self.lock:
            if not self.is_here(reference):
                return False
            share, is_new = self.share_of(reference), self.core.is_waiting(reference.offset)
            taken = decide_delivery(self.core, EVERYBODY, reference) if is_new else None
            if is_new and taken is None:
                return False
            owes = {receiver_id} - share.early
            share = replace(share, owing=share.owing | owes, early=share.early - {receiver_id})
            self.change(*([] if taken is None else [taken]), share)
            if acknowledged and owes and not self.is_submitted(reference.offset, receiver_id):
                self.acknowledge(message_id_of(reference), receiver_id)
            return True

    def settling(self, reference: Reference, receivers: Collection[str], *, now: bool = False) -> list[LocalChange]:
        share, offset = self.share_of(reference), reference.offset
        others = frozenset(receivers) - share.owing
        if offset in self.core.uncommitted:
            transition(MessageState.NOT_COMMITTED, Move.ACKNOWLEDGED_EARLY)
        if not now and (others & share.early or (others and share.is_offered)):
            raise UnknownMessageError(
                f"{', '.join(others)} does not have message {message_id_of(reference)!r}, or acknowledged it before",
                offset=offset,
            )
        owing = share.owing.difference(receivers)
        if share.is_offered and not owing:
            return [c.Acknowledged(EVERYBODY, [offset])]
        first = [c.AcknowledgedEarly(EVERYBODY, reference)] if self.core.is_waiting(offset) else []
        return [*first, replace(share, owing=owing, early=share.early | others, transition=IN_PART)]

    def finish(self, reference: Reference) -> None:
        """Everybody was offered it: it stays while somebody owes it; what nobody took is discarded (STATE-8)."""
        with self.lock:
            if not self.is_here(reference):
                return
            share = self._shares[reference.offset] = replace(self.share_of(reference), is_offered=True)
            if share.owing:
                self.change(share)
            elif self.core.is_waiting(reference.offset):
                self.change(c.Withdrawn([reference], transition(MessageState.NEW, Move.DISCARDED)))
            else:
                self.change(c.Acknowledged(EVERYBODY, [reference.offset]))

    def finish_again(self) -> None:
        """Have those leave that everybody was offered and nobody owes, when that could not be recorded before."""
        with self.lock:
            for share in [each for each in self._shares.values() if each.is_offered and not each.owing]:
                self.finish(share.reference)

    def give_up(self, reference: Reference, receiver_id: str) -> None:
        """The receiver does not have it any more, for its time has ended; the last one's share takes it away."""
        with self.lock:
            share = self.share_of(reference)
            if receiver_id not in share.owing or not self.is_here(reference):
                return
            owing = share.owing - {receiver_id}
            if owing or not share.is_offered:
                row = transition(MessageState.DELIVERED, Move.RETURNED_IN_PART)
                self.change(replace(share, owing=owing, transition=row))
                self.submitted.get(reference.offset, {}).pop(receiver_id, None)
            else:
                back = c.ReturnedMessage(reference.offset, attempts=0, due_at_ms=0, delay_ms=0, reason=RETURNED)
                gone = c.Withdrawn([reference], DEPARTS_BY[MessageFate.EXPIRED])
                self.change(c.Returned(EVERYBODY, [back]), gone)

    def take_early(self, reference: Reference, receiver_id: str) -> bool:
        """Return True if this receiver acknowledged the message before it was offered it (STATE-6): it is settled
        so."""
        with self.lock:
            share = self.share_of(reference)
            if receiver_id in share.early:
                self._shares[reference.offset] = replace(share, early=share.early - {receiver_id})
            return receiver_id in share.early

    def find_again(self) -> None:
        """Hold again what an earlier channel had recorded; its receivers may come back and ask for what they owe."""
        for record in self.recover():
            if record.owing:
                reference = self.by_offset[record.offset]
                self.core.apply(c.FoundInHand(EVERYBODY, reference))
                self._shares[record.offset] = Shared(reference, frozenset(record.owing), is_offered=True)

    def apply(self, change: LocalChange) -> None:
        if isinstance(change, Shared):
            assert change.transition is None or self.core.holder_of(change.reference.offset) == EVERYBODY, change
            self._shares[change.reference.offset] = change
        else:
            super().apply(change)

    def encoded(self, reference: Reference) -> bytes:
        return self.share_of(reference).encoded()

    def _touched_by(self, change: LocalChange) -> Sequence[int]:
        return []  # only shares are written, before they count

    def _forget(self, reference: Reference) -> None:
        super()._forget(reference)
        self._shares.pop(reference.offset, None)


class TopicChannel(LocalChannel[TopicState]):
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
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        state = TopicState(name, message_store, persistence_manager, transaction_manager, clock_ms)
        super().__init__(state, synchronous=synchronous)
        state.find_again()

    def _accepts_now(self, routable: Routable) -> bool:
        return True

    def _is_kept(self) -> bool:
        """Nobody is there: discarded, and the sender acknowledged (STATE-8); in a transaction that is asked later."""
        return bool(self._receivers) or self._state.open_transaction is not None

    def _pass_on(self, message: CoreMessage) -> bool:
        """True iff every receiver took the message and acknowledged it."""
        answers = [ask(receiver, message) for receiver in self.receivers]
        return all(answer is OfferAnswer.ACKNOWLEDGED for answer in answers)

    def _is_spoken_for(self, reference: Reference) -> bool:
        return reference.offset in self._state.reserved

    def remove_receiver(self, receiver_id: str, /) -> None:
        """It gets nothing more by itself; it may still ask for what it owes (`redeliver`). Unknown ids do nothing."""
        with self._opened():
            self._receivers.pop(receiver_id, None)

    def redeliver(self, receiver: Receiver, /) -> bool:
        """Offer this receiver again what it owes, registered or not; True iff it owes nothing any more (STATE-9)."""
        self._check_open()
        receiver_id = receiver.receiver_id
        refused_units: set[bytes | int] = set()
        with self._one_pass():
            for reference in self._state.owed_by(receiver_id):
                unit = reference.gate_key
                if unit not in refused_units and not self._offer_again(receiver, reference):
                    refused_units.add(unit)
        return not self._state.owed_by(receiver_id, all_of_them=True)

    def _offer_waiting(self, *, everything: bool) -> None:
        state, tried = self._state, set[tuple[int, str | None]]()
        with state.lock:
            state.core.apply(c.TimePassed(state.clock_ms()))
            state.finish_again()
            early = [each for each in state.held.values() if state.core.holder_of(each.offset) == EVERYBODY]
            early, end = [each for each in early if not state.share_of(each).is_offered], state.core.end_position
        for reference in early:
            self._offer(reference)
        while (head := self._next(tried, end, everything=True)) is not None:
            self._offer(head)

    def _offer(self, reference: Reference) -> None:
        state, receivers = self._state, self.receivers
        if is_expired(reference.expiration_ms, now_ms := state.clock_ms()):
            self._expire(now_ms)
            receivers = ()
        message = self._shown_here(reference, redelivered=state.is_redelivered(reference))
        if message is None:
            return
        with state.reserve([reference]):
            for receiver in receivers:
                name = receiver.receiver_id
                if state.take_early(reference, name) or name in state.share_of(reference).owing:
                    continue
                answer = ask(receiver, message) if state.is_here(reference) else OfferAnswer.REFUSED
                if answer is not OfferAnswer.REFUSED or name in state.share_of(reference).early:
                    state.record_delivery(name, reference, acknowledged=answer is OfferAnswer.ACKNOWLEDGED)
        state.finish(reference)

    def _offer_again(self, receiver: Receiver, reference: Reference) -> bool:
        """Return True if it took the message again; one whose time has ended comes back, and leaves."""
        state, receiver_id = self._state, receiver.receiver_id
        if is_expired(reference.expiration_ms, state.clock_ms()):
            state.give_up(reference, receiver_id)
            return True
        message = self._shown_here(reference, redelivered=True)
        answer = OfferAnswer.REFUSED if message is None else ask(receiver, message)
        if answer is OfferAnswer.ACKNOWLEDGED and reference in state.owed_by(receiver_id):
            state.acknowledge(message_id_of(reference), receiver_id)
        return answer is not OfferAnswer.REFUSED

    def _shown_here(self, reference: Reference, *, redelivered: bool) -> CoreMessage | None:
        return self._shown(reference, redelivered=redelivered) if self._state.is_here(reference) else None
