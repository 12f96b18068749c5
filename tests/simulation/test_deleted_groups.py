"""The in-memory Kafka deletes groups as brokers do."""

from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import CommittedOffset
from tests.support.manual_clock import ManualClock

PLACE = {0: CommittedOffset(position=3, metadata="")}


def test_marks_that_come_later_bring_no_deleted_group_back() -> None:
    clock = ManualClock()
    cluster = MemoryCluster(clock, waits=False)
    cluster.faults.marks_ms = lambda: 50
    cluster.create_topic("t", 1, {})
    kafka = MemoryKafka(cluster)
    producer = kafka.transactional_producer("p", transaction_timeout_ms=1_000)
    producer.initialise(1.0)
    for group in ("deleted", "kept"):
        producer.begin()
        producer.send_offsets(None, group, "t", PLACE)
        producer.commit(1.0)
        kafka.admin().delete_groups(["deleted"])
        clock.advance(100)
    assert kafka.admin().committed("deleted", "t", [0]) == {}
    assert kafka.admin().committed("kept", "t", [0]) == PLACE


def test_a_group_of_a_deleted_ones_name_gives_no_member_id_twice() -> None:
    cluster = MemoryCluster(ManualClock(), waits=False)
    cluster.create_topic("t", 1, {})
    first = cluster.group("g").join("t", 1, 1_000).member_id
    cluster.group("g").leave(first, 1)
    cluster.delete_groups(["g"])
    assert cluster.group("g").join("t", 1, 1_000).member_id != first
