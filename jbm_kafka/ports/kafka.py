"""The sidecar's view of Kafka, as Protocols and plain values.

`kafka/` implements them over confluent-kafka, `memory/` in memory; both pass the same contract tests. No Kafka
type leaves an implementation: records are anything with the seven methods of `KafkaRecord` (a confluent message
fits as it is, so the hot path copies nothing). Offsets are 0-based; a *position* is one past an offset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from jbm_kafka.core.channel.checkpoint_id import CommittedOffset as CommittedOffset
from jbm_kafka.core.channel.process_names import named_process
from jbm_kafka.ports.access_rules import AccessRule
from jbm_kafka.ports.installation import RECORD_TIMEOUT_MS
from jbm_kafka.ports.record_to_send import Headers as Headers
from jbm_kafka.ports.record_to_send import Outgoing as Outgoing

UNREADABLE = "\N{REPLACEMENT CHARACTER}"
"""In the name of a header that was read: for bytes that are not UTF-8, or for a whole name that was lost."""


class KafkaRecord(Protocol):
    """One record as fetched."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> Headers | None: ...
    def timestamp(self) -> tuple[int, int]:
        """(kind, ms since the epoch), kind as Kafka numbers it: 0 none, 1 create time, 2 log append time."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as the cluster describes it now."""

    name: str
    topic_id: str
    """The broker's own id: a recreated topic has another one."""
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)
    """Configuration values by name, as text; filled only when asked for."""
    replicas: int = 1
    """How many brokers have the partition that the fewest have."""
    in_sync: int = 1
    """How many have all of the partition of which the fewest do."""


class GroupKind(Enum):
    """A group's kind, by the protocol of its members; `committed` is asked of the first two kinds."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    """KIP-848."""
    OTHER = "other"
    """A share group, a streams group, or what a later Kafka has: it keeps its positions in another place."""


class LogPlace(Enum):
    """A place in the log of a partition."""

    BEGIN = "begin"
    END = "end"
    """The high watermark, open transactions included."""
    STABLE_END = "stable end"
    """The last stable offset, where a read_committed reader stops."""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as its coordinator lists it now."""

    name: str
    kind: GroupKind
    is_empty: bool
    """It has no members; its committed offsets stay for some days."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a consumer group as its coordinator lists it now."""

    member_id: str
    client_id: str
    host: str
    """Its address as the brokers see it; "" without brokers."""
    partitions: frozenset[int]
    """The partitions of the topic that was asked about."""

    @property
    def name(self) -> str:
        """For people: `process 4711 at worker-3`; its id in the group and its address, where `client.id` is another."""
        process = named_process(self.client_id)
        if process is not None:
            return process
        return f"member {self.member_id} at {self.host}" if self.host else self.member_id


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction as its coordinator has recorded it last: begun, and not ended in every partition."""

    transactional_id: str
    producer_id: int
    state: str
    """`Ongoing`; or `PrepareCommit`, `PrepareAbort`: decided, and not yet marked in all its partitions."""
    began_at_ms: int
    timeout_ms: int
    """Its coordinator aborts it so long after its beginning, or some seconds later, if it is still `Ongoing`."""


class KafkaClientError(Exception):
    """Base of what an implementation raises. `str()` is one line for a user, with topic or group and cause."""

    is_for_good = False
    """The message that was sent is at fault: it would be refused again, whenever it is sent."""


class Unreachable(KafkaClientError):
    """No broker answered in time. Retrying later may help; nothing is known about the call's effect."""


class NobodyAnswers(Unreachable):
    """No broker said anything at all: an outage, or a wrong address. Others of its base may come of a busy cluster."""

    def __init__(self, text: str, *, bootstrap: str) -> None:
        super().__init__(text)
        self.bootstrap = bootstrap


class LeaderMissing(Unreachable):
    """A record was not confirmed in time, and its partition has no leader now: nothing can be written there."""

    def __init__(self, text: str, record: Outgoing) -> None:
        super().__init__(text)
        self.record = record


class AccessRefused(KafkaClientError):
    """A broker is there, and refuses the credentials, their absence, or what they may do. Nothing was done."""


class UnknownTopic(KafkaClientError):
    """The topic or partition does not exist."""


