"""Where a message departs to without having been acknowledged, and why: the dead letter, the expiry, the removal.

A departure is decided here and nowhere else. The message is then in the hand of `DEPARTING`, its unit held by it, until
its copy and its end are durable together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from jbm_kafka.core.channel.entries import MessageFate
from jbm_kafka.core.channel.redelivery import UNLIMITED_ATTEMPTS, is_exhausted, is_expired
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.channel.states import MessageState, Move, Transition, transition
from jbm_kafka.core.settings.address_settings import ResolvedSettings

EXPIRED: Final = "expired"
"""Its time to live ended before anybody was handed it (SEND-5)."""
OUT_OF_ATTEMPTS: Final = "max-delivery-attempts"
"""It was handed over as often as its address allows. Also the dead letter's reason (REDELIVER-4)."""
UNDECODABLE: Final = "undecodable"
"""The dead letter's reason in place of OUT_OF_ATTEMPTS, where the body cannot be read as what it is announced to be.
It is no reason to depart: such a message is delivered as any other (MSG-2)."""
REJECTED: Final = "rejected"
"""The application gave it up, however many attempts it had. Also the dead letter's reason (REDELIVER-4)."""
RELEASED: Final = "released"
"""It was on hold, and an operator let it go: it leaves as soon as it is the first of its unit (UNIT-16)."""
OPERATOR: Final = "operator"
"""An operator sent it away. Also the reason of a dead letter that an operator made (REDELIVER-4)."""
MOVED: Final = "moved"
"""An operator moved it to another queue, as it is."""
GIVEN_UP: Final = frozenset({OUT_OF_ATTEMPTS, REJECTED, RELEASED})
"""Why a message came back last that is to leave and not to be handed over any more."""

DEPARTS_BY: Final[Mapping[MessageFate, Transition]] = {
    MessageFate.EXPIRED: transition(MessageState.NEW, Move.EXPIRED),
    MessageFate.DEAD_LETTERED: transition(MessageState.NEW, Move.DEAD_LETTERED),
    MessageFate.REMOVED: transition(MessageState.NEW, Move.REMOVED),
    MessageFate.MOVED: transition(MessageState.NEW, Move.MOVED),
}
"""The row by which what DEPARTING holds leaves, for each way it may end. It is NEW: no receiver has it any more."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A message that must leave the channel before its unit goes on."""

    reference: Reference
    attempts: int
    reason: str
    last_error: str | None = None
    """Why its last attempt failed, where that is known (decision 23)."""


class Route(NamedTuple):
    """The way of a message that departs."""

    address: str | None
    """Where its copy goes; None: there is no copy."""
    fate: MessageFate
    """Its fate in the account of the checkpoint."""


def route_of(reason: str, settings: ResolvedSettings) -> Route:
    """Where a message departs to for this reason: the expiry address, else the dead-letter address, else nowhere."""
    if reason == EXPIRED:
        return Route(settings.expiry_address, MessageFate.EXPIRED)
    address = settings.dead_letter_address
    return Route(address, MessageFate.REMOVED if address is None else MessageFate.DEAD_LETTERED)


def attempts_before_departure(settings: ResolvedSettings) -> int:
    """After how many attempts a message departs; UNLIMITED_ATTEMPTS when it stays for an operator instead."""
    return settings.max_delivery_attempts if settings.on_dead_letter == "continue" else UNLIMITED_ATTEMPTS


def reason_to_depart(
    expiration_ms: int, attempts: int, last_reason: str | None, *, now_ms: int, attempts_max: int
) -> str | None:
    """Why a message must not be handed over any more; None when it may be.

    `attempts` were counted before now; `last_reason` is why it came back last, None when it never did. Its last attempt
    may have been decided under a limit that is higher by now: what was found to be out of attempts then stays so.
    """
    if is_expired(expiration_ms, now_ms):
        return EXPIRED
    if last_reason is None or last_reason == REJECTED:
        return last_reason
    return OUT_OF_ATTEMPTS if last_reason in GIVEN_UP or is_exhausted(attempts, attempts_max) else None
