"""One channel's checkpoints: the one whose end is not known yet, and what the next is to tell. The owner thread's."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jbm_kafka.core.channel.delivery_runs import DeliveryRuns
from jbm_kafka.core.channel.entries import DeliveryRun, MessageEvent
from jbm_kafka.core.channel.freeze import Freeze
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import PartitionLease


class _Notes:
    """The notes for a channel's next checkpoint: what it records and whom it notifies, gathered since the last
    freeze."""

    __slots__ = ("acknowledged", "applied", "deliveries", "events", "unawaited", "waiters")

    def __init__(self) -> None:
        self.waiters: list[Completion] = []
        """Completed when these notes are in the changelog."""
        self.acknowledged: list[int] = []
        """Offsets that sessions have settled."""
        self.events: list[MessageEvent] = []
        """Other events of messages."""
        self.applied: list[tuple[str, str]] = []
        """Branches that ended here, each with what became of its messages without a decision, if anything did."""
        self.deliveries = DeliveryRuns()
        """The deliveries to applications."""
        self.unawaited: list[tuple[PartitionLease, Sequence[int]]] = []
        """Acknowledgements that no call waits for: their sessions get an error when they will never be recorded."""

    @property
    def must_be_told(self) -> bool:
        """Somebody waits for the checkpoint, or it has an event to tell."""
        return bool(self.waiters or self.events or self.deliveries or self.applied)

    def continued(self, later: _Notes) -> _Notes:
        """These notes, which no checkpoint has recorded, with those that came after them."""
        whole = _Notes()
        whole.waiters = self.waiters + later.waiters
        whole.acknowledged = self.acknowledged + later.acknowledged
        whole.events = self.events + later.events
        whole.applied = self.applied + later.applied
        whole.deliveries = self.deliveries.continued(later.deliveries)
        whole.unawaited = self.unawaited + later.unawaited
        return whole

    def take_unawaited(self) -> Sequence[tuple[PartitionLease, Sequence[int]]]:
        """Return those acknowledgements, each only once."""
        unawaited, self.unawaited = self.unawaited, []
        return unawaited

    def complete(self, error: Exception | None = None) -> None:
        """Notify whoever waits, once."""
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            waiter.complete(error)


class ChannelCheckpoints:
    """At most one is under way; those that wait for it, and those that wait for the next."""

    __slots__ = ("_frozen_notes", "_has_forgotten", "_notes", "attempted", "freeze", "tentative")

    def __init__(self, *, records_attempts: bool) -> None:
        self.attempted: set[int] | None = set() if records_attempts else None
        """The messages that applications have or are about to get: each checkpoint records them (REDELIVER-7). None:
        none does."""
        self._has_forgotten = False
        """Less is attempted than the last freeze says."""
        self.freeze: Freeze | None = None
        """Taken by a checkpoint whose end is not known yet."""
        self.tentative: frozenset[int] = frozenset()
        """The messages that the taken freeze settles for its transfers: in hand until its end is known, come what
        may."""
        self._notes = _Notes()
        self._frozen_notes = _Notes()
        """That of the taken freeze."""

    @property
    def must_tell(self) -> bool:
        """Somebody waits for the next, or it has an event, or must take back what an earlier one says."""
        return self._has_forgotten or self._notes.must_be_told

    @property
    def is_next_awaited(self) -> bool:
        """Somebody waits for one that has not begun."""
        return bool(self._notes.waiters)

    @property
    def is_waited_for(self) -> bool:
        """Somebody waits for the end of the taken freeze."""
        return bool(self._frozen_notes.waiters)

    def note(self, event: MessageEvent) -> None:
        """Tell the next checkpoint's events."""
        self._notes.events.append(event)

    def note_applied(self, branch: str, heuristic: str = "") -> None:
        """A branch has ended here; `heuristic`: what became of its messages without a decision."""
        self._notes.applied.append((branch, heuristic))

    @property
    def frozen_applied(self) -> Sequence[tuple[str, str]]:
        """Return what the taken freeze tells of branches that ended."""
        return self._frozen_notes.applied

    def note_acknowledged(self, offsets: Sequence[int]) -> None:
        """Sessions have settled these."""
        self._notes.acknowledged.extend(offsets)

    def note_given(self, session: str, mode: str, given: Sequence[tuple[int, int, int]], from_ms: int) -> None:
        """A session's application got these; see `DeliveryRuns.note`."""
        self._notes.deliveries.note(session, mode, given, from_ms)

    def note_unawaited(self, lease: PartitionLease, offsets: Sequence[int]) -> None:
        """No call waits for the record of these acknowledgements: `take_unrecorded` names them until then."""
        self._notes.unawaited.append((lease, offsets))

    def take_unrecorded(self) -> Sequence[tuple[PartitionLease, Sequence[int]]]:
        """Acknowledgements that no call waits for and no checkpoint has recorded or is recording; each only once."""
        return self._notes.take_unawaited()

    def wait_durable(self, completion: Completion) -> None:
        """Complete when everything up to now is in the changelog."""
        self._notes.waiters.append(completion)

    def wait_frozen(self, completion: Completion) -> None:
        """Complete when the end of the taken freeze is known: durable, or, of a lost channel, failed."""
        assert self.freeze is not None, completion
        self._frozen_notes.waiters.append(completion)

    def begin(self, taken: Freeze, tentative: Collection[int]) -> None:
        """A freeze was taken; `end` must follow before the next."""
        assert self.freeze is None, taken
        self.freeze = taken
        self.tentative = frozenset(tentative)
        self._has_forgotten = False
        self._frozen_notes, self._notes = self._notes, _Notes()

    def forget_attempts(self, offsets: Collection[int]) -> None:
        """No application has these any more."""
        if self.attempted and not self.attempted.isdisjoint(offsets):
            self.attempted.difference_update(offsets)
            self._has_forgotten = True

    def events_of(
        self, committed: Sequence[int], leaving: Sequence[MessageEvent]
    ) -> tuple[Sequence[int], Sequence[MessageEvent], Sequence[DeliveryRun]]:
        """Return what the taken freeze tells with what its transfers do: offsets acknowledged, events, what was
        given."""
        notes = self._frozen_notes
        return [*notes.acknowledged, *committed], [*notes.events, *leaving], notes.deliveries.as_told()

    def end(self, *, durable: bool) -> list[Completion]:
        """The checkpoint's end is known. Returns whom to tell that everything they waited for is durable."""
        self.freeze = None
        if durable and self.attempted:
            self.attempted.difference_update(self.tentative)
        self.tentative = frozenset()
        notes, self._frozen_notes = self._frozen_notes, _Notes()
        if durable:
            return notes.waiters
        self._notes = notes.continued(self._notes)
        return []

    def fail_waiters(self, error: Exception) -> None:
        """The partition is gone: what no checkpoint has begun to record never will be. The others learn its end."""
        self._notes.complete(error)

    def leave_in_doubt(self, error: Exception) -> None:
        """Nobody will tell how the taken freeze ended."""
        self._frozen_notes.complete(error)
