"""The session's side of its links: the next message for the application, and what it has in hand."""

from __future__ import annotations

from jbm_kafka.core.reference import Reference
from jbm_kafka.core.settlement import GivenBack
from jbm_kafka.ports.grants import Granted
from jbm_kafka.ports.link import Link


class InHand:
    """One message that the application received and has not settled. Compared by identity."""

    __slots__ = ("granted", "link", "was_returned")

    def __init__(self, granted: Granted, link: Link) -> None:
        self.granted = granted
        self.link = link
        self.was_returned = False
        """It comes again: the application can say nothing more about this delivery."""

    @property
    def reference(self) -> Reference:
        """Which message."""
        return self.granted.reference

    def is_same_unit(self, other: InHand) -> bool:
        """Both are of one unit of one channel."""
        unit = self.granted.reference.unit
        return (
            unit is not None
            and unit == other.granted.reference.unit
            and self.granted.tap.channel is other.granted.tap.channel
        )


def give_back(items: list[InHand], *, counted: bool, delay_ms: int | None = None) -> None:
    """Return messages to their channels, link by link; asynchronous."""
    by_link: dict[Link, list[InHand]] = {}
    for item in items:
        item.was_returned = True
        by_link.setdefault(item.link, []).append(item)
    for link, mine in by_link.items():
        link.give_back([(item.granted, GivenBack(item.reference.offset, counted, delay_ms)) for item in mine])
