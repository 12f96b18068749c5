"""The rule of what goes back: a message takes along what its receiver has behind it in its unit (UNIT-3).

Everybody who has messages in hand for somebody else asks here: the channel, the session, the AMQP server and the AMQP
client, and a sidecar that forwards. Nobody's places are another's: a channel counts by offsets, an AMQP client by
arrivals, a forwarding sidecar by marks. So a place is opaque: which unit, and an order that holds within it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")
Order = TypeVar("Order", int, tuple[int, int])
"""Where leases follow each other, the number of the lease comes first, for offsets recur."""


def behind(first: Iterable[tuple[Hashable, Order]], held: Iterable[tuple[T, tuple[Hashable, Order]]]) -> list[T]:
    """Return what of `held` is behind one of the `first` in its unit, in the order of `held`.

    A place whose unit is None stands alone: it takes nothing along, and goes with nothing.
    """
    begins: dict[Hashable, Order] = {}
    for unit, order in first:
        if unit is not None and (unit not in begins or order < begins[unit]):
            begins[unit] = order
    if not begins:
        return []  # the most common case, and `held` may be long
    return [item for item, (unit, order) in held if unit in begins and order > begins[unit]]


class Fences:
    """The units of which something goes back over a wire, until whoever has them at the other end answers.

    What comes of such a unit was sent before that end knew, and it has taken that back with the first that it heard of:
    it is dropped. What it sends behind its answer to the first is new. One before the first may go back meanwhile.
    """

    def __init__(self) -> None:
        self._firsts: dict[Hashable, list[int]] = {}
        """The orders of those that wait for an answer."""

    def __contains__(self, unit: Hashable) -> bool:
        """True: what comes of the unit now is stale."""
        return unit in self._firsts

    def __len__(self) -> int:
        """Return how many units are fenced."""
        return len(self._firsts)

    def covers(self, unit: Hashable, order: int) -> bool:
        """True: one before it goes back, and it with that, so it needs no fence of its own."""
        return any(first <= order for first in self._firsts.get(unit, ()))

    def begin(self, unit: Hashable, order: int) -> None:
        """One goes back, until it is answered."""
        self._firsts.setdefault(unit, []).append(order)

    def end(self, unit: Hashable, order: int) -> bool:
        """It is answered. False: it had no fence."""
        firsts = self._firsts.get(unit, [])
        if order not in firsts:
            return False
        firsts.remove(order)
        if not firsts:
            del self._firsts[unit]
        return True
