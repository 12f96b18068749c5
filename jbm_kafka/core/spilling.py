"""Which waiting messages may leave memory for the held store. Looking costs a walk over all gates.

What waits alone, for a time or a selector, leaves with its gate and stands on the shelf; of all others the gate stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from jbm_kafka.core.changes import Shelved
from jbm_kafka.core.channel_state import ChannelState
from jbm_kafka.core.durable_state import RedeliveryState
from jbm_kafka.core.reference import GateKey, Reference
from jbm_kafka.core.shelf import NEVER, Place, place_for
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
    """Every gate with something to spill, however short, but for those that may be shelved.

    The head stays, for the gate is listed by it, unless it is held back: then it is wanted no earlier than its time; or
    chosen by nobody: then no earlier than a receiver comes who chooses it.
    What waits before a message that is in hand stays too. That one may come back to its place, and what is in memory
    must stand before all that is in the store.
    """
    last_in_hand: dict[GateKey, int] = {}
    for hand in state.in_hand.values():
        for offset, reference in hand.items():
            key = reference.gate_key
            last_in_hand[key] = max(last_in_hand.get(key, 0), offset)
    found: list[Spillable] = []
    past = state.past
    for gate in state.gates.by_key.values():
        kept = 0 if (gate.due_at_ms or gate.is_unchosen) and not gate.in_hand else 1
        if not kept and _is_alone(gate, past):
            continue
        if gate.in_hand:
            last = last_in_hand[gate.key]
            behind = (place for place, reference in enumerate(gate.waiting) if reference.offset > last)
            kept = max(kept, next(behind, len(gate.waiting)))
        count = max(len(gate.waiting) - kept, 0) + len(gate.tail)
        if count:
            found.append(Spillable(gate, kept, count))
    return found


def shelvable(state: ChannelState) -> list[Gate]:
    """The gates of messages that wait alone for a time or a selector, what is wanted last first; `Shelved` takes them.

    Not one whose message has a unit, for others may come to wait there; nor one of whose message something is
    remembered, by which an operator may ask for it.
    """
    past = state.past
    found = [
        gate
        for gate in state.gates.by_key.values()
        if (gate.due_at_ms or gate.is_unchosen) and not gate.in_hand and _is_alone(gate, past)
    ]
    found.sort(key=lambda gate: gate.due_at_ms or NEVER, reverse=True)
    return found


def shelved(state: ChannelState, gates: Sequence[Gate]) -> list[Shelved]:
    """The changes that shelve these, a place each; the references are those of the gates' heads."""
    offsets: dict[Place, list[int]] = {}
    for gate in gates:
        place = place_for(gate.due_at_ms, is_unchosen=gate.is_unchosen, time_ms=state.time_ms)
        offsets.setdefault(place, []).append(gate.waiting[0].offset)
    return [Shelved(place, sorted(mine)) for place, mine in offsets.items()]


def _is_alone(gate: Gate, past: Mapping[int, RedeliveryState]) -> bool:
    return len(gate.waiting) == 1 and isinstance(gate.key, int) and not gate.spilled and gate.key not in past
