"""Which of the held messages of a partition could be received now, for those that look and receive nothing (LOG-3)."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from jbm_kafka.core.channel.redelivery import FOREVER_MS, is_expired
from jbm_kafka.core.channel.redelivery_states import RedeliveryState
from jbm_kafka.core.channel.reference import Reference


class HeldKind(Enum):
    """Why a held message is where it is; each has one kind."""

    DELIVERABLE = "deliverable"
    """A receiver could have it now."""
    IN_HAND = "in_hand"
    """A receiver or a prepared branch has it."""
    ON_HOLD = "on_hold"
    """It waits for an operator with its unit, by `on_dead_letter="hold"`."""
    EXPIRED = "expired"
    """It leaves as soon as anybody receives."""
    DELAYED = "delayed"
    """It waits for a time, by a delivery delay, or because it came back and waits for its next attempt."""
    BLOCKED = "blocked"
    """An earlier one of its unit is not finished, or it is on its way to another queue."""


class HeldPlace(NamedTuple):
    """Where a held message stands."""

    kind: HeldKind
    due_at_ms: int
    """Not before; 0: its time has come."""


class HeldInOrder:
    """Goes through the held messages of one partition, in the order of its log."""

    __slots__ = ("_now_ms", "_units")

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._units: set[bytes] = set()
        """The units with an earlier message."""

    def place(
        self,
        reference: Reference,
        redelivery: RedeliveryState | None,
        *,
        is_in_hand: bool = False,
        is_leaving: bool = False,
    ) -> HeldPlace:
        """The place of the next message; `is_leaving`: it is on its way to another queue, or to its end."""
        unit, now_ms = reference.unit, self._now_ms
        due_at_ms = 0 if redelivery is None else redelivery.due_at_ms
        if redelivery is None or redelivery.waits_for_sender:
            due_at_ms = max(due_at_ms, reference.delivery_time_ms)
        is_gone = not is_in_hand and is_expired(reference.expiration_ms, now_ms)
        is_first = unit is None or unit not in self._units
        # One that is expired leaves as soon as anybody receives, and what follows in its unit does not wait for it.
        if unit is not None and not is_gone:
            self._units.add(unit)
        if is_in_hand:
            kind = HeldKind.IN_HAND
        elif due_at_ms >= FOREVER_MS:
            kind = HeldKind.ON_HOLD
        elif is_gone:
            kind = HeldKind.EXPIRED
        elif due_at_ms > now_ms:
            kind = HeldKind.DELAYED
        else:
            kind = HeldKind.DELIVERABLE if is_first and not is_leaving else HeldKind.BLOCKED
        return HeldPlace(kind, due_at_ms if due_at_ms > now_ms else 0)