class SettingRefused(KafkaClientError):
    """The brokers do not take the value of a setting of ours; `str()` names both, and what they take."""

    def __init__(self, message: str, *, setting: str, value: object) -> None:
        super().__init__(message)
        self.setting = setting
        self.value = value


class RecordTooLarge(KafkaClientError):
    """The record exceeds what the topic or client takes. Nothing was written."""

    record: Outgoing | None = None
    """It, where that is known."""


class QueueTooSmall(RecordTooLarge):
    """The record has more bytes than may wait to be sent. It was not queued, whatever its topic takes."""

    def __init__(self, message: str, size_bytes: int, most_bytes: int) -> None:
        super().__init__(message)
        self.size_bytes = size_bytes
        self.most_bytes = most_bytes


class GroupFenced(KafkaClientError):
    """The group refused this member or generation: abort the transaction; others may go on without the group."""

    def __init__(self, message: str, *, group: str) -> None:
        super().__init__(message)
        self.group = group


@dataclass(frozen=True, slots=True)
class Refusal:
    """A no of Kafka's that stays one, however often one tries, until somebody changes a right, a setting or a limit."""

    cause: KafkaClientError
    """AccessRefused: a right."""
    topic: str = ""
    """Where it is known which one."""
    group: str = ""
    """Whose offsets are refused."""


class TransactionAborted(KafkaClientError):
    """The transaction cannot commit and must be aborted; the producer stays usable.

    `failed` holds the tokens (see `TransactionalProducer.produce`) whose records a report named as refused.
    `leaderless`: records got no answer, for these partitions (topic, partition) have no leader now.
    `refusals`: of these tokens trying again mends nothing; of None: of the transaction, and no report names a record.
    """

    def __init__(
        self,
        message: str,
        *,
        failed: frozenset[object] = frozenset(),
        leaderless: frozenset[tuple[str, int]] = frozenset(),
        refusals: Mapping[object, Refusal] | None = None,
    ) -> None:
        super().__init__(message)
        self.failed = failed
        self.leaderless = leaderless
        self.refusals = refusals or {}


class OutcomeUnknown(KafkaClientError):
    """Fatal or timed out: the transaction may or may not have committed. Close the producer, make a new one, look."""

    is_fenced: bool = False
    """Another producer has taken the transactional id, as far as that is known."""


