"""Settings that lose messages, given by others to topics in use: a process that uses them tells, once (LOG-15)."""

from __future__ import annotations

import logging

import pytest

from jbm_kafka.core.destination import Queue
from jbm_kafka.memory.memory_admin import MemoryAdmin
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.memory.memory_process import Process
from jbm_kafka.registry.topics import Topics
from jbm_kafka.sidecar.topics.topic_settings import LOOK_MS, TopicSettings
from jbm_kafka.sidecar.topics.topic_watch import LOOK_S
from tests.sidecar.stepped import Start
from tests.support.manual_clock import ManualClock

COMPACTED = "cleanup.policy is compact and must be delete: later messages of a unit replace earlier ones"
SHORT = "retention.ms is 60000: Kafka deletes messages unread"
ALTER = "kafka-configs.sh --alter --entity-type topics --entity-name orders --add-config"


class Used:
    """Topics in use on a cluster whose clock stands still."""

    def __init__(self, *names: str) -> None:
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock, waits=False)
        self.admin = MemoryAdmin(Process(self.cluster), timeout_s=1.0)
        self.topics = Topics(self.admin, namespace="")
        self.settings = TopicSettings(self.admin, self.clock)
        self.use(*names)

    def use(self, *names: str) -> None:
        for name in names:
            self.topics.ensure(Queue(name), create=True, partitions=1)

    def look(self) -> None:
        self.settings.look(self.topics.look())


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings since the last call."""
    name = TopicSettings.__module__
    found = [row.getMessage() for row in caplog.records if row.name == name and row.levelno == logging.WARNING]
    caplog.clear()
    return found


def test_compaction_and_retention_of_a_queue_in_use_are_told_once_until_they_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """LOG-15: only the doctor told."""
    used = Used("orders")
    used.look()
    unchanged: dict[str, str] = {}
    compacted, short = ({"cleanup.policy": "compact"}, {"cleanup.policy": "delete", "retention.ms": "60000"})
    for changes, lines in (
        (unchanged, []),
        (compacted, [f"topic orders: {COMPACTED}; {ALTER} cleanup.policy=delete"]),
        (unchanged, []),
        (short, [f"topic orders: {SHORT}; {ALTER} retention.ms=-1"]),
        ({"retention.ms": "70000"}, [f"topic orders: {SHORT.replace('6', '7')}; {ALTER} retention.ms=-1"]),
        ({"retention.ms": "-1"}, []),
        (short, [f"topic orders: {SHORT}; {ALTER} retention.ms=-1"]),
    ):
        used.admin.alter_config("orders", changes)
        used.look()
        assert told(caplog) == [], "and not asked with every look"
        used.clock.advance(LOOK_MS)
        used.look()
        assert told(caplog) == lines


def test_one_replica_on_several_brokers_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Of LOG-15: for all topics in one line, and not again when the other brokers were away meanwhile."""
    used = Used("b", "a")
    for brokers, names in ((1, ""), (3, "a, b"), (1, ""), (2, "")):
        used.cluster.faults.brokers = brokers
        used.clock.advance(LOOK_MS)
        used.look()
        assert [line.partition(":")[0] for line in told(caplog)] == [f"replication factor 1 of topic {names}"] * bool(
            names
        )
    used.use(*"cdefgh")
    used.look()
    (line,) = told(caplog)
    assert line == (
        "replication factor 1 of topic c, d, e, f, g and 1 more: it is on 1 of 2 brokers; 2 are wanted, so that one "
        "may be lost; kafka-reassign-partitions.sh gives NAME more replicas"
    )


def test_a_process_that_receives_looks(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    """Of LOG-15: and at its changelogs, and where what it cannot handle goes."""
    process = start("one")
    process.attach("s")
    process.cluster.faults.brokers = 3
    process.kafka.admin().alter_config("orders", {"retention.ms": "60000"})
    process.run_for(int(LOOK_S * 1_000) + 2_000)
    retention, replicas = told(caplog)
    assert SHORT in retention
    assert "DLQ, DLQ.jbm-changelog, ExpiryQueue, ExpiryQueue.jbm-changelog, orders and 1 more" in replicas
