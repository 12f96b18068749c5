"""A topic in one process: each message goes to all receivers of that moment, and stays until each has acknowledged it.

To the machine all receivers are one session, EVERYBODY, that has each message in hand; who of them owes what is kept
beside it, for over Kafka a message has one hand at a time (STATE-4). A topic stores no message for receivers that are
not there: a durable subscription is a queue channel that is a receiver of the topic.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from jbm_kafka.contract import CoreMessage, MessageState
from jbm_kafka.core.channel.redelivery import is_expired
from jbm_kafka.core.channel.reference import Reference, SessionId
from jbm_kafka.core.channel.states import Move, transition
from jbm_kafka.local.channel import LocalChannel, OfferAnswer, ask
from jbm_kafka.local.state import LocalChannelState, Shared, leaving, message_id_of

EVERYBODY: Final[SessionId] = "<everybody>"


class TopicState(LocalChannelState):
    """The messages of a topic, with NACK sets of several receivers."""

    kind = "topic"
    is_offered_to_all = True

    def session_of(self, receiver_id: str) -> SessionId:
        return EVERYBODY

    def is_spoken_for(self, reference: Reference) -> bool:
        return reference.offset in self.reserved

    def finish(self, reference: Reference) -> None:
        """Everybody was offered it: it stays while somebody owes it; what nobody took is discarded (STATE-8)."""
        with self.lock:
            if not self.is_here(reference):
                return
            share = self.shares[reference.offset] = replace(self.share_of(reference), is_offered=True)
            if not share.owing and self.core.is_waiting(reference.offset):
                self.change(*leaving([reference], transition(MessageState.NEW, Move.DISCARDED)))
            else:
                self.change(*self.shared_so(EVERYBODY, share))

    def finish_again(self) -> None:
        """Have those leave that everybody was offered and nobody owes, when that could not be recorded before."""
        with self.lock:
            for share in [each for each in self.shares.values() if each.is_offered and not each.owing]:
                self.finish(share.reference)

    def encoded(self, reference: Reference, share: Shared | None = None) -> bytes:
        share = share or self.share_of(reference)
        owing = sorted(share.owing) if share.is_offered else None
        row = {"place": reference.offset, "message_id": message_id_of(reference), "owing": owing}
        return json.dumps(row).encode()


class TopicChannel(LocalChannel[TopicState]):
    """Offers every message to all receivers of that moment, and keeps it until each of them acknowledged. Thread-safe.

    A receiver may ask again, under its id and after a restart, for what it owes.
    """

    _state_class = TopicState

    def _is_kept(self) -> bool:
        """Nobody is there: discarded, and the sender acknowledged (STATE-8); in a transaction that is asked later."""
        return bool(self._receivers) or self._state.open_transaction is not None

    def _pass_on(self, message: CoreMessage) -> bool:
        """True iff every receiver took the message and acknowledged it."""
        answers = [ask(receiver, message) for receiver in self.receivers]
        return all(answer is OfferAnswer.ACKNOWLEDGED for answer in answers)

    def remove_receiver(self, receiver_id: str, /) -> None:
        """It gets nothing more by itself; it may still ask for what it owes (`redeliver`). Unknown ids do nothing."""
        with self._opened():
            self._receivers.pop(receiver_id, None)

    def _offer_waiting(self, *, everything: bool) -> None:
        state = self._state
        with state.lock:
            state.finish_again()
            early = [each for each in state.shares.values() if state.core.holder_of(each.reference.offset) is not None]
        for share in early:
            if not share.is_offered:
                self._offer(share.reference)
        super()._offer_waiting(everything=True)

    def _offer(self, reference: Reference) -> None:
        state, receivers = self._state, self.receivers
        if is_expired(reference.expiration_ms, now_ms := state.clock_ms()):
            state.expire(now_ms)
            receivers = ()
        message = self._shown(reference, redelivered=state.is_redelivered(reference))
        if message is None:
            return
        with state.reserve(reference):
            for receiver in receivers:
                name, share = receiver.receiver_id, state.share_of(reference)
                if name in share.early:
                    state.record_delivery(name, reference)  # STATE-6: that settles it
                elif name not in share.owing and state.is_here(reference):
                    self._offer_to(receiver, reference, message)
        state.finish(reference)
