"""A client's word about a message that it got, on its own or for when its transaction is committed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from proton import Delivery as Sent

from jbm_kafka.amqp_wire.engine_objects import EngineDelivery
from jbm_kafka.amqp_wire.names import BEHIND, DELAY, ERROR, SEEN
from jbm_kafka.core.channel.first_outcome import NOTHING_SAID, SaidBehind
from jbm_kafka.core.channel.redelivery import is_expired
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.ports.deliveries import Delivery

DECLARED: Final = 0x33
TRANSACTIONAL: Final = 0x34
_BY_SYMBOL: Final = {
    "amqp:accepted:list": Sent.ACCEPTED,
    "amqp:rejected:list": Sent.REJECTED,
    "amqp:released:list": Sent.RELEASED,
    "amqp:modified:list": Sent.MODIFIED,
}


@dataclass(frozen=True, slots=True)
class ClientOutcome:
    """One of AMQP's outcomes; state 0: it is settled without any."""

    state: int
    failed: bool = False
    undeliverable: bool = False
    error: str = ""
    delay_ms: int | None = None
    was_seen: bool = False
    behind: SaidBehind = NOTHING_SAID
    """The word about those that go back with its message."""

    @property
    def is_accepted(self) -> bool:
        return self.state == Sent.ACCEPTED

    def returned(self, delivery: Delivery, *, counts_released: bool, now_ms: int) -> Modified:
        """How a message goes back that is not accepted."""
        offset, state = delivery.offset, self.state
        if state == Sent.REJECTED:
            error = self.error or "rejected by its receiver"
            return Modified(offset, counted=True, last_error=error, is_rejected=True)
        if self.undeliverable and is_expired(delivery.reference.expiration_ms, now_ms):
            return Modified(offset, counted=False)  # as Qpid JMS says of what expired on its way
        if state == Sent.MODIFIED:
            return Modified(
                offset,
                self.failed,
                self.delay_ms,
                was_seen=self.was_seen,
                last_error=self.error or None,
                undeliverable_here=self.undeliverable,
            )
        is_released = state == Sent.RELEASED
        return Modified(offset, counted=is_released and counts_released, was_seen=not is_released)


_ACCEPTED: Final = ClientOutcome(Sent.ACCEPTED)


def client_outcome(sent: EngineDelivery) -> ClientOutcome:
    """Return what it says outside of transactions."""
    if sent.remote_state == Sent.ACCEPTED:
        return _ACCEPTED
    remote = sent.remote
    condition = remote.condition if sent.remote_state == Sent.REJECTED else None
    error = "" if condition is None else str(condition.description or condition.name)
    behind = NOTHING_SAID if condition is None else _said_behind(condition.info)
    told = ClientOutcome(sent.remote_state, bool(remote.failed), bool(remote.undeliverable), error, behind=behind)
    annotations = remote.annotations if sent.remote_state == Sent.MODIFIED else None
    if not isinstance(annotations, dict):
        return told
    delay_ms, cause = annotations.get(DELAY), annotations.get(ERROR)
    return replace(
        told,
        delay_ms=int(delay_ms) if isinstance(delay_ms, int) and delay_ms >= 0 else None,
        error=cause if isinstance(cause, str) else "",
        was_seen=SEEN in annotations,
        behind=_said_behind(annotations),
    )


def _said_behind(said: object) -> SaidBehind:
    """Return what annotations or the info of an error say of the messages behind; nothing where it cannot be read."""
    counts = said.get(BEHIND) if isinstance(said, dict) else None
    if not isinstance(counts, list | tuple) or len(counts) != len(NOTHING_SAID):
        return NOTHING_SAID
    return SaidBehind(*(count if isinstance(count, int) and count > 0 else 0 for count in counts))


def transaction_name(data: Sequence[object] | None) -> bytes:
    """The transaction that a transactional state names; b"": none can be read."""
    name = data[0] if data else None
    return bytes(name) if isinstance(name, bytes | memoryview) else b""


def outcome_in_transaction(data: Sequence[object]) -> ClientOutcome:
    """Return what a transactional state says, which is `[transaction, outcome]`; without an outcome it is accepted."""
    outcome = data[1] if len(data) > 1 else None
    if outcome is None:
        return _ACCEPTED
    descriptor, said = getattr(outcome, "descriptor", None), getattr(outcome, "value", None)
    state = _BY_SYMBOL.get(str(descriptor)) or (int(descriptor) if isinstance(descriptor, int) else 0)
    fields = [*(said if isinstance(said, list) else []), None, None]
    if state == Sent.REJECTED:
        error = getattr(fields[0], "value", None)
        texts = error[:2] if isinstance(error, list) else []
        return ClientOutcome(state, error=": ".join(str(each) for each in texts if each))
    if state == Sent.MODIFIED:
        return ClientOutcome(state, bool(fields[0]), bool(fields[1]))
    return ClientOutcome(state)
