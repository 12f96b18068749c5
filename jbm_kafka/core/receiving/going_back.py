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
