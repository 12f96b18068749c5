"""The in-memory Kafka of a simulated process: what waits in a call lets simulated time go by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jbm_kafka.memory.memory_admin import MemoryLogReader
from jbm_kafka.memory.memory_groups import Member
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.memory.memory_process import Process
from jbm_kafka.memory.memory_tail_reader import MemoryTailReader
from jbm_kafka.ports import KafkaRecord, Unreachable
from tests.support.manual_clock import ManualClock

LOOK_MS = 5
LOOK_S = 0.05


class SteppedKafka(MemoryKafka):
    """Implements `ports.Kafka`."""

    def __init__(self, cluster: MemoryCluster, clock: ManualClock) -> None:
        super().__init__(cluster)
        self._clock = clock
        self.is_in_call: Callable[[], bool] = lambda: False
        """An application waits, and no step of the product's."""
        self.pause: Callable[[float], None] = lambda seconds: None
        """Others act meanwhile."""

    @property
    def members(self) -> Sequence[Member]:
        """Of groups, all that this process has been since it lost none of them."""
        return self._process.members

    def log_reader(self) -> MemoryLogReader:
        self._process.check()
        return _PatientReader(self._process, self.pause) if self.is_in_call() else super().log_reader()

    def tail_reader(self) -> MemoryTailReader:
        self._process.check()
        return _WaitingReader(self._process, self._clock)


class _PatientReader(MemoryLogReader):
    """For an application, which waits while others go on."""

    def __init__(self, process: Process, pause: Callable[[float], None]) -> None:
        super().__init__(process)
        self._pause = pause

    def read(
        self, topic: str, ranges: Mapping[int, tuple[int, int]], *, timeout_s: float, committed_only: bool = True
    ) -> Sequence[KafkaRecord]:
        left_s = timeout_s
        while True:
            try:
                return super().read(topic, ranges, timeout_s=0.0, committed_only=committed_only)
            except Unreachable:
                if left_s <= 0:
                    raise
            self._pause(LOOK_S)
            left_s -= LOOK_S


class _WaitingReader(MemoryTailReader):
    def __init__(self, process: Process, clock: ManualClock) -> None:
        super().__init__(process)
        self._stepped = clock

    def poll(self, count_max: int, timeout_s: float) -> Sequence[KafkaRecord]:
        left_ms = int(timeout_s * 1_000)
        while True:
            before = self.positions()
            records = super().poll(count_max, 0.0)
            if records or left_ms <= 0 or before != self.positions():
                return records
            self._stepped.advance(LOOK_MS)  # so the marks of what was committed are written some time
            left_ms -= LOOK_MS
