"""Topics as lists, written by the test: only what recovery asks of Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from jbm_kafka.core.channel.companion_group import is_companion
from jbm_kafka.ports import (
    CommittedOffset,
    GroupDescription,
    GroupMember,
    KafkaRecord,
    LogPlace,
    TopicDescription,
    UnknownTopic,
    Unreachable,
)
from jbm_kafka.ports.access_rules import AccessRule
from tests.support.store_parts import MadeRecord

Row = tuple[bytes | None, bytes | None]


@dataclass(slots=True)
class ScriptedTopic:
    """A topic; a missing row is a transaction's marker, or was compacted away."""

    topic_id: str
    logs: list[dict[int, Row]]
    begins: list[int]
    ends: list[int]

    def append(self, partition: int, rows: Sequence[Row]) -> None:
        """One committed transaction: the rows, then its marker."""
        for row in rows:
            self.logs[partition][self.ends[partition]] = row
            self.ends[partition] += 1
        self.ends[partition] += 1

    def compact(self, partition: int) -> None:
        """Keep the latest value of every key and forget what was deleted."""
        rows = self.logs[partition]
        latest = {key: offset for offset, (key, _) in sorted(rows.items())}
        self.logs[partition] = {o: rows[o] for o in sorted(latest.values()) if rows[o][1] is not None}


@dataclass(slots=True)
class ScriptedKafka:
    """`KafkaAdmin` and `LogReader` over scripted topics; counts what was asked."""

    topics: dict[str, ScriptedTopic] = field(default_factory=dict)
    offsets: dict[tuple[str, str, int], CommittedOffset] = field(default_factory=dict)
    records_read: int = 0
    stuck: str = ""
    """Not empty: a read does not reach its end, for this cause."""
    committed_asked: int = 0

    def add_topic(self, name: str, *, topic_id: str, partitions: int, end: int = 0) -> ScriptedTopic:
        made = ScriptedTopic(topic_id, [{} for _ in range(partitions)], [0] * partitions, [end] * partitions)
        self.topics[name] = made
        return made

    def describe(self, topics: Sequence[str], *, with_config: bool = False) -> Mapping[str, TopicDescription]:
        found = {name: self.topics[name] for name in topics if name in self.topics}
        return {name: TopicDescription(name, topic.topic_id, len(topic.logs)) for name, topic in found.items()}

    def _topic(self, name: str) -> ScriptedTopic:
        if name not in self.topics:
            raise UnknownTopic(f"topic {name} does not exist")
        return self.topics[name]

    def begin_positions(self, topic: str, partitions: Sequence[int]) -> Mapping[int, int]:
        return {partition: self._topic(topic).begins[partition] for partition in partitions}

    def end_positions(
        self, topic: str, partitions: Sequence[int], *, stable: bool, timeout_s: float | None = None
    ) -> Mapping[int, int]:
        return {partition: self._topic(topic).ends[partition] for partition in partitions}

    def committed(
        self, group: str, topic: str, partitions: Sequence[int], *, timeout_s: float | None = None
    ) -> Mapping[int, CommittedOffset]:
        self.committed_asked += not is_companion(group)
        return {p: self.offsets[group, topic, p] for p in partitions if (group, topic, p) in self.offsets}

    def read(
        self, topic: str, ranges: Mapping[int, tuple[int, int]], *, timeout_s: float, committed_only: bool = True
    ) -> Sequence[KafkaRecord]:
        assert committed_only, "recovery never believes an open transaction"
        if self.stuck:
            raise Unreachable(f"{topic}: {self.stuck}")
        records = [
            MadeRecord(offset, topic=topic, partition=partition, key=key, value=value)
            for partition, (begin, end) in ranges.items()
            for offset, (key, value) in sorted(self._topic(topic).logs[partition].items())
            if begin <= offset < end
        ]
        self.records_read += len(records)
        return records

    def close(self) -> None:
        pass

    def _unasked(self) -> NoReturn:
        raise AssertionError("recovery only looks at offsets and logs")

    def allow(self, principal: str, rules: Sequence[AccessRule]) -> None:
        self._unasked()

    def positions_since(self, topic: str, partitions: Sequence[int], since_ms: int) -> Mapping[int, int]:
        self._unasked()

    def cluster_id(self) -> str:
        self._unasked()

    def check_answered(self, timeout_s: float) -> None:
        self._unasked()

    def unwritable(self, topics: Sequence[str]) -> frozenset[str]:
        self._unasked()

    def topic_names(self) -> frozenset[str]:
        self._unasked()

    def create_topic(
        self, name: str, *, partitions: int, config: Mapping[str, str], replication: int | None = None
    ) -> bool:
        self._unasked()

    def alter_config(self, name: str, config: Mapping[str, str]) -> None:
        self._unasked()

    def delete_topics(self, names: Sequence[str]) -> None:
        self._unasked()

    def add_partitions(self, name: str, partitions: int) -> None:
        self._unasked()

    def delete_groups(self, groups: Sequence[str]) -> None:
        self._unasked()

    def group_members(self, group: str) -> int:
        self._unasked()

    def member_counts(self, groups: Sequence[str]) -> Mapping[str, int]:
        self._unasked()

    def positions(self, topics: Mapping[str, int], at: LogPlace) -> Mapping[str, Mapping[int, int]]:
        self._unasked()

    def members(self, group: str, topic: str) -> Sequence[GroupMember]:
        self._unasked()

    def sees_all_groups(self) -> bool:
        self._unasked()

    def brokers(self) -> int:
        self._unasked()

    def allowed(self, topics: Sequence[str], groups: Sequence[str]) -> Mapping[tuple[str, str], frozenset[str]]:
        self._unasked()

    def groups(self) -> Mapping[str, GroupDescription]:
        self._unasked()

    def alter_offsets(self, group: str, topic: str, offsets: Mapping[int, CommittedOffset]) -> None:
        self._unasked()

    def delete_records(self, topic: str, before: Mapping[int, int]) -> Mapping[int, int]:
        self._unasked()
