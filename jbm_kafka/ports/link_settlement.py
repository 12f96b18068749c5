"""What a session says of the messages it got through one link, on its way to the group worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from jbm_kafka.core.settlement import Modified
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery, PartitionLease
from jbm_kafka.ports.link_owner import LinkOwner
from jbm_kafka.ports.unit_barrier import Disposition, UnitBarrier


class LinkSettlement:
    """Acknowledgements go through the leases, everything else through dispositions. The session's lock guards it."""

    def __init__(self) -> None:
        self.leases: dict[int, PartitionLease] = {}
        """By partition; the group worker's."""
        self.dispositions: deque[Disposition] = deque()
        self.barrier = UnitBarrier()
        """Shared by the session's links to the same queue."""

    def give_back(
        self, rows: Sequence[tuple[Delivery, Modified]], done: Completion | None, group_worker: LinkOwner | None
    ) -> None:
        """Return messages; nothing more of their units is handed out before the group worker carried that out."""
        units = {delivery.unit_place for delivery, _ in rows if delivery.unit_place is not None}
        has_unread = any(not (row.counted or row.was_seen) for _, row in rows)
        disposition = Disposition(
            returned=[(delivery.lease, row) for delivery, row in rows], has_unread=has_unread, done=done
        )
        self.barrier.put_up(units, disposition, group_worker)
        self.dispositions.append(disposition)

    def unread_going_back(self, partition: int) -> list[int]:
        """Offsets of a partition that are on their way back and never were in the application's hand."""
        going_back = (returned for disposition in self.dispositions for returned in disposition.returned)
        return [
            row.offset
            for lease, row in going_back
            if lease.channel.partition == partition and not (row.counted or row.was_seen)
        ]