class GroupListener(Protocol):
    """Told about partitions, always on the thread that calls `GroupConsumer.consume` or `close`, inside that call."""

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Take over these partitions; returns the position to fetch from for each of them that may start now."""

    def on_revoked(self, partitions: Sequence[int]) -> None:
        """Give these partitions up in order; may take its time, writes are still accepted until it returns."""

    def on_lost(self, partitions: Sequence[int]) -> None:
        """These partitions are gone already; nothing about them may be written."""


class PositionOutOfRange(KafkaClientError):
    """A fetch position lies outside the log; the partition is stopped until `seek`."""

    def __init__(self, message: str, *, partition: int) -> None:
        super().__init__(message)
        self.partition = partition


class PartitionGone(KafkaClientError):
    """The topic is there without this partition: it was made anew with fewer. The others can be read on."""

    def __init__(self, message: str, *, partition: int) -> None:
        super().__init__(message)
        self.partition = partition


class PartitionUnreadable(KafkaClientError):
    """Raised where a partition holds something that cannot be read; nothing behind it is read until somebody mends
    it."""

    def __init__(self, message: str, *, partition: int) -> None:
        super().__init__(message)
        self.partition = partition


def unreadable(topic: str, partition: int | None, offset: int | None, reason: str) -> PartitionUnreadable:
    """For a reader by position: records that are damaged would be missing from what it reads, and nobody would know."""
    return PartitionUnreadable(
        f"{topic}[{partition}] offset {offset}: what is stored there cannot be read: {reason}. Restore the partition "
        f"from a sound replica; or, if what it says may be lost, delete its records up to there with "
        f"kafka-delete-records",
        partition=-1 if partition is None else partition,
    )


class GroupConsumer(Protocol):
    """A member of one consumer group reading one topic, read_committed. One thread only, `close` included."""

    def consume(self, count_max: int, timeout_s: float) -> Sequence[KafkaRecord]:
        """Up to `count_max` records, in offset order per partition; returns with the first, or at the timeout.

        It may also return nothing sooner, when `ends_reached` has news.
        Must be called often, also while everything is paused: membership and callbacks live in it.

        Raises:
            PositionOutOfRange: a partition's position is below the log's start or above its end.
            PartitionGone: the topic has fewer partitions than when this one was assigned.
            PartitionUnreadable: records of a partition are damaged. What is before them was or will be returned.
            KafkaClientError: an error that will not go away by itself.
        """

    def wake(self) -> None:
        """Any thread: a `consume` that waits returns soon, where the client can do that."""

    def pause(self, partitions: Sequence[int]) -> None: ...
    def resume(self, partitions: Sequence[int]) -> None: ...
    def seek(self, partition: int, position: int) -> None: ...
    def assignment(self) -> frozenset[int]: ...

    def group_metadata(self) -> object:
        """Return what `send_offsets` needs to fence a loser: member and generation as of now. Opaque, passed along.
        Raises GroupFenced when it is no member: not yet, not any more, or closed."""

    def ends_reached(self) -> Mapping[int, int]:
        """Positions where a partition had nothing more that is stable, when `consume` had returned all before."""

    def known_ends(self) -> Mapping[int, int]:
        """Where the log of each partition ended by the latest answer, transactions that are open included."""

    def breaks(self) -> int: ...  # connections lost so far: topics may have changed since
    def timed_out(self) -> bool: ...  # since it had partitions last it heard nothing of its group for too long
    def joined(self) -> bool:
        """True once a first assignment (possibly empty) has been received."""

    def close(self) -> None:
        """Leave the group; `on_revoked` runs for what is still owned."""


class TransactionalProducer(Protocol):
    """One transactional id. One thread only."""

    def initialise(self, timeout_s: float, *, known_topic: str | None = None) -> None:
        """Fence older users of the id and wait for the end of their transactions. Faster with a topic that exists."""

    def begin(self) -> None: ...

    def produce(self, record: Outgoing, token: object = None) -> None:
        """Queue one record; `token` names it in `TransactionAborted.failed`.

        Raises:
            RecordTooLarge: it can tell at once.
        """

    def offsets_written(self, timeout_s: float) -> Mapping[object, int]:
        """Wait until what was queued in this transaction is written: the offset of each record by its token.

        Raises:
            TransactionAborted: a record was refused, or not all were confirmed in time.
        """

    def send_offsets(
        self, group_metadata: object | None, group: str, topic: str, offsets: Mapping[int, CommittedOffset]
    ) -> None:
        """Add the group's offsets to the transaction; with no metadata, those of a group that never has members.

        Raises GroupFenced, TransactionAborted or OutcomeUnknown.
        """

    def commit(self, timeout_s: float) -> Mapping[tuple[str, int], int]:
        """Commit; returns one past the highest offset written, by (topic, partition).

        Raises:
            TransactionAborted: abort it.
            OutcomeUnknown: make a new producer.
        """

    def abort(self, timeout_s: float) -> None: ...  # OutcomeUnknown: only a new producer of the id can end it
    def close(self) -> None: ...  # aborts what is open; what ended in OutcomeUnknown is left to the id's next user


SendReport = Callable[[KafkaClientError | None], None]
"""Called once per record, on the sender's own thread: None when every in-sync replica has it."""


class RecordSender(Protocol):
    """An idempotent producer for plain sends, in order per partition. Any thread."""

    def send(self, record: Outgoing, report: SendReport | None) -> None:
        """Queue one record, when there is room. `report` tells its end.

        A send that is not confirmed in time has failed, and with it all later ones to its partition by this sender.

        Raises:
            RecordTooLarge, KafkaClientError: it was not queued.
        """

    def try_send(self, record: Outgoing, report: SendReport | None) -> bool:
        """As `send`, but never waits: False when there is no room now, and nothing was queued."""

    def flush(self, timeout_s: float) -> bool:
        """True when everything queued before has been reported."""

    def close(self, timeout_s: float) -> None: ...


