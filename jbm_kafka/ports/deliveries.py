"""A group worker grants a link messages, each with the channel it comes from; a session says what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from jbm_kafka.core.channel.delivery_count import DeliveryCount
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.ports.completion import Completion


class LeasedChannel(Protocol):
    """A channel as a session sees it: where its messages are, and whether they may go on."""

    @property
    def topic(self) -> str:
        """Name of the Kafka topic."""

    @property
    def partition(self) -> int:
        """Number of the partition."""

    @property
    def is_closing(self) -> bool:
        """Nothing more is handed over: the partition is about to go to another process."""


class PartitionLease:
    """One channel as one link receives from it, until it is revoked. Made anew whenever the channel is opened anew."""

    __slots__ = (
        "acked", "channel", "given", "is_recorded", "is_revoked", "notify", "records_deliveries", "session_id", "taken"
    )  # fmt: skip

    def __init__(
        self,
        channel: LeasedChannel,
        *,
        session_id: str,
        notify: Callable[[Exception], None],
        given: list[tuple[int, int, int]] | None = None,
        is_recorded: bool = True,
    ) -> None:
        """`given`: that of the session's other leases of the channel."""
        self.channel = channel
        self.session_id = session_id
        """Whose messages are in its hand."""
        self.notify = notify
        """Told, on the group worker's thread, when acknowledgements could not be recorded."""
        self.acked: list[int] = []
        """Acknowledged offsets on their way to the group worker, which takes what is there: the session appends."""
        self.is_recorded = is_recorded
        """The fate of its messages outlasts the process; else they are its receiver's, and end with it."""
        self.records_deliveries = False
        """`given` is to be filled; the group worker says so."""
        self.given: list[tuple[int, int, int]] = [] if given is None else given
        """What the application got: offset, attempt, and when by the monotonic clock in ms. All of the session's leases
        of the channel share it, so that it has the order of giving; the session appends, the group worker takes."""
        self.is_revoked = False
        """The channel is no longer ours: nothing more can be said about its messages."""
        self.taken: frozenset[int] = frozenset()
        """Offsets that were taken from the session, which was notified."""

    def acknowledge(self, offset: int) -> Sequence[int]:
        """Say that the application is done with one; any session thread. Returns what of all said came too late.

        Looked at again after it was said: in between the worker may have looked for the last time, and notified nobody.
        """
        self.acked.append(offset)
        return self._take_late() if self.is_revoked else ()

    def take_acked(self) -> list[int]:
        """Return what was acknowledged until now; the group worker only, while sessions go on appending."""
        if self.is_revoked:
            return self._take_late()
        acked = self.acked
        taken = acked[:]
        del acked[: len(taken)]
        return taken

    def take_given(self) -> list[tuple[int, int, int]]:
        """Return what the application got until now; the group worker only, while sessions go on appending."""
        given = self.given
        taken = given[:]
        del given[: len(taken)]
        return taken

    def _take_late(self) -> list[int]:
        """Each to exactly one caller, the group worker or a session."""
        late: list[int] = []
        while self.acked:
            try:
                late.append(self.acked.pop(0))  # one step of the interpreter
            except IndexError:
                break  # the other was faster
        return late


class Delivery:
    """One message in a link's buffer or in the application's hand."""

    __slots__ = ("count", "lease", "reference", "was_returned")

    def __init__(self, lease: PartitionLease, reference: Reference, count: DeliveryCount) -> None:
        self.lease = lease
        self.reference = reference
        self.count = count
        self.was_returned = False
        """It comes again: the application, which had it, can say nothing more about this delivery."""

    @property
    def offset(self) -> int:
        """Offset of its record."""
        return self.reference.offset

    @property
    def place(self) -> tuple[int, int]:
        """(partition, offset), for people."""
        return self.lease.channel.partition, self.reference.offset

    @property
    def unit_place(self) -> tuple[int, bytes] | None:
        """(partition, unit); None without a unit."""
        unit = self.reference.unit
        return None if unit is None else (self.lease.channel.partition, unit)

    @property
    def place_in_unit(self) -> tuple[Hashable, int]:
        """Its unit of its channel, which is another one when its partition comes back, and its offset."""
        reference = self.reference
        unit = reference.unit
        return None if unit is None else (self.lease.channel, unit), reference.offset


@dataclass(frozen=True, slots=True, eq=False)
class Disposition:
    """A session's word about messages in its hand, beyond plain acknowledgements. For one queue; an identity."""

    returned: Sequence[tuple[PartitionLease, Modified]] = ()
    acknowledged: Sequence[tuple[PartitionLease, int]] = ()
    """Only when `done` waits for them to be durable; others go through `PartitionLease.acked`."""
    done: Completion | None = None
    """Completed when the group worker has processed the disposition, for acknowledgements when they are durable."""

    def unread(self) -> list[tuple[PartitionLease, Modified]]:
        """Return what it gives back that no application had."""
        return [(lease, row) for lease, row in self.returned if not (row.counted or row.was_seen)]
