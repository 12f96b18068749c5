"""What a checkpoint is to tell of one channel, and whom of its end: gathered until a freeze takes it."""

from __future__ import annotations

from collections.abc import Sequence

from jbm_kafka.core.entries import MessageEvent
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import PartitionLease


class Account:
    """What happened since the last freeze. The owner thread's."""

    __slots__ = ("acknowledged", "events", "unawaited", "waiters")

    def __init__(self) -> None:
        self.waiters: list[Completion] = []
        """Completed when the account is in the changelog."""
        self.acknowledged: list[int] = []
        """Offsets that sessions have settled."""
        self.events: list[MessageEvent] = []
        """What else happened to messages."""
        self.unawaited: list[tuple[PartitionLease, Sequence[int]]] = []
        """Acknowledgements that no call waits for: their sessions are told when they will never be recorded."""

    @property
    def must_be_told(self) -> bool:
        """Somebody waits for it, or it has an event."""
        return bool(self.waiters or self.events)

    def continued(self, later: Account) -> Account:
        """This account, which no checkpoint has recorded, with what came after it."""
        whole = Account()
        whole.waiters = self.waiters + later.waiters
        whole.acknowledged = self.acknowledged + later.acknowledged
        whole.events = self.events + later.events
        whole.unawaited = self.unawaited + later.unawaited
        return whole

    def take_unawaited(self) -> Sequence[tuple[PartitionLease, Sequence[int]]]:
        """Those acknowledgements, each only once."""
        unawaited, self.unawaited = self.unawaited, []
        return unawaited

    def complete(self, error: Exception | None = None) -> None:
        """Tell whoever waits, once."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter.complete(error)