class LogReader(Protocol):
    """Reads partitions by position, without a group. One thread only."""

    def read(
        self, topic: str, ranges: Mapping[int, tuple[int, int]], *, timeout_s: float, committed_only: bool = True
    ) -> Sequence[KafkaRecord]:
        """All records in [begin, end) of the given partitions, in offset order per partition.

        Waits until the read position passes each end (an open transaction may hold it back), at most `timeout_s`.
        A begin below the log's start begins at the start.

        Raises:
            Unreachable: the end was not reached in time; the text names what holds it back.
            PartitionUnreadable: records in the range are damaged.
        """

    def close(self) -> None: ...


class TailReader(Protocol):
    """Reads on as records come, read_committed, from positions that are given, without a group.

    One thread at a time. Nothing is read before `assign`, which may be called again at any time.
    """

    def assign(self, topic: str, positions: Mapping[int, int]) -> None:
        """Read these partitions from these positions on, and nothing else any more."""

    def poll(self, count_max: int, timeout_s: float) -> Sequence[KafkaRecord]:
        """Up to `count_max` records, in offset order per partition; returns with the first, or at the timeout.

        It may also return nothing sooner, when a partition's end was found and `positions` has news.

        Raises:
            PositionOutOfRange: the position is below the log's start or above its end; nothing of the partition is
                read until `assign`.
            PartitionUnreadable: what is stored there is damaged. What is before it was or will be returned, nothing
                behind it until `assign`.
            UnknownTopic, AccessRefused: nothing can be read.
        """

    def positions(self) -> Mapping[int, int]:
        """Return what of each partition was returned, as the position after it and after what is never shown:
        transaction markers, and what was aborted. At a log's stable end it is that."""

    def close(self) -> None: ...


class KafkaAdmin(Protocol):
    """Questions about the cluster, its topics and groups, and changes of them. Any thread.

    Every call is bounded by `timeout_s` of the instance.
    """

    def describe(self, topics: Sequence[str], *, with_config: bool = False) -> Mapping[str, TopicDescription]:
        """The topics that exist among those asked for."""

    def unwritable(self, topics: Sequence[str]) -> frozenset[str]:
        """Return those of the topics that these credentials may not write to."""

    def check_answered(self, timeout_s: float) -> None:
        """Return when the cluster answers; Unreachable when it does not within this time."""

    def topic_names(self) -> frozenset[str]: ...
    def create_topic(
        self, name: str, *, partitions: int, config: Mapping[str, str], replication: int | None = None
    ) -> bool:
        """False when it existed already. Returns when the topic can be used.

        Without `replication` it has as many replicas as brokers give by themselves.
        """

    def alter_config(self, name: str, config: Mapping[str, str]) -> None: ...  # the other values stay
    def delete_topics(self, names: Sequence[str]) -> None: ...
    def add_partitions(self, name: str, partitions: int) -> None:
        """Return when the topic has so many, which can be used; it may have had them before. Fewer are refused."""

    def begin_positions(self, topic: str, partitions: Sequence[int]) -> Mapping[int, int]: ...
    def end_positions(
        self, topic: str, partitions: Sequence[int], *, stable: bool, timeout_s: float | None = None
    ) -> Mapping[int, int]:
        """`stable`: the last stable offset (read_committed end); else the high watermark. `timeout_s`: this call's."""

    def positions_since(self, topic: str, partitions: Sequence[int], since_ms: int) -> Mapping[int, int]:
        """Return for each partition the position of the first record that is stamped then or later; of one without any
        its end, open transactions included."""

    def positions(self, topics: Mapping[str, int], at: LogPlace) -> Mapping[str, Mapping[int, int]]:
        """Return the positions of many topics at once, each with its number of partitions. One is missing of which
        nothing is known now."""

    def committed(
        self, group: str, topic: str, partitions: Sequence[int], *, timeout_s: float | None = None
    ) -> Mapping[int, CommittedOffset]:
        """Committed offsets with require-stable: waits while a transaction on them is open. Absent: none.

        `timeout_s`: this call's.
        """

    def delete_records(self, topic: str, before: Mapping[int, int]) -> Mapping[int, int]:
        """Let go of everything below these positions, for good; where each log begins now.

        A position below a log's begin changes nothing. Open transactions hold nothing back: stay below stable ends.

        Raises:
            PositionOutOfRange: above the end of a log; its `partition` says of which. Others may have been done.
            UnknownTopic: no such topic or partition.
            KafkaClientError: the topic's `cleanup.policy` does not have `delete`, and so its records go by compaction.
        """

    def group_members(self, group: str) -> int: ...
    def member_counts(self, groups: Sequence[str]) -> Mapping[str, int]:
        """Return the members of many groups at once; one is missing that these credentials may not describe."""

    def members(self, group: str, topic: str) -> Sequence[GroupMember]: ...
    def sees_all_groups(self) -> bool:
        """These credentials may describe the cluster; else `groups` leaves out, in silence, what they may not see."""

    def groups(self) -> Mapping[str, GroupDescription]:
        """Every group of the cluster that these credentials may describe, by name, of whatever kind.

        Raises:
            Unreachable: a broker did not answer, so that groups may be missing.
        """

    def alter_offsets(self, group: str, topic: str, offsets: Mapping[int, CommittedOffset]) -> None:
        """Commit these offsets for a group without members, which is made by it if it is not there.

        Raises:
            GroupFenced: the group has members, and positions are theirs.
            UnknownTopic: no such topic or partition.
        """

    def delete_groups(self, groups: Sequence[str]) -> None:
        """With all their offsets; those that are not there too. A KafkaClientError says which one still has members."""

    def brokers(self) -> int: ...  # that are there now
    def allowed(self, topics: Sequence[str], groups: Sequence[str]) -> Mapping[tuple[str, str], frozenset[str]]:
        """Return what these credentials may do with each, by ("topic" or "group", name): in Kafka's words, as in READ.

        Of what is not there, or that is not told: nothing, not even the name. All of it where nothing is refused to
        anybody.
        """

    def allow(self, principal: str, rules: Sequence[AccessRule]) -> None:
        """Have `principal`, such as `User:app`, be allowed that; what it was allowed before stays."""

    def cluster_id(self) -> str: ...  # tells one installation's state folder from another's
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class FoundTransactions:
    """The coordinators' account of the transactions on one partition."""

    transactions: tuple[OpenTransaction, ...]
    """The transactions that wrote to it, or were about to, and have not ended, the oldest first."""
    is_whole: bool
    """All that is recorded was looked at. Else, on a very busy cluster, only the latest."""


