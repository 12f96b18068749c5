"""How messages come back from receivers, and leave the channel without having been acknowledged."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import replace

from jbm_kafka.contract import Channel, MessageState, Receiver
from jbm_kafka.core import changes as c
from jbm_kafka.core.address_settings import AddressSettings, ResolvedSettings
from jbm_kafka.core.delivery_count import delivery_count_of
from jbm_kafka.core.departure import DEPARTS_BY, EXPIRED, OUT_OF_ATTEMPTS, Departure, route_of
from jbm_kafka.core.entries import MessageFate
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.redelivery import is_expired
from jbm_kafka.core.reference import DEPARTING, GateKey, Reference
from jbm_kafka.core.settlement import Modified, decide_return
from jbm_kafka.local.channel_messages import LocalMessage, dead_letter, expired_copy
from jbm_kafka.local.departing_message import DepartingMessage
from jbm_kafka.local.handover import decide_delivery
from jbm_kafka.local.ledger import message_id_of
from jbm_kafka.local.managed import ManagedByState
from jbm_kafka.local.state import LocalChannelState
from jbm_kafka.local.transactions import departures, outside_transactions

logger = logging.getLogger(__name__)


class LocalDepartures:
    """Returns, dead letters and expiry of one channel."""

    def __init__(
        self,
        state: LocalChannelState,
        settings: ResolvedSettings,
        *,
        dead_letter_channel: Receiver | None,
        expiry_channel: Receiver | None,
    ) -> None:
        self.settings = settings
        self._state = state
        self._dead_letter_channel = dead_letter_channel
        self._expiry_channel = expiry_channel

    def give_back(self, receiver_id: str, references: Sequence[Reference], *, delay_ms: int | None = None) -> None:
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
                settings=self.settings,
                now_ms=state.ledger.clock_ms(),
                chance=random.random(),
                keep=state.transactions.submitted,
            )
            state.ledger.change(*decision.changes)
        for leaving in decision.leaving:
            self._leave(leaving)
        for unit in dict.fromkeys(reference.gate_key for reference in references):
            self._leave_in_turn(unit)
        now_ms = state.ledger.clock_ms()
        if any(is_expired(reference.expiration_ms, now_ms) for reference in references):
            self.expire(now_ms)  # STATE-4: in hand it could not expire

    def is_out_of_attempts(self, reference: Reference) -> bool:
        """Whether it has used up its attempts and must not be handed over; it leaves when it can."""
        redelivery = self._state.core.redeliveries.get(reference.offset)
        return redelivery is not None and redelivery.reason == OUT_OF_ATTEMPTS

    def leave_again(self, reference: Reference) -> bool:
        """Have it leave when it has used up its attempts and is the next of its unit; True when it is gone."""
        state = self._state
        with state.lock:
            change = decide_delivery(state.core, DEPARTING, reference) if self.is_out_of_attempts(reference) else None
            if change is None or reference.offset in state.reserved:
                return False
            attempts = state.core.redeliveries[reference.offset].attempts
            state.ledger.change(change)
        return self._leave(Departure(reference, attempts, OUT_OF_ATTEMPTS))

    def _leave_in_turn(self, unit: GateKey) -> None:
        """The first messages of the unit leave, one after the other, as long as they have used up their attempts."""
        while True:
            with self._state.lock:
                gate = self._state.core.gates.by_key.get(unit)
                first = gate.waiting[0] if gate is not None and gate.waiting else None
            if first is None or not self.leave_again(first):
                return

    def expire(self, now_ms: int) -> list[str]:
        """Let go of the NEW messages whose time has ended; those sent in open transactions doom them (STATE-2)."""
        state = self._state
        with state.lock:
            expired: list[Reference] = []
            for reference in state.ledger.held.values():
                if not is_expired(reference.expiration_ms, now_ms):
                    continue
                stands = state.ledger.stands(reference)
                if stands is MessageState.NOT_COMMITTED:
                    state.transactions.doom(
                        reference, f"message {message_id_of(reference)!r} expired before its commit"
                    )
                elif state.ledger.is_waiting(reference) and not self._is_spoken_for(reference):
                    expired.append(reference)
        with state.reserve(expired):
            return [message_id_of(reference) for reference in expired if self._let_expire(reference, now_ms)]

    def _is_spoken_for(self, reference: Reference) -> bool:
        """It is being offered, or its early acknowledgement waits for a commit."""
        return reference.offset in self._state.reserved or reference.offset in self._state.transactions.submitted

    def _let_expire(self, reference: Reference, now_ms: int) -> bool:
        """Whether it is gone. A copy is made without the lock, and an acknowledgement that comes meanwhile wins."""
        state, message_id = self._state, message_id_of(reference)
        withdrawn = c.Withdrawn([reference], DEPARTS_BY[MessageFate.EXPIRED])
        departing = DepartingMessage(state, withdrawn, lambda: state.ledger.is_waiting(reference))
        target = self._target(EXPIRED)
        if target is None:
            return departing.go()
        count = delivery_count_of(state.core, reference.offset).delivery_count
        message = state.message_store.retrieve(message_id)
        copy = expired_copy(message, channel=state.name, delivery_count=count, now_ms=now_ms)
        return self._hand(copy, target, message_id, departing)

    def _leave(self, leaving: Departure) -> bool:
        """Copy it to where it belongs and let it go; False when it is kept because the copy was not taken."""
        state, offset = self._state, leaving.reference.offset
        message_id = message_id_of(leaving.reference)
        fate, target = route_of(leaving.reason, self.settings).fate, self._target(leaving.reason)
        gone = c.Acknowledged(DEPARTING, [offset], transition=DEPARTS_BY[fate])
        departing = DepartingMessage(state, gone, lambda: offset in state.core.in_hand.get(DEPARTING, {}))
        if target is None:
            logger.warning("%s: message %s removed after %d attempts", state.name, message_id, leaving.attempts)
            departing.go()
        else:
            message = state.message_store.retrieve(message_id)
            copy = dead_letter(message, channel=state.name, delivery_count=leaving.attempts, reason=leaving.reason)
            self._hand(copy, target, message_id, departing)
        with state.lock:
            if departing.is_wanted():
                kept = c.ReturnedMessage(offset, leaving.attempts, due_at_ms=0, delay_ms=0, reason=OUT_OF_ATTEMPTS)
                state.ledger.change(c.DepartureFailed([kept]))
                return False
        return True

    def _target(self, reason: str) -> Receiver | None:
        """The receiver of the copy of a message that departs for this reason; None: nobody."""
        route = route_of(reason, self.settings)
        if route.address is None:
            return None
        return self._expiry_channel if route.fate is MessageFate.EXPIRED else self._dead_letter_channel

    def _hand(self, copy: LocalMessage, target: Receiver, message_id: str, departing: DepartingMessage) -> bool:
        """Whether the copy came and the message went, by one write where the target is a channel of ours and on the
        same persistence manager. So it stays, whatever becomes of the caller's transaction.
        """
        try:
            with outside_transactions():
                if _joins_transactions(target):
                    with departures.transaction():
                        target.handle(copy)
                        departures.enlist(departing)
                    return True
                target.handle(copy)
            return departing.go()
        except Exception:
            if not departing.is_wanted():
                return False
            logger.exception(
                "%s: %s does not take a copy of message %s; it is kept and tried again at the next delivery",
                self._state.name,
                target.receiver_id,
                message_id,
            )
            return False


def _joins_transactions(target: Receiver) -> bool:
    return isinstance(target, ManagedByState) and isinstance(target, Channel) and not target.is_synchronous


def resolved_settings(
    settings: AddressSettings | ResolvedSettings | None,
    *,
    dead_letter_channel: Receiver | None,
    expiry_channel: Receiver | None,
) -> ResolvedSettings:
    """The settings of a channel; its addresses are the channels given.

    Raises:
        InvalidSettingError: an address is named for which there is no channel.
    """
    resolved = ResolvedSettings(**settings.given()) if isinstance(settings, AddressSettings) else settings
    resolved = resolved or ResolvedSettings()
    named = {
        "dead_letter_address": (resolved.dead_letter_address, dead_letter_channel),
        "expiry_address": (resolved.expiry_address, expiry_channel),
    }
    for setting, (address, channel) in named.items():
        if address is not None and channel is None:
            raise InvalidSettingError(
                f"{setting} is {address!r}, but no channel was given to be it: pass one, or leave the setting out",
                setting=setting,
                value=address,
            )
    if dead_letter_channel is not None and resolved.dead_letter_address is None:
        resolved = replace(resolved, dead_letter_address=dead_letter_channel.receiver_id)
    if expiry_channel is not None and resolved.expiry_address is None:
        resolved = replace(resolved, expiry_address=expiry_channel.receiver_id)
    return resolved
