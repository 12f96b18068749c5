"""The messages of one link that were granted and that its application has not received.

The session's lock guards it: whoever calls holds it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence

from jbm_kafka.core.ranking import by_priority
from jbm_kafka.core.reference import Reference
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.unit_barrier import UnitBarrier


class LinkBuffer:
    """What a receive takes next, and what is to come there. Its length is what a receive finds now."""

    def __init__(self) -> None:
        self.ready: deque[Delivery] = deque()
        self.coming: list[list[Delivery]] = []
        """Granted, but not to be seen before that is durable; the group worker's."""
        self.taken: Delivery | None = None
        """What the last `pop` gave: where Ctrl-C comes before whoever called it has it, this still does."""
        self.asked: Delivery | None = None
        """What the application gets next, where that must be recorded first; it stays here until it is."""
        self.is_recorded = False
        """It is durable that the application gets `asked`."""
        self.is_kept_back = False
        """What stays here whatever happens is not handed over before `Link.let_out`; the group worker's."""
        self._is_ranked = False
        """Something of it has another priority than the default, or had."""

    def __len__(self) -> int:
        return len(self.ready)

    @property
    def awaits_more(self) -> bool:
        """Something was granted that has not arrived."""
        return any(self.coming)

    @property
    def has_asked(self) -> bool:
        """`asked` is here."""
        return self.asked is not None and self.asked in self.ready

    @property
    def awaits_record(self) -> bool:
        """`asked` is here, and not recorded yet."""
        return self.asked is not None and not self.is_recorded and self.has_asked

    def pop(self, barrier: UnitBarrier) -> Delivery | None:
        """The next message that the barrier lets through, or None."""
        ready, fenced = self.ready, barrier.units
        if not fenced or barrier.is_down():
            if not ready:
                return None
            self.taken = ready[0]
            return ready.popleft()
        for index, delivery in enumerate(ready):
            unit = delivery.reference.unit
            if unit is None or (delivery.lease.channel.partition, unit) not in fenced:
                self.taken = delivery
                del ready[index]
                return delivery
        return None

    def next_to_record(self, barrier: UnitBarrier) -> Delivery | None:
        """What `pop` would give, where it must be recorded first: `asked`, as long as it is here."""
        rows: Iterable[Delivery] = [self.asked] if self.asked is not None and self.has_asked else self.ready
        is_down = not barrier.units or barrier.is_down()
        return next((each for each in rows if is_down or each.unit_place not in barrier.units), None)

    def pop_recorded(self) -> Delivery | None:
        """`asked`, when it is recorded; else None, and it stays."""
        delivery = self.asked
        if delivery is None or not self.is_recorded:
            return None
        self.taken = delivery
        self.ready.remove(delivery)
        return delivery

    def add(self, deliveries: Sequence[Delivery], *, is_ranked: bool) -> None:
        """More is ready. `is_ranked`: with other priorities than the default, and so maybe before what is here."""
        is_behind = bool(self.ready)
        self._is_ranked = is_ranked or (is_behind and self._is_ranked)
        self.ready.extend(deliveries)
        if self._is_ranked and is_behind:
            self.ready = deque(by_priority(self.ready, _reference_of, _unit_of))

    def arrived(self, deliveries: list[Delivery]) -> None:
        """What is left of this announced list comes no more: it is there, or nobody gets it."""
        self.coming = [batch for batch in self.coming if batch is not deliveries]

    def take_unread(self) -> list[Delivery]:
        """Everything that may go back; it is here no more."""
        unread = [*self.ready, *self._coming_one_by_one()]
        self.ready.clear()
        self._forget_coming()
        return unread

    def remove(self, partition: int, offsets: Collection[int] | None) -> list[Delivery]:
        """Take out of what may go back messages of a partition: these offsets, or all when None."""
        out = _those_of(partition, offsets, [*self.ready, *self._coming_one_by_one()])
        if out:
            gone = {delivery.place for delivery in out}
            self.ready = deque(delivery for delivery in self.ready if delivery.place not in gone)
            self._leave_out(gone)
        return out

    def unread(self, partition: int) -> list[int]:
        """Offsets of a partition that may go back."""
        rows = (*self.ready, *self._coming_one_by_one())
        return [delivery.reference.offset for delivery in rows if delivery.lease.channel.partition == partition]

    def _coming_one_by_one(self) -> list[Delivery]:
        return [delivery for batch in self.coming for delivery in batch]

    def _forget_coming(self) -> None:
        for batch in self.coming:
            batch.clear()

    def _leave_out(self, gone: Collection[tuple[int, int]]) -> None:
        """These come no more; the lists stay, for `Link.arrive` knows them."""
        for batch in self.coming:
            batch[:] = [delivery for delivery in batch if delivery.place not in gone]


class AcknowledgedBuffer(LinkBuffer):
    """What is ready here is acknowledged, and never goes back; only what is to come does, if that is not either."""

    def __init__(self, *, records_first: bool) -> None:
        """`records_first`: what is to come is acknowledged too."""
        super().__init__()
        self._records_first = records_first
        self.kept: deque[Delivery] = deque()
        """Unread when the connection was stopped or the destination paused: not `ready`, so that a receive looks in one
        place and asks nothing more."""

    def keep(self) -> None:
        """What is ready is not to be received for now."""
        self.kept.extend(self.ready)
        self.ready.clear()

    def show(self) -> None:
        """What was kept is ready again."""
        self.ready.extendleft(reversed(self.kept))
        self.kept.clear()

    def put_back(self, delivery: Delivery, *, keeps: bool) -> None:
        """Undo the last `pop`."""
        unread = self.kept if keeps else self.ready
        if not (unread and unread[0] is delivery):
            unread.appendleft(delivery)

    def drop(self) -> list[Delivery]:
        """Forget what is acknowledged; returns it."""
        unread = [*self.ready, *self.kept]
        self.ready.clear()
        self.kept.clear()
        if self._records_first:
            unread += self._coming_one_by_one()
            self._forget_coming()
        return unread

    def take_unread(self) -> list[Delivery]:
        if self._records_first:
            return []
        unread = self._coming_one_by_one()
        self._forget_coming()
        return unread

    def remove(self, partition: int, offsets: Collection[int] | None) -> list[Delivery]:
        if self._records_first:
            return []
        out = _those_of(partition, offsets, self._coming_one_by_one())
        self._leave_out({delivery.place for delivery in out})
        return out

    def unread(self, partition: int) -> list[int]:
        if self._records_first:
            return []
        rows = self._coming_one_by_one()
        return [delivery.reference.offset for delivery in rows if delivery.lease.channel.partition == partition]


def _reference_of(delivery: Delivery) -> Reference:
    return delivery.reference


def _unit_of(delivery: Delivery) -> object:
    unit = delivery.reference.unit
    return None if unit is None else (delivery.lease.channel.partition, unit)


def _those_of(partition: int, offsets: Collection[int] | None, rows: Sequence[Delivery]) -> list[Delivery]:
    return [
        delivery
        for delivery in rows
        if delivery.lease.channel.partition == partition and (offsets is None or delivery.reference.offset in offsets)
    ]
