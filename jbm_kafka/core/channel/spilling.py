"""Which waiting messages may leave memory for the held store. Looking costs a walk over all gates.

What waits for a time, a selector or an operator leaves with its gate and stands on the shelf: a message without a unit
at once, a unit when all that waits of it is in the held store. A gate stays where somebody has messages of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from jbm_kafka.core.channel.changes import Shelved, UnitsShelved
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.cold_index import NEVER, Place, place_for
from jbm_kafka.core.channel.reference import GateKey, Reference
from jbm_kafka.core.channel.shelved_units import UnitHead
from jbm_kafka.core.channel.unit_of_order import Gate, is_foldable


@dataclass(frozen=True, slots=True)
class Spillable:
    """One gate's part that may be spilled; the change is `Spilled(gate.key, kept)`."""

    gate: Gate
    kept: int
    count: int
    """How many would leave memory, more than 0."""

    def references(self) -> list[Reference]:
        """Return what would leave, in offset order."""
        return [*islice(self.gate.waiting, self.kept, None), *self.gate.tail]


def spillable(state: ChannelState) -> list[Spillable]:
    """Every gate with something to spill, however short, but for those that may be shelved.

    The head stays, for the gate is listed by it, unless it is held back: then it is wanted no earlier than its time; or
    chosen by nobody: then no earlier than a receiver comes that chooses it.
    What waits before a message that is in hand stays too. That one may come back to its place, and what is in memory
    must stand before all that is in the store.
    """
    last_in_hand: dict[GateKey, int] = {}
    for hand in state.in_hand.values():
        for offset, reference in hand.items():
            key = reference.gate_key
            last_in_hand[key] = max(last_in_hand.get(key, 0), offset)
    found: list[Spillable] = []
    awaiting_look = state.gates.awaiting_look
    for gate in state.gates.by_key.values():
        if gate.key in awaiting_look:
            continue
        kept = 0 if (gate.due_at_ms or gate.is_unchosen) and not gate.in_hand else 1
        if not kept and _is_alone(gate):
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
    """Gates that may leave memory with their messages, what is wanted last first: `shelved` says how.

    They wait for a time, a selector or an operator.
    """
    found = [
        gate
        for gate in state.gates.by_key.values()
        if (gate.due_at_ms or gate.is_unchosen)
        and not gate.in_hand
        and (_is_alone(gate) if isinstance(gate.key, int) else is_foldable(gate))
    ]
    found.sort(key=lambda gate: gate.due_at_ms or NEVER, reverse=True)
    return found


def shelved(state: ChannelState, gates: Sequence[Gate]) -> list[Shelved | UnitsShelved]:
    """The changes that shelve these, a place each; of what has no unit the references are those of the gates' heads."""
    alone: dict[Place, list[int]] = {}
    units: dict[Place, list[UnitHead]] = {}
    for gate in gates:
        key, is_unchosen = gate.key, gate.is_unchosen
        has_units = not isinstance(key, int)
        place = place_for(gate.due_at_ms, is_unchosen=is_unchosen, time_ms=state.time_ms, has_units=has_units)
        if isinstance(key, int):
            alone.setdefault(place, []).append(key)
        else:
            units.setdefault(place, []).append(UnitHead(gate.head_offset, key))
    return [
        *(Shelved(place, sorted(offsets)) for place, offsets in alone.items()),
        *(UnitsShelved(place, sorted(heads)) for place, heads in units.items()),
    ]


def _is_alone(gate: Gate) -> bool:
    return isinstance(gate.key, int) and len(gate.waiting) == 1 and not gate.spilled
