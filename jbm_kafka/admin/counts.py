"""The contents of a queue, counted."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from jbm_kafka.codec.pause_record import NOTHING, Pause
from jbm_kafka.codec.scan import scan
from jbm_kafka.core.channel.redelivery import FOREVER_MS, is_expired
from jbm_kafka.core.channel.unit_places import UnitPlaces
from jbm_kafka.core.summary import summary
from jbm_kafka.ports import KafkaAdmin, TopicDescription
from jbm_kafka.ports.provider import Seen
from jbm_kafka.registry.channel_group import ChannelGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCounts:
    """One partition of a queue."""

    partition: int
    """The number of the Kafka topic's partition."""
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
    """The number of them that wait for a time."""
    retried: int = 0
    """The number of them that were handed over before."""
    for_operator: int = 0
    """The number of them on hold: out of attempts, each with its unit (`on_dead_letter="hold"`)."""
    expired: int = 0
    """The number of them that have expired: they leave as soon as somebody receives."""
    misplaced: int = 0
    """The number of them whose unit belongs into another partition: another client hashes keys otherwise."""
    oldest_at_ms: int | None = None
    """When the oldest of them came into this queue: sent there, given up, moved or sent again by a retry."""

    @property
    def held_at_most(self) -> int:
        """Messages not settled, or the group's lag when they were not counted."""
        return max(self.end - self.settled_to, 0) if self.held is None else self.held


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """A queue, or a subscription of a topic, at one moment."""

    name: str
    """The name of the queue; of a subscription that of its topic."""
    group: str
    """Kafka's own tools show the queue under this consumer group."""
    members: int
    """Processes that receive from it now."""
    idle_members: int
    """The number of them without a partition: more receive than there are partitions, or they have just come."""
    partitions: tuple[PartitionCounts, ...]
    """One row for each, in their order."""
    owners: Mapping[int, str]
    """The member of the group that has each partition now."""
    ready: int
    """Messages whose turn it is, at most one of each unit: a receiver has them, or they wait for one. `Admin.explain`
    tells them apart. 0 where the messages were not counted."""
    pause: Pause = NOTHING
    """The parts of it that are paused, with the operator's name and since when."""
    next_partitions: int = 0
    """An admission of so many partitions has begun and not ended; 0: none has (`Admin.admit_partitions`)."""
    unit_partitions: int = 0
    """Units are routed by so many partitions; fewer than there are: those that were added must be admitted first."""
    kept_units: int = 0
    """Units that keep the partition they had before more were admitted (`Admin.unit_paths`)."""
    has_changelog: bool = True
    """False: somebody deleted it, and nobody has used the queue since; or nobody of ours has used it yet."""
    parked_lost: int | None = 0
    """Messages that were parked in the changelog, and that it has no more: they are lost, and the partitions that had
    them stay closed; None: it is missing, and nobody knows how many. 0 where the messages were not counted."""

    @property
    def held(self) -> int:
        """Messages not settled."""
        return sum(part.held_at_most for part in self.partitions)

    @property
    def is_exact(self) -> bool:
        """Return True if the messages were counted; else `held` is an upper bound."""
        return all(part.held is not None for part in self.partitions)

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
        """Messages on hold: out of attempts, each with its unit."""
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
    def uncommitted(self) -> int:
        """Records that nobody reads before a Kafka transaction ends, and not counted as held; of any producer."""
        return sum(part.uncommitted for part in self.partitions)

    @property
    def without_owner(self) -> tuple[int, ...]:
        """Partitions that hold something and that the group gives to nobody now, though some receive.

        A process that had one may still work on its messages: `Admin.explain` asks it.
        """
        return tuple(
            p.partition for p in self.partitions if self.members and p.held_at_most and p.partition not in self.owners
        )

    @property
    def in_hand(self) -> int | None:
        """Messages that receivers have in hand; None: only the receiving processes know."""
        return 0 if self.members == 0 or self.held == 0 else None

    @property
    def oldest_at_ms(self) -> int | None:
        """When the oldest held message came into this queue; None: nothing is held, or it was not counted."""
        return min((part.oldest_at_ms for part in self.partitions if part.oldest_at_ms is not None), default=None)

    def __repr__(self) -> str:
        return summary(
            self,
            self.name,
            held=self.held,
            is_exact=self.is_exact,
            ready=self.ready,
            delayed=self.delayed,
            for_operator=self.for_operator,
            expired=self.expired,
            members=self.members,
            partitions=self.partitions,
            without_owner=self.without_owner,
        )


