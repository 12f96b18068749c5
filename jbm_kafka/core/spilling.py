"""Which waiting messages may leave memory for the held store. Looking costs a walk over all gates."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from jbm_kafka.core.channel_state import ChannelState
from jbm_kafka.core.reference import GateKey, Reference
from jbm_kafka.core.unit_of_order import Gate


@dataclass(frozen=True, slots=True)
class Spillable:
    """One gate's part that may be spilled; the change is `Spilled(gate.key, kept)`."""

    gate: Gate
    kept: int
    count: int
    """How many would leave memory, more than 0."""

    def references(self) -> list[Reference]:
        """What would leave, in offset order."""
        return [*islice(self.gate.waiting, self.kept, None), *self.gate.tail]


def spillable(state: ChannelState) -> list[Spillable]:
    """Every gate with something to spill, however short.

    The head stays, for the gate is listed by it, unless it is held back: then it is wanted no earlier than its time.
    What waits before a message that is in hand stays too. That one may come back to its place, and what is in memory
    must stand before all that is in the store.
    """
    last_in_hand: dict[GateKey, int] = {}
    for hand in state.in_hand.values():
        for offset, reference in hand.items():
            key = reference.gate_key
            last_in_hand[key] = max(last_in_hand.get(key, 0), offset)
    found: list[Spillable] = []
    for gate in state.gates.by_key.values():
        kept = 0 if gate.due_at_ms and not gate.in_hand else 1
        if gate.in_hand:
            last = last_in_hand[gate.key]
            behind = (place for place, reference in enumerate(gate.waiting) if reference.offset > last)
            kept = max(kept, next(behind, len(gate.waiting)))
        count = max(len(gate.waiting) - kept, 0) + len(gate.tail)
        if count:
            found.append(Spillable(gate, kept, count))
    return found
