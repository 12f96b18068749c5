"""Administration and reading by position for the in-memory Kafka."""

import time
from collections.abc import Callable, Mapping, Sequence

from jbm_kafka.memory.memory_log import PartitionLog
from jbm_kafka.memory.memory_process import Process
from jbm_kafka.ports import (
    AccessRefused,
    CommittedOffset,
    GroupDescription,
    GroupFenced,
    GroupKind,
    GroupMember,
    KafkaClientError,
    KafkaRecord,
    LogPlace,
    PositionOutOfRange,
    TopicDescription,
    Unreachable,
)
from jbm_kafka.ports.access_rules import AccessRule
from jbm_kafka.ports.kafka import unreadable

OPERATIONS = frozenset(["READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"])


class MemoryAdmin:
    """Implements `ports.KafkaAdmin`."""

    def __init__(self, process: Process, *, timeout_s: float) -> None:
        self._process = process
        self._cluster = process.cluster
        self._timeout_s = timeout_s

    def describe(self, topics: Sequence[str], *, with_config: bool = False) -> Mapping[str, TopicDescription]:
        self.check_answered(self._timeout_s)
        with self._cluster.changed:
            denied = self._cluster.faults.operations_denied
            refused = [name for name in topics if "DESCRIBE" in denied.get(name, ())]
            if refused:
                raise AccessRefused(f"describe topic {refused[0]}: Topic authorization failed")
            found = [self._cluster.topics[name] for name in topics if name in self._cluster.topics]
            return {
                t.name: TopicDescription(
                    t.name, t.topic_id, len(t.logs), t.config if with_config else {}, *self._cluster.faults.replication
                )
                for t in found
            }

    def unwritable(self, topics: Sequence[str]) -> frozenset[str]:
        self._process.check()
        faults = self._cluster.faults
        return frozenset() if faults.hides_rights else faults.denied.intersection(topics)

    def check_answered(self, timeout_s: float) -> None:
        self._process.check()
        if self._cluster.faults.is_silent:
            raise Unreachable("no answer: a fault of the test")

    def topic_names(self) -> frozenset[str]:
        self._process.check()
        with self._cluster.changed:
            return frozenset(self._cluster.topics)

    def create_topic(
        self, name: str, *, partitions: int, config: Mapping[str, str], replication: int | None = None
    ) -> bool:
        self._process.check()
        return self._cluster.create_topic(name, partitions, config)

    def alter_config(self, name: str, config: Mapping[str, str]) -> None:
        self._process.check()
        with self._cluster.changed:
            topic = self._cluster.topic(name)
            if self._cluster.faults.alter is not None:
                self._cluster.faults.alter(name, config)
            topic.config = {**topic.config, **config}

    def delete_topics(self, names: Sequence[str]) -> None:
        self._process.check()
        for name in names:
            self._cluster.delete_topic(name)

    def add_partitions(self, name: str, partitions: int) -> None:
        self._process.check()
        self._cluster.add_partitions(name, partitions)

    def begin_positions(self, topic: str, partitions: Sequence[int]) -> Mapping[int, int]:
        self._process.check()
        with self._cluster.changed:
            return {partition: self._cluster.log(topic, partition).begin for partition in partitions}

    def end_positions(
        self, topic: str, partitions: Sequence[int], *, stable: bool, timeout_s: float | None = None
    ) -> Mapping[int, int]:
        self._process.check()
        with self._cluster.changed:
            logs = {partition: self._cluster.log(topic, partition) for partition in partitions}
            return {partition: log.stable_end if stable else log.end for partition, log in logs.items()}

    def positions_since(self, topic: str, partitions: Sequence[int], since_ms: int) -> Mapping[int, int]:
        self._process.check()
        with self._cluster.changed:
            return {partition: self._cluster.log(topic, partition).position_since(since_ms) for partition in partitions}

    def positions(self, topics: Mapping[str, int], at: LogPlace) -> Mapping[str, Mapping[int, int]]:
        self._process.check()
        with self._cluster.changed:
            there = {name: self._cluster.topics[name].logs for name in topics if name in self._cluster.topics}
            return {name: {p: _position(log, at) for p, log in enumerate(logs)} for name, logs in there.items()}

    def committed(
        self, group: str, topic: str, partitions: Sequence[int], *, timeout_s: float | None = None
    ) -> Mapping[int, CommittedOffset]:
        def are_stable() -> bool:
            return all(self._cluster.is_stable(group, topic, partition) for partition in partitions)

        with self._cluster.changed:
            text = f"committed offsets of group {group} for topic {topic}: a transaction on them is still open"
            _wait(self._process, are_stable, self._timeout_s if timeout_s is None else timeout_s, lambda: text)
            found = self._cluster.group(group).committed
            return {partition: found[topic, partition] for partition in partitions if (topic, partition) in found}

    def group_members(self, group: str) -> int:
        self._process.check()
        with self._cluster.changed:
            self._cluster.tick()
            return len(self._cluster.group(group).members)

    def member_counts(self, groups: Sequence[str]) -> Mapping[str, int]:
        return {group: self.group_members(group) for group in groups}

    def members(self, group: str, topic: str) -> Sequence[GroupMember]:
        self._process.check()
        with self._cluster.changed:
            self._cluster.tick()
            members = self._cluster.group(group).members.values()
            return [
                # What a member is to give up is in nobody's list, though it has it until its listener returns.
                GroupMember(m.member_id, "", "", frozenset(m.assigned - m.revoking if m.topic == topic else ()))
                for m in members
            ]

    def sees_all_groups(self) -> bool:
        self._process.check()
        return not self._cluster.faults.hides_groups

    def groups(self) -> Mapping[str, GroupDescription]:
        self._process.check()
        with self._cluster.changed:
            self._cluster.tick()
            return {
                group.name: GroupDescription(group.name, GroupKind.CLASSIC, is_empty=not group.members)
                for group in self._cluster.known_groups()
            } | {
                name: GroupDescription(name, GroupKind.OTHER, is_empty=True)
                for name in self._cluster.faults.share_groups
            }

    def alter_offsets(self, group: str, topic: str, offsets: Mapping[int, CommittedOffset]) -> None:
        self._process.check()
        with self._cluster.changed:
            for partition in offsets:
                self._cluster.log(topic, partition)
            if self._cluster.group(group).members:
                raise GroupFenced(f"offsets of group {group} for topic {topic}: it has members", group=group)
            self._cluster.group(group).committed.update(
                {(topic, partition): offset for partition, offset in offsets.items()}
            )

    def delete_records(self, topic: str, before: Mapping[int, int]) -> Mapping[int, int]:
        self._process.check()
        with self._cluster.changed:
            logs = {partition: self._cluster.log(topic, partition) for partition in before}
            if "delete" not in self._cluster.topic(topic).config["cleanup.policy"]:
                raise KafkaClientError(f"delete records of {topic}: its cleanup.policy does not have delete")
            for partition, log in logs.items():
                if not 0 <= before[partition] <= log.end:
                    text = f"delete records of {topic}[{partition}]: position {before[partition]} is outside the log"
                    raise PositionOutOfRange(text, partition=partition)
                log.delete_before(before[partition])
            self._cluster.changed.notify_all()
            return {partition: log.begin for partition, log in logs.items()}

    def delete_groups(self, groups: Sequence[str]) -> None:
        self._process.check()
        self._cluster.delete_groups(groups)

    def brokers(self) -> int:
        self._process.check()
        return self._cluster.faults.brokers

    def allowed(self, topics: Sequence[str], groups: Sequence[str]) -> Mapping[tuple[str, str], frozenset[str]]:
        self._process.check()
        with self._cluster.changed:
            known = {each.name for each in self._cluster.known_groups()}
            asked = [("topic", name) for name in topics if name in self._cluster.topics]
            asked += [("group", name) for name in groups if name in known]
            return {
                each: OPERATIONS - self._cluster.faults.operations_denied.get(each[1], frozenset()) for each in asked
            }

    def allow(self, principal: str, rules: Sequence[AccessRule]) -> None:
        raise KafkaClientError(
            f"set access rules of {principal}: in memory there are no users, and no rights are needed"
        )

    def cluster_id(self) -> str:
        self._process.check()
        return self._cluster.cluster_id

    def close(self) -> None:
        """Nothing to do."""