@dataclass(slots=True)
class Tally:
    """Counts the messages of one partition."""

    held: int = 0
    delayed: int = 0
    retried: int = 0
    for_operator: int = 0
    expired: int = 0
    misplaced: int = 0
    ready: int = 0
    oldest_at_ms: int | None = None

    def add(self, seen: Seen, places: UnitPlaces, now_ms: int) -> None:
        """One more message of a queue whose units are there."""
        key = seen.record.key()
        self.misplaced += bool(key) and places.home(key or b"") != seen.record.partition()
        self.held += 1
        is_for_operator = seen.due_at_ms >= FOREVER_MS
        self.for_operator += is_for_operator
        self.delayed += seen.due_at_ms > 0 and not is_for_operator
        self.expired += is_expired(scan(seen.record.headers()).expiration_ms, now_ms)
        self.retried += seen.attempts > 0
        self.ready += seen.is_deliverable
        sent_at_ms = seen.record.timestamp()[1]
        if self.oldest_at_ms is None or sent_at_ms < self.oldest_at_ms:
            self.oldest_at_ms = sent_at_ms


def tallies(messages: Iterable[Seen], places: UnitPlaces, now_ms: int) -> dict[int, Tally]:
    """The tally of each partition that holds anything."""
    found: dict[int, Tally] = {}
    for seen in messages:
        found.setdefault(seen.record.partition() or 0, Tally()).add(seen, places, now_ms)
    return found


def count_group(
    group: ChannelGroup,
    described: TopicDescription,
    *,
    admin: KafkaAdmin,
    seen: Callable[[], Mapping[int, Tally]],
    count_max: int,
    pause: Pause,
    places: UnitPlaces,
    has_changelog: bool,
) -> QueueCounts:
    """Return what the queue or subscription holds, whose units are by `places`.

    `seen` reads its messages, and is not asked for more than `count_max`.

    Raises:
        KafkaClientError: no answer.
    """
    parts = list(range(described.partitions))
    topic, begun = described.name, group.begins(described.topic_id)
    begins = admin.begin_positions(topic, parts)
    # In this order: what is committed in between must not look as if it waited. Nor is more settled than there is.
    heads = admin.end_positions(topic, parts, stable=False)
    ends = admin.end_positions(topic, parts, stable=True)
    committed = admin.committed(group.group_id, topic, parts)
    positions = {p: committed[p].position if p in committed else begun.get(p, 0) for p in parts}
    settled = {p: max(min(positions[p], ends[p]), begins[p]) for p in parts}
    members = admin.members(group.group_id, topic)
    owners = {partition: member.member_id for member in members for partition in member.partitions}
    is_countable = sum(max(ends[p] - settled[p], 0) for p in parts) <= count_max
    found = seen() if is_countable else {}
    return QueueCounts(
        name=group.destination.name,
        group=group.group_id,
        members=len(members),
        idle_members=sum(not member.partitions for member in members),
        owners=owners,
        ready=sum(tally.ready for tally in found.values()),
        pause=pause,
        next_partitions=places.next_partitions,
        unit_partitions=places.partitions,
        kept_units=len(places.paths),
        has_changelog=has_changelog,
        partitions=tuple(
            counts_of(
                found.get(p, Tally()) if is_countable else None,
                partition=p,
                begin=begins[p],
                settled_to=settled[p],
                end=ends[p],
                uncommitted=max(heads[p] - ends[p], 0),
            )
            for p in parts
        ),
    )


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
