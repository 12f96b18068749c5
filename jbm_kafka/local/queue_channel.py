"""A queue in one process: each message goes to one receiver, and stays until that has acknowledged it."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from jbm_kafka.codec.dead_letter import DEAD_LETTER_REASON, DELIVERY_COUNT
from jbm_kafka.contract import CoreMessage, MessageStore, PersistenceManager, Receiver, Routable, TransactionManager
from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.delivery_count import delivery_count_of
from jbm_kafka.core.channel.departure import DEPARTS_BY, OUT_OF_ATTEMPTS, Departure, route_of
from jbm_kafka.core.channel.redelivery import is_exhausted, is_expired
from jbm_kafka.core.channel.redelivery_states import RETURNED
from jbm_kafka.core.channel.reference import DEPARTING, GateKey, Reference
from jbm_kafka.core.channel.settlement import Modified, decide_return
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.settings.address_settings import AddressSettings, ResolvedSettings
from jbm_kafka.local.channel import LocalChannel, OfferAnswer, ask, wall_clock_ms
from jbm_kafka.local.contract_state import decide_delivery
from jbm_kafka.local.state import LocalChannelState, message_id_of

logger = logging.getLogger(__name__)


class QueueChannel(LocalChannel[LocalChannelState]):
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
        clock_ms: Callable[[], int] = wall_clock_ms,
        dead_letter_channel: Receiver | None = None,
        expiry_channel: Receiver | None = None,
    ) -> None:
        state = LocalChannelState(name, message_store, persistence_manager, transaction_manager, clock_ms)
        super().__init__(state, synchronous=synchronous, expiry_channel=expiry_channel)
        self._dead_letter_channel = dead_letter_channel
        self._settings = _resolved(settings, dead_letter_channel, expiry_channel)
        self._turn = ""
        """The receiver that took the last message: the next one's turn."""
        self._lost_by: dict[int, str] = {}
        """NEW messages by the receiver whose loss returned them, until somebody takes them."""
        self._lost_in_doubt: set[tuple[str, int]] = set()
        """Receivers lost while their acknowledgement of a message waited for its transaction."""
        state.when_discarded = self._owed_after_all
        self._recover()

    @property
    def is_storing_undeliverable_messages(self) -> bool:  # type: ignore[override]  # it depends, here
        """A queue does (STATE-8); synchronous it stores nothing at all (STATE-13)."""
        return not self._is_synchronous

    def _accepts_now(self, routable: Routable) -> bool:
        return any(each.accept(routable) for each in self.receivers)

    def _pass_on(self, message: CoreMessage) -> bool:
        """Return True when what the first receiver that takes it says; False when none does."""
        for receiver in self._in_turn():
            answer = ask(receiver, message)
            if answer is not OfferAnswer.REFUSED:
                self._turn = receiver.receiver_id
                return answer is OfferAnswer.ACKNOWLEDGED
        return False

    # -- receivers leave and ask again -------------------------------------------------------------------------

    def remove_receiver(self, receiver_id: str, /) -> None:
        """Remove it; what it has in hand comes back, one attempt more each, without a delay. Unknown ids are passed
        over."""
        state = self._state
        with self._opened():
            self._receivers.pop(receiver_id, None)
            self._lost_in_doubt.update((receiver_id, o) for o, by in state.submitted.items() if receiver_id in by)
        self._lose(receiver_id)

    def redeliver(self, receiver: Receiver, /) -> bool:
        """Offer this receiver again what it owes, registered or not; True iff it owes nothing any more (STATE-9).

        Without a redelivery delay the messages stay in its hand meanwhile; with one they wait first, for anybody.
        """
        self._check_open()
        state, receiver_id = self._state, receiver.receiver_id
        with self._one_pass():
            self._begin_pass()
            owed = self._owed_by(receiver_id)
            waiting = self._lost(receiver_id)
            if self._are_due_again(owed):
                self._offer_again(receiver, owed)
            else:
                self._give_back(receiver_id, owed)
                waiting += self._note_lost(receiver_id, owed)
            for reference in sorted(waiting):
                if self._may_offer(receiver_id, reference):
                    self._offer_to(receiver, reference)
        with state.lock:
            return not (self._owed_by(receiver_id, all_of_them=True) or self._lost(receiver_id))

    # -- one pass ----------------------------------------------------------------------------------------------

    def _offer_waiting(self, *, everything: bool) -> None:
        state = self._state
        if everything:
            self._begin_pass()
        with state.lock:
            state.core.apply(c.TimePassed(state.clock_ms()))
            end, tried = state.core.end_position, set[tuple[int, str | None]]()
        if not everything and not self._receivers:
            return
        while (reference := self._next(tried, end, everything=everything)) is not None:
            self._offer(reference)

    def _begin_pass(self) -> None:
        """Let what has expired leave, and settle what was acknowledged before anybody was offered it."""
        state, now_ms = self._state, self._state.clock_ms()
        with state.lock:
            state.core.apply(c.TimePassed(now_ms))
            self._complete_early()
        self._expire(now_ms)

    def _complete_early(self) -> None:
        state = self._state
        for receiver_id, offset in sorted(state.core.early):
            if offset not in state.reserved:  # there is no delivery to wait for
                state.change(c.Acknowledged(receiver_id, [offset]))

    def _offer(self, reference: Reference) -> None:
        if self._is_out_of_attempts(reference):
            self._leave_in_turn(reference.gate_key)
            return
        for receiver in self._receivers_for(reference):
            if not self._may_offer(receiver.receiver_id, reference) or self._offer_to(receiver, reference):
                return

    def _receivers_for(self, reference: Reference) -> Sequence[Receiver]:
        """The one that has earlier messages of its unit in hand (UNIT-3); when nobody has, all of them."""
        with self._state.lock:
            owner = self._state.core.owner_of(reference.gate_key)
            return self._in_turn() if owner is None else [each for each in self.receivers if each.receiver_id == owner]

    def _in_turn(self) -> Sequence[Receiver]:
        """All receivers, the one after the last that took a message first."""
        names = list(self._receivers)
        begin = names.index(self._turn) + 1 if self._turn in names else 0
        return [self._receivers[name] for name in names[begin:] + names[:begin]]

    def _may_offer(self, receiver_id: str, reference: Reference) -> bool:
        """Return True if it may go to this receiver now; one found to have expired is sent off on the way."""
        state = self._state
        with state.lock:
            if (
                state.is_closed
                or self._is_spoken_for(reference)
                or not state.core.is_next(reference)
                or decide_delivery(state.core, receiver_id, reference) is None
            ):
                return False
        now_ms = state.clock_ms()
        if is_expired(reference.expiration_ms, now_ms):
            self._expire(now_ms)
            return False
        return not self._is_out_of_attempts(reference)

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
                self._turn = receiver_id
        if was_present and receiver_id not in self._receivers:
            self._lose(receiver_id)
        return True

    # -- what a receiver owes ----------------------------------------------------------------------------------

    def _owed_by(self, receiver_id: str, *, all_of_them: bool = False) -> list[Reference]:
        """Return what it has in hand, in order; without what it is just being offered or has acknowledged in a
        transaction."""
        with self._state.lock:
            hand = self._state.core.in_hand.get(receiver_id, {})
            owed = [each for each in hand.values() if receiver_id in self._state.core.owing(each.offset)]
            return sorted(each for each in owed if all_of_them or not self._is_spoken_for(each))

    def _lose(self, receiver_id: str) -> None:
        """The receiver is gone: what it has in hand comes back at once (STATE-5), but for acknowledgements in doubt."""
        with self._state.lock:
            self._complete_early()
            references = self._owed_by(receiver_id)
        self._lose_some(receiver_id, references)

    def _lose_some(self, receiver_id: str, references: Sequence[Reference]) -> None:
        self._give_back(receiver_id, references, delay_ms=0)
        self._note_lost(receiver_id, references)

    def _lost(self, receiver_id: str) -> list[Reference]:
        """Return what came back when it was lost and nobody has taken since."""
        state = self._state
        with state.lock:
            mine = [offset for offset, lost_by in self._lost_by.items() if lost_by == receiver_id]
            return [state.by_offset[offset] for offset in mine if state.core.is_waiting(offset)]

    def _note_lost(self, receiver_id: str, references: Sequence[Reference]) -> list[Reference]:
        """Return those of them that wait, without a delay, and may be asked for again by who had them."""
        core = self._state.core
        with self._state.lock:
            back = [r for r in references if core.is_waiting(r.offset)]
            back = [r for r in back if core.redeliveries[r.offset].due_at_ms <= core.time_ms]
            self._lost_by.update((reference.offset, receiver_id) for reference in back)
            return back

    def _owed_after_all(self, discarded: Sequence[tuple[str, Reference]]) -> None:
        """A rollback discarded these acknowledgements: what a lost receiver owes comes back now (STATE-5, STATE-7)."""
        owed: dict[str, list[Reference]] = {}
        for receiver_id, reference in discarded:
            if (receiver_id, reference.offset) in self._lost_in_doubt:
                self._lost_in_doubt.discard((receiver_id, reference.offset))
                owed.setdefault(receiver_id, []).append(reference)
        for receiver_id, references in owed.items():
            self._lose_some(receiver_id, references)

    def _are_due_again(self, references: Sequence[Reference]) -> bool:
        """Return True if all of these may be handed over again on the spot: no delay, attempts and time left."""
        state, settings, now_ms = self._state, self._settings, self._state.clock_ms()
        return not settings.redelivery_delay_ms and not any(
            is_exhausted(delivery_count_of(state.core, reference.offset).attempts + 1, settings.max_delivery_attempts)
            or is_expired(reference.expiration_ms, now_ms)
            for reference in references
        )

    def _offer_again(self, receiver: Receiver, references: Sequence[Reference]) -> None:
        """Offer what stays in its hand; after a refusal nothing more of that unit."""
        refused: set[GateKey] = set()
        state, receiver_id = self._state, receiver.receiver_id
        for reference in references:
            message = self._shown(reference, redelivered=True)
            has_it = state.core.holder_of(reference.offset) == receiver_id
            if reference.gate_key in refused or message is None or not has_it:
                continue
            with state.reserve([reference]):
                answer = ask(receiver, message)
                with state.lock:
                    if answer is OfferAnswer.REFUSED:
                        refused.add(reference.gate_key)
                    elif state.core.holder_of(reference.offset) == receiver_id:
                        self._record_again(receiver_id, reference, answer)

    def _record_again(self, receiver_id: str, reference: Reference, answer: OfferAnswer) -> None:
        state, offset = self._state, reference.offset
        if answer is OfferAnswer.TAKEN or state.open_transaction is not None:
            attempts = delivery_count_of(state.core, offset).attempts + 1
            again = c.ReturnedMessage(offset, attempts, due_at_ms=0, delay_ms=0, reason=RETURNED)
            state.change(c.OfferedAgain(receiver_id, [again]))
        if answer is OfferAnswer.ACKNOWLEDGED and offset not in state.submitted:
            state.acknowledge(message_id_of(reference), receiver_id)

    # -- messages come back, and are given up ------------------------------------------------------------------

    def _give_back(self, receiver_id: str, references: Sequence[Reference], *, delay_ms: int | None = None) -> None:
        """The receiver gives these back: each counts as an attempt, and waits its delay (None: as the settings say).

        What has used up its attempts goes to the dead-letter channel; without one it is removed (REDELIVER-3).
        """
        if not references:
            return
        state = self._state
        with state.lock:
            decision = decide_return(
                state.core,
                receiver_id,
                [Modified(reference.offset, counted=True, delay_ms=delay_ms) for reference in references],
                settings=self._settings,
                now_ms=state.clock_ms(),
                chance=random.random(),
                keep=state.submitted,
            )
            state.change(*decision.changes)
        for leaving in decision.leaving:
            self._leave(leaving)
        for unit in dict.fromkeys(reference.gate_key for reference in references):
            self._leave_in_turn(unit)
        now_ms = state.clock_ms()
        if any(is_expired(reference.expiration_ms, now_ms) for reference in references):
            self._expire(now_ms)  # STATE-4: in hand it could not expire

    def _is_out_of_attempts(self, reference: Reference) -> bool:
        """Return True if it has used up its attempts and must not be handed over; it leaves when it can."""
        redelivery = self._state.core.redeliveries.get(reference.offset)
        return redelivery is not None and redelivery.reason == OUT_OF_ATTEMPTS

    def _leave_in_turn(self, unit: GateKey) -> None:
        """The first messages of the unit leave, one after the other, as long as they have used up their attempts."""
        state, is_gone = self._state, True
        while is_gone:
            with state.lock:
                gate = state.core.gates.by_key.get(unit)
                first = gate.waiting[0] if gate is not None and gate.waiting else None
                if first is None or not self._is_out_of_attempts(first) or first.offset in state.reserved:
                    return
                change = decide_delivery(state.core, DEPARTING, first)
                if change is None:
                    return
                attempts = state.core.redeliveries[first.offset].attempts
                state.change(change)
            is_gone = self._leave(Departure(first, attempts, OUT_OF_ATTEMPTS))

    def _leave(self, leaving: Departure) -> bool:
        """Copy it to where it belongs and let it go; False when it is kept because the copy was not taken."""
        state, offset = self._state, leaving.reference.offset
        route = route_of(leaving.reason, self._settings)
        if offset not in state.by_offset:
            logger.warning("%s: a message was removed after %d attempts", self.name, leaving.attempts)
            return True  # nobody takes a copy, so it left with what gave it back
        gone = c.Acknowledged(DEPARTING, [offset], transition=DEPARTS_BY[route.fate])
        target = None if route.address is None else self._dead_letter_channel
        hop = {DELIVERY_COUNT: leaving.attempts, DEAD_LETTER_REASON: leaving.reason}
        self._hand_on(leaving.reference, gone, target, hop, lambda: state.core.holder_of(offset) == DEPARTING)
        with state.lock:
            if state.core.holder_of(offset) == DEPARTING:
                kept = c.ReturnedMessage(offset, leaving.attempts, due_at_ms=0, delay_ms=0, reason=OUT_OF_ATTEMPTS)
                state.change(c.DepartureFailed([kept]))
                return False
        return True

    def _recover(self) -> None:
        """Go on where the last channel of this name ended; its receivers are lost."""
        state = self._state
        lost: dict[str, list[Reference]] = {}
        for record in state.recover():
            reference = state.by_offset[record.offset]
            if record.receiver_id is not None and record.is_acknowledged:
                state.change(*state.settling(reference, [record.receiver_id], now=True))
            elif record.receiver_id is not None:
                state.change(c.FoundInHand(record.receiver_id, reference))
                lost.setdefault(record.receiver_id, []).append(reference)
        for receiver_id, references in lost.items():
            self._lose_some(receiver_id, references)


def _resolved(
    settings: AddressSettings | ResolvedSettings | None,
    dead_letter_channel: Receiver | None,
    expiry_channel: Receiver | None,
) -> ResolvedSettings:
    """The settings of a channel; its addresses are the channels given.

    Raises:
        InvalidSettingError: an address is named for which there is no channel.
    """
    resolved = ResolvedSettings(**settings.given()) if isinstance(settings, AddressSettings) else settings
    resolved = resolved or ResolvedSettings()
    for setting, address, channel in (
        ("dead_letter_address", resolved.dead_letter_address, dead_letter_channel),
        ("expiry_address", resolved.expiry_address, expiry_channel),
    ):
        if address is not None and channel is None:
            raise InvalidSettingError(
                f"{setting} is {address!r}, but no channel was given to be it: pass one, or leave the setting out",
                setting=setting,
                value=address,
            )
    letters = None if dead_letter_channel is None else dead_letter_channel.receiver_id
    expired = None if expiry_channel is None else expiry_channel.receiver_id
    return replace(
        resolved,
        dead_letter_address=resolved.dead_letter_address or letters,
        expiry_address=resolved.expiry_address or expired,
    )
