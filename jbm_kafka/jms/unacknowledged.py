"""What a session's application has received and not settled, in the order received."""

from __future__ import annotations

import sys
from collections.abc import Callable

from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.reference import Reference
from jbm_kafka.core.settlement import Modified
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.link_owner import LinkOwner


class Unacknowledged:
    """One message that the application received and has not settled. Compared by identity."""

    __slots__ = ("delivery", "link", "was_returned")

    def __init__(self, delivery: Delivery, link: Link) -> None:
        self.delivery = delivery
        self.link = link
        self.was_returned = False
        """It comes again: the application can say nothing more about this delivery."""

    @property
    def reference(self) -> Reference:
        """Which message."""
        return self.delivery.reference

    def is_same_unit(self, other: Unacknowledged) -> bool:
        """Both are of one unit of one channel."""
        unit = self.delivery.reference.unit
        return (
            unit is not None
            and unit == other.delivery.reference.unit
            and self.delivery.lease.channel is other.delivery.lease.channel
        )


class UnacknowledgedMessages:
    """In order. Not thread-safe: the session guards it."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: dict[Unacknowledged, None] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: Unacknowledged) -> None:
        """The application received it."""
        self._items[item] = None

    def has(self, item: Unacknowledged) -> bool:
        """It is not settled."""
        return item in self._items

    def take(self, item: Unacknowledged) -> bool:
        """It is settled; False when it was settled before."""
        return self._items.pop(item, 0) is None

    def take_through(self, last: Unacknowledged) -> list[Unacknowledged]:
        """Everything received up to and including `last` (ACK-2); nothing when `last` is settled."""
        if last not in self._items:
            return []
        taken: list[Unacknowledged] = []
        for item in self._items:
            taken.append(item)
            if item is last:
                break
        for item in taken:
            del self._items[item]
        return taken

    def take_all(self) -> list[Unacknowledged]:
        """Everything, in the order received."""
        taken = list(self._items)
        self._items.clear()
        return taken

    def all(self) -> list[Unacknowledged]:
        """Everything, in the order received; it stays."""
        return list(self._items)

    def take_unit_from(self, first: Unacknowledged) -> list[Unacknowledged]:
        """`first` and every later one of its unit, in order; nothing when `first` is settled."""
        if first not in self._items:
            return []
        items = list(self._items)
        taken = [item for item in items[items.index(first) :] if item is first or first.is_same_unit(item)]
        for item in taken:
            del self._items[item]
        return taken

    def take_where(self, belongs: Callable[[Unacknowledged], bool]) -> list[Unacknowledged]:
        """Every one that `belongs`."""
        taken = [item for item in self._items if belongs(item)]
        for item in taken:
            del self._items[item]
        return taken

    def count(self, link: Link) -> int:
        """How many are of the link."""
        return sum(1 for item in self._items if item.link is link)


def give_back(
    items: list[Unacknowledged], *, counted: bool, delay_ms: int | None = None, rejected: str | None = None
) -> None:
    """Return messages to their channels, or give them up when they are `rejected`, for that reason; asynchronous.

    Those of one queue or subscription go together, whichever consumer received them: alone, the first of a unit would
    take the later ones along uncounted. What is being handled as an exception now is why they failed
    (docs/decisions/0023).
    """
    is_rejected = rejected is not None
    cause = rejected if is_rejected or not counted else failure_text(sys.exc_info()[1])
    by_owner: dict[LinkOwner, list[Unacknowledged]] = {}
    for item in items:
        item.was_returned = True
        by_owner.setdefault(item.link.group_worker, []).append(item)
    for mine in by_owner.values():
        mine[0].link.give_back(
            [
                (
                    item.delivery,
                    Modified(item.reference.offset, counted, delay_ms, last_error=cause, is_rejected=is_rejected),
                )
                for item in mine
            ]
        )
