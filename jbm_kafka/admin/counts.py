"""What a queue holds, counted."""

from collections.abc import Iterable
from dataclasses import dataclass

from jbm_kafka.codec.scan import scan
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.core.redelivery import is_expired
from jbm_kafka.core.settlement import FOREVER_MS
from jbm_kafka.ports.provider import Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCounts:
    """One partition of a queue."""

    partition: int
    begin: int
    """Offset of the oldest record still in the log."""
    settled_to: int
    """The group's committed offset: everything below is settled. `begin` when nothing was committed yet."""
    end: int
    """One past the last committed record."""
    uncommitted: int
    """Records from `end` on that nobody reads before a Kafka transaction ends; not all need be its own."""
    held: int | None
    """Messages not settled; None: too many to be read for a count."""
    delayed: int = 0
    """Of them, those that wait for a time."""
    retried: int = 0
    """Of them, those that were handed over before."""
    for_operator: int = 0
    """Of them, those that are out of attempts and held, each with its unit (`on_dead_letter="hold"`)."""
    expired: int = 0
    """Of them, those that have expired: they leave as soon as somebody receives."""
    misplaced: int = 0
    """Of them, those whose unit belongs into another partition: another client hashes keys otherwise."""
    oldest_at_ms: int | None = None
    """When the oldest of them was sent."""

    @property
    def held_at_most(self) -> int:
        """Messages not settled, or the group's lag when they were not counted."""
        return max(self.end - self.settled_to, 0) if self.held is None else self.held


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """A queue at one moment."""

    name: str
    group: str
    """Kafka's own tools show the queue under this consumer group."""
    members: int
    """Processes that receive from it now."""
    partitions: tuple[PartitionCounts, ...]

    @property
    def is_exact(self) -> bool:
        """Whether the messages were counted; else `held` is an upper bound."""
        return all(part.held is not None for part in self.partitions)

    @property
    def held(self) -> int:
        """Messages not settled."""
        return sum(part.held_at_most for part in self.partitions)

    @property
    def delayed(self) -> int:
        """Messages that wait for a time."""
        return sum(part.delayed for part in self.partitions)

    @property
    def retried(self) -> int:
        """Messages that were handed over before and came back."""
        return sum(part.retried for part in self.partitions)

    @property
    def for_operator(self) -> int:
        """Messages that are out of attempts and held, each with its unit."""
        return sum(part.for_operator for part in self.partitions)

    @property
    def expired(self) -> int:
        """Messages that leave as soon as somebody receives."""
        return sum(part.expired for part in self.partitions)

    @property
    def misplaced(self) -> int:
        """Messages whose unit belongs into another partition by its hash."""
        return sum(part.misplaced for part in self.partitions)

    @property
    def in_hand(self) -> int | None:
        """Messages that receivers have in hand; None: only the receiving processes know."""
        return 0 if self.members == 0 or self.held == 0 else None

    @property
    def oldest_at_ms(self) -> int | None:
        """When the oldest held message was sent; None: nothing is held, or it was not counted."""
        return min((part.oldest_at_ms for part in self.partitions if part.oldest_at_ms is not None), default=None)


@dataclass(slots=True)
class Tally:
    """Counts the messages of one partition."""

    held: int = 0
    delayed: int = 0
    retried: int = 0
    for_operator: int = 0
    expired: int = 0
    misplaced: int = 0
    oldest_at_ms: int | None = None

    def add(self, seen: Seen, partitions: int, now_ms: int) -> None:
        """One more message of a queue whose units are routed by so many partitions."""
        key = seen.record.key()
        self.misplaced += bool(key) and partition_for(key or b"", partitions) != seen.record.partition()
        self.held += 1
        is_for_operator = seen.due_at_ms >= FOREVER_MS
        self.for_operator += is_for_operator
        self.delayed += seen.due_at_ms > 0 and not is_for_operator
        self.expired += is_expired(scan(seen.record.headers()).expiration_ms, now_ms)
        self.retried += seen.attempts > 0
        sent_at_ms = seen.record.timestamp()[1]
        if self.oldest_at_ms is None or sent_at_ms < self.oldest_at_ms:
            self.oldest_at_ms = sent_at_ms


def tallies(messages: Iterable[Seen], partitions: int, now_ms: int) -> dict[int, Tally]:
    """The tally of each partition that holds anything."""
    found: dict[int, Tally] = {}
    for seen in messages:
        found.setdefault(seen.record.partition() or 0, Tally()).add(seen, partitions, now_ms)
    return found


def counts_of(tally: Tally | None, **positions: int) -> PartitionCounts:
    """The counts of a partition; without a tally it was too long to be read."""
    if tally is None:
        return PartitionCounts(**positions, held=None)
    return PartitionCounts(
        **positions,
        held=tally.held,
        delayed=tally.delayed,
        retried=tally.retried,
        for_operator=tally.for_operator,
        expired=tally.expired,
        misplaced=tally.misplaced,
        oldest_at_ms=tally.oldest_at_ms,
    )