class TransactionLog(Protocol):
    """The coordinators' records of transactions. One thread."""

    def open_on(self, topic: str, partition: int) -> FoundTransactions:
        """The transactions on the partition that have not ended.

        Raises:
            AccessRefused: these credentials may not read what the coordinators have recorded.
            KafkaClientError: it cannot be read.
        """

    def close(self) -> None: ...


class GroupConsumers(Protocol):
    """Makes members of groups, and readers of their logs."""

    def group_consumer(
        self, *, group: str, topic: str, partitions: int, listener: GroupListener, session_timeout_ms: int,
        rebalance_timeout_ms: int, memory_bytes: int, client_id: str = "") -> GroupConsumer:  # fmt: skip
        """A member that may get all of the topic's partitions; each of them gets its share of every fetch.

        `rebalance_timeout_ms`: longer than `on_revoked` ever takes; a member that lives but answers later is put out.
        `client_id`: that of JMS, shown in lists of the group's members.
        """

    def log_reader(self) -> LogReader:
        """Reads what a member would, and more."""


class Kafka(GroupConsumers, Protocol):
    """Makes the parts above for one cluster (`bootstrap` and client settings are the implementation's)."""

    def transactional_producer(
        self,
        transactional_id: str,
        *,
        transaction_timeout_ms: int,
        is_contended: bool = False,
        record_timeout_ms: int = RECORD_TIMEOUT_MS,
    ) -> TransactionalProducer:
        """`is_contended`: others use the same id on purpose, and to be fenced by them is no news for the log.
        `record_timeout_ms`: a record that is not written by then fails.

        What such a one read after `initialise` holds until `commit`: it takes the id over at no other moment, and where
        it cannot go on `begin` raises TransactionAborted.
        """

    def sender(self, *, linger_ms: int = 0) -> RecordSender:
        """`linger_ms`: how long a record may wait for others to go with; a flush waits for none."""

    def tail_reader(self) -> TailReader: ...
    def transaction_log(self) -> TransactionLog: ...
    def admin(self) -> KafkaAdmin: ...
