"""Goal: the next owner finds what committed checkpoints recorded, whatever the last one was doing when it died.

Method: transactions and a group of the in-memory Kafka; the process crashes between two steps of a checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from jbm_kafka.codec.changelog import encode_entry
from jbm_kafka.core.channel.checkpoint_id import CheckpointId, first_checkpoint_id
from jbm_kafka.core.channel.entries import Entry, Position
from jbm_kafka.core.channel.start_position import StartReason
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import CommittedOffset, Outgoing, Unreachable
from jbm_kafka.store.changelog_reader import ChangelogScope
from jbm_kafka.store.recovery import RecoveredChannel, recover_channels
from tests.support.manual_clock import ManualClock
from tests.support.recovery_world import CHANGELOG, GROUP, TOPIC, held, settled

TRANSACTION_TIMEOUT_MS = 10_000


class TakesAll:
    """A group listener that starts everything at 0."""

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        return dict.fromkeys(partitions, 0)

    def on_revoked(self, partitions: Sequence[int]) -> None:
        pass

    def on_lost(self, partitions: Sequence[int]) -> None:
        pass


class Owner:
    """A sidecar reduced to its checkpoints."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.kafka = MemoryKafka(cluster, admin_timeout_s=0.01)
        self.clock = cluster.clock
        self.next_id: CheckpointId = first_checkpoint_id("jbm.f.0", now_ms=self.clock.now_ms())
        self.journal = MemoryJournal(clock=self.clock)
        self.consumer = self.kafka.group_consumer(
            group=GROUP,
            topic=TOPIC,
            partitions=1,
            listener=TakesAll(),
            session_timeout_ms=2000,
            rebalance_timeout_ms=300_000,
            memory_bytes=1 << 20,
        )
        while not self.consumer.assignment():
            self.consumer.consume(1, 0)
        self.producer = self.kafka.transactional_producer("jbm.f.0", transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
        self.producer.initialise(1)

    def begin_checkpoint(self, watermark: int, *entries: Entry) -> Position:
        self.next_id = self.next_id.following()
        position = Position(self.topic_id(), str(self.next_id), watermark, 50, 50, 0)
        self.producer.begin()
        for entry in (position, *entries):
            self.producer.produce(Outgoing(CHANGELOG, 0, *encode_entry(GROUP, entry)))
        offset = CommittedOffset(watermark, str(self.next_id))
        self.producer.send_offsets(self.consumer.group_metadata(), GROUP, TOPIC, {0: offset})
        return position

    def checkpoint(self, watermark: int, *entries: Entry) -> Position:
        position = self.begin_checkpoint(watermark, *entries)
        self.producer.commit(1)
        return position

    def topic_id(self) -> str:
        return self.kafka.admin().describe([TOPIC])[TOPIC].topic_id


def recover(kafka: MemoryKafka, journal: MemoryJournal) -> RecoveredChannel:
    admin = kafka.admin()
    topic_id = admin.describe([TOPIC])[TOPIC].topic_id
    scope = ChangelogScope(group=GROUP, topic=TOPIC, topic_id=topic_id, changelog_topic=CHANGELOG)
    reader = kafka.log_reader()
    told: dict[str, Any] = {"admin": admin, "reader": reader, "journal": journal}
    return recover_channels(scope, (0,), timeout_s=0.01, pause=lambda seconds: None, **told)[0]


@pytest.fixture
def cluster() -> MemoryCluster:
    made = MemoryCluster(ManualClock(), waits=False)
    admin = MemoryKafka(made).admin()
    admin.create_topic(TOPIC, partitions=1, config={})
    admin.create_topic(CHANGELOG, partitions=1, config={"cleanup.policy": "compact"})
    sender = MemoryKafka(made).sender()
    for _ in range(60):
        sender.send(Outgoing(TOPIC, 0, b"u", b"body"), None)
    sender.flush(1)
    return made


def test_a_checkpoint_that_died_with_its_process_is_waited_out_and_leaves_nothing(cluster: MemoryCluster) -> None:
    """LOG-5: verdicts, entries and offset become visible together or not at all."""
    owner = Owner(cluster)
    last = owner.checkpoint(10, settled(0, 15), held(12))
    owner.begin_checkpoint(20, settled(0, 30))
    owner.kafka.crash()
    successor = MemoryKafka(cluster, admin_timeout_s=0.01)
    with pytest.raises(Unreachable):
        recover(successor, MemoryJournal(clock=owner.clock))
    assert isinstance(owner.clock, ManualClock)
    owner.clock.advance(3 * TRANSACTION_TIMEOUT_MS)
    found = recover(successor, MemoryJournal(clock=owner.clock))
    assert found.entries == (last, settled(0, 15), held(12))
    assert (found.reason, found.is_decided_here) == (StartReason.CHANGELOG, False)
    assert recover(successor, owner.journal) == found


def test_a_committed_checkpoint_is_found_by_whoever_comes_next(cluster: MemoryCluster) -> None:
    """LOG-7: with the local state of before, or with none."""
    owner = Owner(cluster)
    owner.checkpoint(10, settled(0, 15), held(12))
    recover(owner.kafka, owner.journal)
    last = owner.checkpoint(13, held(14))
    owner.kafka.crash()
    successor = MemoryKafka(cluster, admin_timeout_s=0.01)
    found = recover(successor, MemoryJournal(clock=owner.clock))
    assert found.entries == (last, settled(0, 15), held(12), held(14))
    assert recover(successor, owner.journal) == found
