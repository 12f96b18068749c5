"""The order in which browsers show messages, and how far they read ahead for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from jbm_kafka.browsing import browse_order
from jbm_kafka.browsing.browse import browse
from jbm_kafka.core.destination import Queue
from jbm_kafka.memory.memory_admin import MemoryLogReader
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.memory.memory_process import Process
from jbm_kafka.ports import KafkaRecord, Outgoing
from jbm_kafka.registry.channel_group import ChannelGroup
from tests.kafka.world import send_all
from tests.support.manual_clock import ManualClock

QUEUE = Queue("orders")
GROUP = ChannelGroup.of_queue(QUEUE, namespace="")


class CountedReader(MemoryLogReader):
    """A log reader that tells how many records each read gave."""

    def __init__(self, process: Process, given: list[int]) -> None:
        super().__init__(process)
        self._given = given

    def read(
        self, topic: str, ranges: Mapping[int, tuple[int, int]], *, timeout_s: float, committed_only: bool = True
    ) -> Sequence[KafkaRecord]:
        found = super().read(topic, ranges, timeout_s=timeout_s, committed_only=committed_only)
        self._given.append(len(found))
        return found


class CountingKafka(MemoryKafka):
    """Each read of a log is counted."""

    def __init__(self, cluster: MemoryCluster) -> None:
        super().__init__(cluster)
        self.reads: list[int] = []

    def log_reader(self) -> MemoryLogReader:
        return CountedReader(self._process, self.reads)


class Bench:
    """A queue of some partitions; what is sent to it is a millisecond after what was sent before."""

    def __init__(self, partitions: int) -> None:
        self.clock = ManualClock()
        self.kafka = CountingKafka(MemoryCluster(self.clock))
        self.kafka.admin().create_topic(QUEUE.name, partitions=partitions, config={})

    def send(self, partition: int, body: str, unit: str | None = None, priority: int = 4) -> None:
        self.clock.advance(1)
        headers = [("JMSPriority", str(priority).encode())]
        send_all(self.kafka, [Outgoing(QUEUE.name, partition, unit.encode() if unit else None, body.encode(), headers)])

    def send_many(self, partition: int, count: int, size: int = 1) -> None:
        send_all(self.kafka, [Outgoing(QUEUE.name, partition, None, b"x" * size)] * count)

    def shown(self, *, include_all: bool = True) -> list[str]:
        found = browse(self.kafka, GROUP, now_ms=self.clock.now_ms(), hands=None, include_all=include_all)
        return [(seen.record.value() or b"").decode() for seen in found]


def test_partitions_are_merged_by_when_messages_were_sent() -> None:
    """Of UNIT-13."""
    bench = Bench(3)
    for number, partition in enumerate((2, 0, 0, 1, 2, 1, 0, 2)):
        bench.send(partition, str(number))
    assert bench.shown() == [str(number) for number in range(8)]


def test_a_higher_priority_goes_first_and_never_before_its_unit() -> None:
    """Of UNIT-13, UNIT-6: priority orders the first messages of units, whatever partitions they are in."""
    bench = Bench(2)
    bench.send(0, "a1", "a", 1)
    bench.send(0, "a2", "a", 9)
    bench.send(1, "b1", "b", 5)
    bench.send(1, "free", None, 9)
    bench.send(0, "c1", "c", 5)
    bench.send(1, "b2", "b", 0)
    assert bench.shown() == ["free", "b1", "c1", "a1", "a2", "b2"]
    assert bench.shown(include_all=False) == ["free", "b1", "c1", "a1"]


def test_priority_orders_as_far_as_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse_order, "READ_AHEAD", 3)
    bench = Bench(1)
    for number in range(6):
        bench.send(0, str(number), None, 9 if number in (2, 4) else 4)
    assert bench.shown() == ["2", "0", "4", "1", "3", "5"]


def test_one_partition_keeps_the_order_of_its_log_whatever_its_times_say() -> None:
    """A producer's clock may go back."""
    bench = Bench(2)
    bench.send(0, "first", "a")
    bench.clock.jump(-10_000)
    bench.send(0, "second", "a")
    bench.send(1, "elsewhere")
    assert bench.shown() == ["elsewhere", "first", "second"]


@pytest.mark.parametrize(("size", "most"), [(1, 12_000), (200_000, 400)])
def test_the_first_messages_of_a_long_queue_need_little_of_it(size: int, most: int) -> None:
    """Of UNIT-13: it is not read into memory; the larger the messages are, the fewer of them at a time."""
    bench = Bench(4)
    for partition in range(4):
        bench.send_many(partition, 20_000 if size == 1 else 400, size)
    found = browse(bench.kafka, GROUP, now_ms=bench.clock.now_ms(), hands=None, include_all=True)
    next(found)
    assert 0 < sum(bench.kafka.reads) <= most
    if size == 1:
        rest = sum(1 for _ in found)
        assert rest == 79_999
        assert len(bench.kafka.reads) < 60
        assert max(bench.kafka.reads) <= browse_order.RECORDS_MAX
