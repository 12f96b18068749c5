"""Which message goes first where several channels, or what came at several times, have some: the higher priority.

Never within a unit: a unit's messages keep their order, and its first one counts for it (SEND-7, UNIT-6).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.reference import DEFAULT_PRIORITY, Reference, SessionId

T = TypeVar("T")
NOTHING = -1


def next_priority(state: ChannelState, session: SessionId, chooses: int) -> int:
    """That of what a session would get next of a channel, as far as is known without looking; NOTHING: it has none.

    `chooses` is the bit of the receiver's selector.
    """
    gates = state.gates
    found = DEFAULT_PRIORITY if state.arrivals else NOTHING
    listings = [gates.free, gates.own.get(session), *(rows for bits, rows in gates.some.items() if bits & chooses)]
    for listing in listings:
        if listing:
            found = max(found, listing[-1][0])
    return found


def by_priority(items: Iterable[T], reference_of: Callable[[T], Reference], unit_of: Callable[[T], object]) -> list[T]:
    """The same ones, the higher priority first; equal ones, and those of one unit, in the order they had.

    `unit_of` tells units apart that are not of one channel, too; None: the message has no unit.
    """
    units: dict[object, deque[tuple[int, T]]] = {}
    for place, item in enumerate(items):
        unit = unit_of(item)
        units.setdefault(place if unit is None else (unit,), deque()).append((place, item))
    heads = [(-reference_of(rows[0][1]).priority, rows[0][0], key) for key, rows in units.items()]
    heapq.heapify(heads)
    found: list[T] = []
    while heads:
        key = heads[0][2]
        rows = units[key]
        found.append(rows.popleft()[1])
        if rows:
            heapq.heapreplace(heads, (-reference_of(rows[0][1]).priority, rows[0][0], key))
        else:
            heapq.heappop(heads)
    return found
