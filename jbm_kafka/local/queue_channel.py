"""A queue in one process: each message goes to one receiver, and stays until that has acknowledged it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jbm_kafka.contract import CoreMessage, Receiver, Routable
from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.redelivery import is_expired
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.channel.settlement import Modified, decide_return
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.local.channel import LocalChannel, OfferAnswer, ask
from jbm_kafka.local.contract_state import decide_delivery
from jbm_kafka.local.state import LocalChannelState

FOR_EVER = ResolvedSettings(max_delivery_attempts=-1, redelivery_delay_ms=0)
"""The specification gives nothing up: a message comes back at once, as often as it is asked for."""


class QueueState(LocalChannelState):
    """The messages of a queue: each in one hand at most, and back when that is lost."""

    def complete_early(self) -> None:
        """Settle what was acknowledged before anybody was offered it: there is no delivery to wait for."""
        with self.lock:
            for offset, share in sorted(self.shares.items()):
                if share.early and offset not in self.reserved:
                    self.change(c.Acknowledged(next(iter(share.early)), [offset]))

    def lose(self, receiver_id: str, among: Sequence[Reference] | None = None) -> None:
        """The receiver is gone: what it has in hand comes back at once (STATE-5), but for acknowledgements in doubt.

        `among`: of these, for since it may be there again, and have others.
        """
        with self.lock:
            self.complete_early()
            all_of_it = [r for r in self.owed_by(receiver_id, all_of_them=True) if among is None or r in among]
            owed = [r for r in all_of_it if not self.is_submitted(r.offset, receiver_id)]
            decision = decide_return(
                self.core,
                receiver_id,
                [Modified(reference.offset, counted=True) for reference in owed],
                settings=FOR_EVER,
                now_ms=self.clock_ms(),
                chance=0.0,
                keep={*self.submitted, *self.reserved},
            )
            self.change(*decision.changes)
            self.shares.update((r.offset, replace(self.share_of(r), lost_by=receiver_id)) for r in all_of_it)
            now_ms = self.clock_ms()
            if any(is_expired(reference.expiration_ms, now_ms) for reference in owed):
                self.expire(now_ms)  # STATE-4: in hand it could not

    def recover(self) -> None:
        super().recover()
        for receiver_id in {receiver_id: None for share in self.shares.values() for receiver_id in share.owing}:
            self.lose(receiver_id)

    def owed_after_all(self, discarded: Sequence[tuple[str, Reference]]) -> None:
        """Have come back what receivers owe that were lost before the rollback (STATE-5, STATE-7)."""
        lost: dict[str, list[Reference]] = {}
        for receiver_id, reference in discarded:
            if receiver_id == self.share_of(reference).lost_by:
                lost.setdefault(receiver_id, []).append(reference)
        for receiver_id, references in lost.items():
            self.lose(receiver_id, references)


class QueueChannel(LocalChannel[QueueState]):
    """Stores every message until one receiver has acknowledged it. Thread-safe."""

    _state_class = QueueState
    _turn = ""
    """The receiver that took the last message: the next one's turn."""

    def _accepts_now(self, routable: Routable) -> bool:
        return any(each.accept(routable) for each in self.receivers)

    def _pass_on(self, message: CoreMessage) -> bool:
        """Return the answer of the first receiver that takes it; False when none does."""
        for receiver in self._in_turn():
            answer = ask(receiver, message)
            if answer is not OfferAnswer.REFUSED:
                self._turn = receiver.receiver_id
                return answer is OfferAnswer.ACKNOWLEDGED
        return False

    def remove_receiver(self, receiver_id: str, /) -> None:
        """Remove it; what it has in hand comes back, one attempt more each. Unknown ids are passed over."""
        with self._opened():
            self._receivers.pop(receiver_id, None)
        self._state.lose(receiver_id)

    def _begin_pass(self) -> None:
        self._state.complete_early()
        self._state.expire(self._state.clock_ms())

    def _offer(self, reference: Reference) -> None:
        for receiver in self._receivers_for(reference):
            if not self._may_offer(receiver.receiver_id, reference) or self._offer_one(receiver, reference):
                return

    def _offer_lost(self, receiver: Receiver, reference: Reference) -> None:
        if self._may_offer(receiver.receiver_id, reference):
            self._offer_one(receiver, reference)

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
            is_free = state.is_here(reference) and not state.is_spoken_for(reference)
            if not is_free or decide_delivery(state.core, receiver_id, reference) is None:
                return False
            now_ms = state.clock_ms()
            if is_expired(reference.expiration_ms, now_ms):
                state.expire(now_ms)
                return False
            return True

    def _offer_one(self, receiver: Receiver, reference: Reference) -> bool:
        """Hand it over and record that; False when the receiver did not take it."""
        state, receiver_id = self._state, receiver.receiver_id
        message = self._shown(reference, redelivered=state.is_redelivered(reference))
        was_present = receiver_id in self._receivers
        with state.reserve(reference):
            if message is None or not self._offer_to(receiver, reference, message):
                return False
        self._turn = receiver_id
        if was_present and receiver_id not in self._receivers and not state.is_closed:
            state.lose(receiver_id)
        return True
