"""The brokers of the in-memory Kafka: topics, groups, transactional ids, faults, one lock, one clock."""

import re
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, runtime_checkable

from jbm_kafka.memory.memory_groups import Group
from jbm_kafka.memory.memory_log import (
    DEFAULT_CONFIG,
    AppendGuard,
    MemoryRecord,
    MemoryTopic,
    MemoryTransaction,
    PartitionLog,
    TransactionOutcome,
)
from jbm_kafka.ports import Clock, CommittedOffset, KafkaClientError, Outgoing, UnknownTopic

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@runtime_checkable
class WatchedClock(Clock, Protocol):
    """A clock that moves only when its owner moves it, and says when it did."""

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` after every move."""


class CommitFault(Enum):
    """The fate of a commit whose answer never arrives."""

    COMMITTED = "COMMITTED"
    """The brokers committed it."""
    NOT_HEARD = "NOT_HEARD"
    """The brokers never heard of it: the transaction stays open until somebody aborts it."""


@dataclass(slots=True)
class Faults:
    """The faults that come next. Change them at any time."""

    commits: deque[CommitFault] = field(default_factory=deque)
    """One for each coming commit of any producer; empty: they succeed."""
    refuse: AppendGuard | None = None
    """Asked for every record that reaches a broker."""
    stalled: Callable[[str, int], bool] | None = None
    """Tells if a partition cannot be written now (topic, partition): plain sends to it wait."""
    leaderless: frozenset[tuple[str, int]] = frozenset()
    """Partitions (topic, partition) where nothing can be written: what is sent there gets no answer."""
    denied: frozenset[str] = frozenset()
    """Topics that no transaction may write to, of which as on brokers no report names the record; groups that take no
    offsets; transactional ids that may not be used."""
    hides_rights: bool = False
    """Nobody says what is denied."""
    alter: Callable[[str, Mapping[str, str]], None] | None = None
    """Called before a topic's configuration is changed (its name, the changes); it may refuse by raising."""
    create: Callable[[str], None] | None = None
    """Called before a topic is asked for (its name), also where it exists; it may refuse by raising."""
    damaged: Callable[[str, int, int], bool] | None = None
    """Tells if a record cannot be read (topic, partition, offset); asked by readers by position."""
    hides_groups: bool = False
    """Who lists groups sees only those of its own rights."""
    brokers: int = 1
    """So many are there."""
    replication: tuple[int, int] = (1, 1)
    """So many brokers have each partition, and so many of them all of it."""
    operations_denied: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The operations that a user is told to lack, by the name of a topic or group."""
    is_silent: bool = False
    """Nobody is told whether the cluster is there, nor of its topics."""
    share_groups: frozenset[str] = frozenset()
    """Groups of another kind that are there."""
    breaks: int = 0
    """How many connections every group consumer has lost so far."""
    forgotten_marks: int = 0
    """So many transactions that end next are over for their coordinator, and stay open in their partitions, as after a
    broker's restart."""
    marks_ms: Callable[[], int] | None = None
    """How long after its end a transaction's marks are written; None: at once."""
    step: Callable[[str, str], None] | None = None
    """Called before every step of a transactional producer (its id, the step); it may raise, as a crash would."""


@dataclass(slots=True)
class TransactionalId:
    """State of one transactional id at its coordinator."""

    epoch: int = 0
    timeout_ms: int = 0
    transaction: MemoryTransaction | None = None
    unmarked: MemoryTransaction | None = None
    """The last one, decided, while its marks are not written: the next one has to wait."""
    hanging: list[MemoryTransaction] = field(default_factory=list)
    """The transactions whose marks were forgotten."""


class MemoryCluster:
    """Brokers in memory. Make clients with `MemoryKafka(cluster)`, one for each process to be simulated.

    With `waits=False` nothing ever blocks, so one thread can drive everything: `consume` returns at once, what would
    wait for a transaction raises Unreachable at once, and send reports come from `flush` or `MemoryKafka.deliver`.
    """

    def __init__(self, clock: Clock, *, waits: bool = True) -> None:
        self.clock = clock
        self.waits = waits
        """Calls may block."""
        self.cluster_id = "memory"
        self.faults = Faults()
        self.changed = threading.Condition(threading.RLock())
        """The one lock. Notified after every change that somebody may wait for."""
        self.topics: dict[str, MemoryTopic] = {}
        self._groups: dict[str, Group] = {}
        self._transactional: dict[str, TransactionalId] = {}
        self._topic_count = 0
        self._offset_count = 0
        self._offset_numbers: dict[tuple[str, str, int], int] = {}
        """When the committed offset of a place was written."""
        self.waited_for_marks = 0
        """How often a producer got the answer "concurrent transactions"."""
        self.on_append: Callable[[MemoryRecord, MemoryTransaction | None], None] | None = None
        """Told of each record that was written, and in which transaction, under the lock: a log may lose it again."""
        if isinstance(clock, WatchedClock):
            clock.watch(self.tick)

    def wait(self, timeout_s: float) -> bool:
        """Wait, under the lock, for a change; False when there is no time left to wait."""
        if not self.waits or timeout_s <= 0:
            return False
        # Most clocks do not say when they move.
        self.changed.wait(min(timeout_s, 0.05))
        return True

    def tick(self) -> None:
        """Throw out silent members and abort overdue transactions, as brokers do by themselves."""
        with self.changed:
            now_ms = self.clock.monotonic_ms()
            for state in self._transactional.values():
                if state.unmarked is not None and now_ms >= state.unmarked.marks_due_ms:
                    self.write_marks(state)
                transaction = state.transaction
                if transaction is not None and now_ms - transaction.began_at_ms > state.timeout_ms:
                    state.epoch += 1
                    self.end(state, TransactionOutcome.ABORTED)
            for group in self._groups.values():
                for member in tuple(group.members.values()):
                    since_ms = member.silent_since_ms
                    if since_ms is not None and now_ms - since_ms > member.session_timeout_ms:
                        self.expire_member(group.name, member.member_id)

    # -- topics ------------------------------------------------------------------------------------------------------

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> bool:
        with self.changed:
            if self.faults.create is not None:
                self.faults.create(name)
            if name in self.topics:
                return False
            if not _LEGAL_NAME.fullmatch(name) or name in (".", ".."):
                raise KafkaClientError(f"create topic {name}: Topic name is invalid")
            if partitions < 1:
                raise KafkaClientError(f"create topic {name}: Number of partitions must be larger than 0")
            for other in self.topics:
                if other.replace(".", "_") == name.replace(".", "_"):
                    raise KafkaClientError(f"create topic {name}: Topic '{name}' collides with existing topic: {other}")
            self._topic_count += 1
            logs = [PartitionLog() for _ in range(partitions)]
            # With a slash, as of Kafka's own ids every fourth has one.
            self.topics[name] = MemoryTopic(name, f"memory/{self._topic_count}", {**DEFAULT_CONFIG, **config}, logs)
            for group in self._groups.values():
                owned = [m.assigned for m in group.members.values() if m.topic == name]
                if any(partition >= partitions for assigned in owned for partition in assigned):
                    group.rebalance(name, partitions)
            self.changed.notify_all()
            return True

    def add_partitions(self, name: str, partitions: int) -> None:
        with self.changed:
            topic = self.topic(name)
            if partitions == len(topic.logs):
                return
            if partitions < len(topic.logs):
                raise KafkaClientError(f"topic {name} has {len(topic.logs)} partitions, {partitions} are fewer")
            topic.logs += [PartitionLog() for _ in range(partitions - len(topic.logs))]
            for group in self._groups.values():
                if any(member.topic == name for member in group.members.values()):
                    group.rebalance(name, partitions)
            self.changed.notify_all()

    def delete_topic(self, name: str) -> None:
        with self.changed:
            self.topics.pop(name, None)
            for group in self._groups.values():
                for place in [place for place in group.committed if place[0] == name]:
                    del group.committed[place]
            self.changed.notify_all()

    def topic(self, name: str) -> MemoryTopic:
        if name not in self.topics:
            raise UnknownTopic(f"topic {name}: Unknown topic or partition")
        return self.topics[name]

    def log(self, name: str, partition: int) -> PartitionLog:
        logs = self.topic(name).logs
        if not 0 <= partition < len(logs):
            raise UnknownTopic(f"{name}[{partition}]: Unknown topic or partition")
        return logs[partition]

    def partition_count(self, name: str) -> int:
        """0 for a topic that is gone."""
        return len(self.topics[name].logs) if name in self.topics else 0

    def append(self, record: Outgoing, transaction: MemoryTransaction | None) -> int | str:
        """Append under the lock; the offset, or the reason why the broker refuses."""
        topic = self.topics.get(record.topic)
        if topic is None or not 0 <= record.partition < len(topic.logs):
            return "Unknown topic or partition"
        now_ms = self.clock.now_ms()
        reason = topic.refusal(record, now_ms) or (self.faults.refuse(record) if self.faults.refuse else None)
        if reason is not None:
            return reason
        self.changed.notify_all()
        log = topic.logs[record.partition]
        offset = log.append(record, topic.timestamp(record, now_ms), transaction)
        if self.on_append is not None and (written := log.entry(offset)[0]) is not None:
            self.on_append(written, transaction)
        return offset

    def refuses_for_good(self, record: Outgoing) -> bool:
        """Return True if its topic's settings refuse the record whenever it is tried."""
        topic = self.topics.get(record.topic)
        return topic is not None and topic.refusal(record, self.clock.now_ms()) is not None

    # -- groups ------------------------------------------------------------------------------------------------------

    def group(self, name: str) -> Group:
        return self._groups.setdefault(name, Group(name))

    def known_groups(self) -> list[Group]:
        """Return those that have members or committed offsets."""
        return [group for group in self._groups.values() if group.members or group.committed]

    def delete_groups(self, names: Sequence[str]) -> None:
        with self.changed:
            for name in names:
                group = self.group(name)
                if group.members:
                    raise KafkaClientError(f"delete groups {name}: The group is not empty")
                group.committed.clear()  # and it goes on to number its members: their ids never come twice
                for state in self._transactional.values():
                    for transaction in (state.transaction, state.unmarked):
                        if transaction is not None:
                            transaction.forget_offsets(name)

    def expire_member(self, group: str, member_id: str) -> None:
        """The group's session with the member ends now; the member hears of it at its next `consume`."""
        with self.changed:
            member = self.group(group).members.get(member_id)
            assert member is not None, f"group {group} has no member {member_id}"
            self.group(group).leave(member_id, self.partition_count(member.topic))
            self.changed.notify_all()

    def is_stable(self, group: str, topic: str, partition: int) -> bool:
        """No open transaction holds an offset for the place."""
        states = self._transactional.values()
        pending = (t for s in states for t in (s.transaction, s.unmarked, *s.hanging) if t is not None)
        return not any((group, topic, partition) in transaction.offsets for transaction in pending)

    def decided_offset(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        """The committed offset as it will be once every mark is written."""
        place = group, topic, partition
        found = self._offset_numbers.get(place, 0), self.group(group).committed.get((topic, partition))
        for state in self._transactional.values():
            transaction = state.unmarked
            if (
                transaction is not None
                and transaction.outcome is TransactionOutcome.COMMITTED
                and place in transaction.offsets
            ):
                found = max(
                    found, (transaction.offset_numbers[place], transaction.offsets[place]), key=lambda row: row[0]
                )
        return found[1]

    # -- transactions --------------------------------------------------------------------------------------------------

    def initialise(self, transactional_id: str, timeout_ms: int) -> int:
        """A new epoch: older users are fenced, and what they left open is aborted."""
        with self.changed:
            state = self._transactional.setdefault(transactional_id, TransactionalId())
            if state.transaction is not None:
                self.end(state, TransactionOutcome.ABORTED)
            self.write_marks(state)
            state.epoch += 1
            state.timeout_ms = timeout_ms
            return state.epoch

    def transactional_ids(self) -> Mapping[str, TransactionalId]:
        """All that a producer ever had."""
        return self._transactional

    def transactional(self, transactional_id: str) -> TransactionalId:
        return self._transactional[transactional_id]

    def end(self, state: TransactionalId, outcome: TransactionOutcome) -> None:
        """Decide the open transaction; its marks follow, now or later."""
        transaction = state.transaction
        assert transaction is not None, "no transaction to end"
        state.transaction = None
        transaction.outcome = outcome
        if self.faults.forgotten_marks > 0:
            self.faults.forgotten_marks -= 1
            state.hanging.append(transaction)
            return
        state.unmarked = transaction
        delay_ms = self.faults.marks_ms() if self.faults.marks_ms is not None else 0
        transaction.marks_due_ms = self.clock.monotonic_ms() + delay_ms
        if not delay_ms:
            self.write_marks(state)

    def add_offsets(
        self, transaction: MemoryTransaction, group: str, topic: str, offsets: Mapping[int, CommittedOffset]
    ) -> None:
        """Offsets of one group that the transaction would commit."""
        for partition, offset in offsets.items():
            self._offset_count += 1
            transaction.offsets[group, topic, partition] = offset
            transaction.offset_numbers[group, topic, partition] = self._offset_count

    def write_marks(self, state: TransactionalId) -> None:
        """Markers in every partition that the last transaction wrote to, and its offsets if it committed."""
        transaction, state.unmarked = state.unmarked, None
        if transaction is None:
            return
        for log in transaction.logs:
            log.mark(transaction)
        state.hanging = [hanging for hanging in state.hanging if not _is_ended_by(transaction, hanging)]
        for place, offset in transaction.offsets.items() if transaction.outcome is TransactionOutcome.COMMITTED else ():
            number = transaction.offset_numbers[place]
            if number > self._offset_numbers.get(place, 0):
                self._offset_numbers[place] = number
                self.group(place[0]).committed[place[1:]] = offset
        self.changed.notify_all()


def _is_ended_by(ended: MemoryTransaction, hanging: MemoryTransaction) -> bool:
    """The marker of a producer ends all that it has open in a partition, and so with a group's offsets; True: that was
    the last of it."""
    hanging.outcome = ended.outcome
    for log in [log for log in hanging.logs if log in ended.logs]:
        log.mark(hanging)
        hanging.logs.remove(log)
    for group in {place[0] for place in ended.offsets}:
        hanging.forget_offsets(group)
    return not (hanging.logs or hanging.offsets)