class MemoryLogReader:
    """Implements `ports.LogReader`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._cluster = process.cluster

    def read(
        self, topic: str, ranges: Mapping[int, tuple[int, int]], *, timeout_s: float, committed_only: bool = True
    ) -> Sequence[KafkaRecord]:
        records: list[KafkaRecord] = []
        with self._cluster.changed:
            for partition, (begin, end) in sorted(ranges.items()):
                if begin < end:
                    records += self._range(topic, partition, begin, end, timeout_s, committed_only)
        return records

    def _range(
        self, topic: str, partition: int, begin: int, end: int, timeout_s: float, committed_only: bool
    ) -> list[KafkaRecord]:
        log = self._cluster.log(topic, partition)

        def reached() -> int:
            return log.stable_end if committed_only else log.end

        _wait(
            self._process,
            lambda: reached() >= end,
            timeout_s,
            lambda: (
                f"read {topic}[{partition}]: position {reached()} did not reach {end} within {timeout_s:g} s: "
                "an open transaction holds it back, or the log ends before that"
            ),
        )
        records, _ = log.read(max(begin, log.begin), end, committed_only=committed_only)
        found = [record for record in records if record.offset() < end]
        is_damaged = self._cluster.faults.damaged
        bad = [r.offset() for r in found if is_damaged is not None and is_damaged(topic, partition, r.offset())]
        if bad:
            raise unreadable(topic, partition, bad[0], "Local: Bad message format (BAD_MSG)")
        return list(found)

    def close(self) -> None:
        """Nothing to do."""


def _position(log: PartitionLog, at: LogPlace) -> int:
    return {LogPlace.BEGIN: log.begin, LogPlace.END: log.end, LogPlace.STABLE_END: log.stable_end}[at]


def _wait(process: Process, is_so: Callable[[], bool], timeout_s: float, text: Callable[[], str]) -> None:
    """Wait under the cluster's lock; Unreachable with the text when the time is up."""
    deadline = time.monotonic() + timeout_s
    while True:
        process.check()
        process.cluster.tick()
        if is_so():
            return
        if not process.cluster.wait(deadline - time.monotonic()):
            raise Unreachable(text())
