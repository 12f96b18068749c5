"""The count by which units are routed is recorded, and a topic that got more partitions routes nothing untold."""

from typing import Any

import pytest

from jbm_kafka.core.destination import Queue
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.memory.memory_log import PartitionLog
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.registry.registry import Registry
from jbm_kafka.registry.topics import Topics
from tests.support.manual_clock import ManualClock

ORDERS = Queue("orders")


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(ManualClock())


def registry_of(cluster: MemoryCluster) -> Registry:
    """As one more process has it."""
    kafka = MemoryKafka(cluster)
    return Registry(kafka, kafka.admin(), "jbm.registry")


def topics_of(cluster: MemoryCluster) -> Topics:
    return Topics(MemoryKafka(cluster).admin(), namespace="", registry=registry_of(cluster))


def ensure(topics: Topics) -> TopicInfo:
    return topics.ensure(ORDERS, create=True, partitions=2)


def test_partitions_added_with_kafkas_own_tool_route_no_unit_before_they_are_admitted(cluster: MemoryCluster) -> None:
    """Of UNIT-11: senders that have heard of them and senders that have not must not split a unit."""
    old = topics_of(cluster)
    assert ensure(old).unit_partitions == 2
    cluster.add_partitions("orders", 4)
    old.look()
    for topics in (old, topics_of(cluster)):
        info = ensure(topics)
        assert (info.partitions, info.unit_partitions) == (4, 2)
    registry_of(cluster).record("orders", ensure(old).topic_id, 4)
    old.look()
    assert ensure(old).unit_partitions == ensure(topics_of(cluster)).unit_partitions == 4


def test_the_record_of_a_topic_that_was_made_anew_means_nothing(cluster: MemoryCluster) -> None:
    """A topic made anew with fewer partitions refused the unit for ever."""
    topics = topics_of(cluster)
    ensure(topics)
    cluster.delete_topic("orders")
    cluster.create_topic("orders", 1, {})
    topics.look()
    assert ensure(topics).unit_partitions == ensure(topics_of(cluster)).unit_partitions == 1


def test_a_registry_that_was_deleted_is_written_again_from_what_is_known(cluster: MemoryCluster) -> None:
    topics = topics_of(cluster)
    ensure(topics)
    cluster.delete_topic("jbm.registry")
    cluster.add_partitions("orders", 4)
    topics.look()
    assert ensure(topics_of(cluster)).unit_partitions == 2


def test_records_of_other_kinds_and_of_newer_versions_are_passed_over(cluster: MemoryCluster) -> None:
    ensure(topics_of(cluster))
    sender = MemoryKafka(cluster).sender()
    for key, value in ((b"checkpoint|x", b"1"), (b"destination|other", b"damaged"), (b"destination|orders", b"new")):
        sender.send(Outgoing("jbm.registry", 0, key, value), None)
    assert sender.flush(10.0)
    assert ensure(topics_of(cluster)).unit_partitions == 2


def test_a_look_reads_only_what_is_new(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look that found news made a reader and read them by itself."""
    read: list[int] = []
    real = PartitionLog.read
    reader = registry_of(cluster)
    writer = registry_of(cluster)
    writer.record("orders", "id", 2)
    reader.refresh()
    assert reader.recorded("orders", "id") == 2
    registry_log = cluster.log("jbm.registry", 0)

    def counted(self: PartitionLog, position: int, *rest: Any, **options: Any) -> Any:
        read.extend([position] if self is registry_log else [])
        return real(self, position, *rest, **options)

    for partitions in (3, 4):
        writer.record("orders", "id", partitions)
    monkeypatch.setattr(PartitionLog, "read", counted)
    reader.refresh()
    assert reader.recorded("orders", "id") == 4
    assert min(read) == 1
    before = len(read)
    reader.refresh()
    assert len(read) == before
    reader.close()
