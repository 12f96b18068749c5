"""What several processes change in the registry at once: nobody's change is lost, and nobody is asked in vain."""

import threading
from collections.abc import Mapping

import pytest

from jbm_kafka.memory.memory_cluster import CommitFault
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import AccessRefused, Kafka, Outgoing
from jbm_kafka.registry.registry_log import RegistryLog
from tests.support.manual_clock import ManualClock

KEY = b"counter|orders"


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(ManualClock())


def registry_of(kafka: Kafka) -> RegistryLog:
    return RegistryLog(kafka, kafka.admin(), "jbm.registry")


def one_more(values: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
    return {KEY: b"%d" % (int(values.get(KEY, b"0")) + 1)}


def count_side_by_side(registries: list[RegistryLog], times: int) -> None:
    def count(registry: RegistryLog) -> None:
        for _ in range(times):
            registry.update(one_more)

    threads = [threading.Thread(target=count, args=(registry,)) for registry in registries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_no_change_is_lost_where_several_processes_change_one_key(cluster: MemoryCluster) -> None:
    """Written without comparing, two processes that counted at once counted once."""
    registries = [registry_of(MemoryKafka(cluster)) for _ in range(3)]
    count_side_by_side(registries, 20)
    for registry in registries:
        registry.refresh()
        assert registry.get(KEY) == b"60"
        registry.close()


def test_who_finds_the_registry_there_needs_no_right_to_make_topics(cluster: MemoryCluster) -> None:
    """The first claim of a client id, and `settings set`, made the topic without a look, and were refused."""
    registry_of(MemoryKafka(cluster)).write({KEY: b"1"})

    def refused(name: str) -> None:
        raise AccessRefused(f"create topic {name}: Topic authorization failed")

    cluster.faults.create = refused
    registry_of(MemoryKafka(cluster)).update(one_more)
    other = registry_of(MemoryKafka(cluster))
    other.make()
    other.refresh()
    assert other.get(KEY) == b"2"


def test_a_change_whose_end_nobody_knows_is_not_made_twice(cluster: MemoryCluster) -> None:
    registry = registry_of(MemoryKafka(cluster))
    asked: list[bytes | None] = []

    def claim(values: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
        asked.append(values.get(KEY))
        return {} if values.get(KEY) == b"mine" else {KEY: b"mine"}

    for fault in (CommitFault.NOT_HEARD, CommitFault.COMMITTED):
        asked.clear()
        registry.update(lambda _: {KEY: b"free"})
        cluster.faults.commits.append(fault)
        before = cluster.log("jbm.registry", 0).end
        registry.update(claim)
        assert registry.get(KEY) == b"mine"
        assert asked[:2] == [b"free", b"free"]  # seen from afar, and again with nobody beside
        assert cluster.log("jbm.registry", 0).end >= before
    assert asked[-1] == b"mine", "the second time its own change was found"


def test_what_this_process_has_under_way_is_not_overlooked(cluster: MemoryCluster) -> None:
    """One thread waits to learn what became of its change, while another gives up what that may have recorded.

    Read to the stable end the change is not there yet, and it would stay for good.
    """
    kafka = MemoryKafka(cluster)
    is_wanted = True

    def claim(values: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
        return {KEY: b"mine"} if is_wanted and KEY not in values else {}

    def give_up() -> None:
        registry.update(lambda values: {KEY: None} if KEY in values else {})

    def meanwhile(seconds: float) -> None:
        nonlocal is_wanted
        is_wanted = False
        other = threading.Thread(target=give_up)
        other.start()
        other.join()

    registry = RegistryLog(kafka, kafka.admin(), "jbm.registry", pause=meanwhile)
    registry.make()
    cluster.faults.commits.append(CommitFault.COMMITTED)
    delays_ms = iter((5_000,))
    cluster.faults.marks_ms = lambda: next(delays_ms, 0)
    registry.update(claim)
    registry.refresh()
    assert not is_wanted, "the other thread came in between"
    assert registry.get(KEY) is None


def test_nothing_is_written_where_there_is_nothing_to_change(cluster: MemoryCluster) -> None:
    registry = registry_of(MemoryKafka(cluster))
    registry.update(one_more)
    end = cluster.log("jbm.registry", 0).end
    registry.update(lambda _: {})
    with pytest.raises(LookupError):
        registry.update(lambda values: {KEY: values[b"missing"]})
    assert cluster.log("jbm.registry", 0).end == end


def test_a_writer_that_was_overtaken_writes_nothing_more(cluster: MemoryCluster) -> None:
    slow, fast = registry_of(MemoryKafka(cluster)), registry_of(MemoryKafka(cluster))
    asked: list[bytes | None] = []

    def late(values: Mapping[bytes, bytes]) -> dict[bytes, bytes | None]:
        asked.append(values.get(KEY))
        if len(asked) == 2:  # between its looking and its writing
            fast.update(one_more)
        return one_more(values)

    slow.update(late)
    assert asked == [None, None, b"1"]
    assert slow.get(KEY) == b"2"


def test_the_open_transaction_of_a_killed_writer_is_ended(cluster: MemoryCluster) -> None:
    kafka = MemoryKafka(cluster)
    killed = kafka.transactional_producer("jbm.registry", transaction_timeout_ms=10_000)
    registry = registry_of(MemoryKafka(cluster))
    registry.update(one_more)
    killed.initialise(1.0)
    killed.begin()
    killed.produce(Outgoing("jbm.registry", 0, KEY, b"99"))
    registry.update(one_more)
    assert registry.get(KEY) == b"2"


def test_a_deleted_key_is_gone(cluster: MemoryCluster) -> None:
    registry = registry_of(MemoryKafka(cluster))
    registry.update(one_more)
    registry.update(lambda _: {KEY: None})
    assert registry.get(KEY) is None
    assert registry.values() == {}
