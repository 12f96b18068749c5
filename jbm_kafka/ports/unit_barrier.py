"""What a session says of messages in its hand, and the barrier before units of which it gave some back."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from jbm_kafka.core.settlement import Modified
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import PartitionLease
from jbm_kafka.ports.link_owner import LinkOwner


@dataclass(frozen=True, slots=True, eq=False)
class Disposition:
    """What a session says about messages in its hand, beyond plain acknowledgements. Of one queue; an identity."""

    returned: Sequence[tuple[PartitionLease, Modified]] = ()
    has_unread: bool = False
    """Some of what it returns was never in the application's hand: a first delivery to come (ORDER-1)."""
    acknowledged: Sequence[tuple[PartitionLease, int]] = ()
    """Only when `done` waits for them to be durable; others go through `PartitionLease.acked`."""
    done: Completion | None = None
    """Completed when the group worker has processed the disposition, for acknowledgements when they are durable."""


class UnitBarrier:
    """Units that a session gave back to a queue: nothing more of them is handed out before the worker carried that out.

    Shared by all links of the session to the queue, closed ones and later ones too: to the channel they are one
    receiver, so what any of them gives back, any other may have been granted the next of. The session's lock guards it.
    """

    def __init__(self) -> None:
        self.units: set[tuple[int, bytes]] = set()
        """(partition, unit): what a buffer has of them was granted before they went back."""
        self._returns: dict[Disposition, LinkOwner | None] = {}
        """Not carried out yet, each with the group worker that has to."""

    def put_up(
        self, units: Collection[tuple[int, bytes]], disposition: Disposition, group_worker: LinkOwner | None
    ) -> None:
        """The disposition returns messages of these units."""
        self.units.update(units)
        self._returns[disposition] = group_worker

    def carried_out(self, disposition: Disposition) -> None:
        """Its stragglers are out of the buffers."""
        self._returns.pop(disposition, None)

    def is_unread_going_back(self, group_worker: LinkOwner | None) -> bool:
        """The group worker has not heard yet of messages that must come before all that it would hand over now."""
        return any(disposition.has_unread and returns is group_worker for disposition, returns in self._returns.items())

    def is_down(self) -> bool:
        """Everything was carried out. A group worker that has ended took its messages out of the buffers before."""
        if any(
            group_worker is None or group_worker.is_running or group_worker.is_alive
            for group_worker in self._returns.values()
        ):
            return False
        self._returns.clear()
        self.units.clear()
        return True
