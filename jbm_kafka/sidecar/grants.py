"""What a lane grants a link: messages, each with the channel it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jbm_kafka.core.delivery import Delivery
from jbm_kafka.core.reference import Reference

if TYPE_CHECKING:
    from jbm_kafka.sidecar.link import Link
    from jbm_kafka.sidecar.owned_channel import OwnedChannel


class Tap:
    """One channel as one link drinks from it. A new one is made whenever the channel is opened anew."""

    __slots__ = ("acked", "channel", "is_lost", "link")

    def __init__(self, channel: OwnedChannel, link: Link) -> None:
        self.channel = channel
        self.link = link
        self.acked: list[int] = []
        """Acknowledged offsets on their way to the lane: the session appends, the lane takes what is there."""
        self.is_lost = False
        """The channel is no longer ours: nothing more can be said about its messages."""

    def take_acked(self) -> list[int]:
        """What was acknowledged until now; the lane only, while sessions go on appending."""
        acked = self.acked
        taken = acked[:]
        del acked[: len(taken)]
        return taken


class Granted:
    """One message in a link's buffer or in the application's hand."""

    __slots__ = ("delivery", "reference", "tap")

    def __init__(self, tap: Tap, reference: Reference, delivery: Delivery) -> None:
        self.tap = tap
        self.reference = reference
        self.delivery = delivery

    @property
    def offset(self) -> int:
        """Offset of its record."""
        return self.reference.offset

    @property
    def place(self) -> tuple[int, int]:
        """(partition, offset), for people."""
        return self.tap.channel.partition, self.reference.offset

    @property
    def unit_place(self) -> tuple[int, bytes] | None:
        """(partition, unit); None without a unit."""
        unit = self.reference.unit
        return None if unit is None else (self.tap.channel.partition, unit)
