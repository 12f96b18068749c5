"""Reading on as records come, for the in-memory Kafka."""

import time
from collections.abc import Mapping, Sequence

from jbm_kafka.memory.memory_process import Process
from jbm_kafka.ports import KafkaClientError, KafkaRecord, PositionOutOfRange
from jbm_kafka.ports.kafka import unreadable


class MemoryTailReader:
    """Implements `ports.TailReader`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._cluster = process.cluster
        self._topic = ""
        self._positions: dict[int, int] = {}
        self._stopped: set[int] = set()

    def assign(self, topic: str, positions: Mapping[int, int]) -> None:
        self._process.check()
        self._topic = topic
        self._positions = dict(positions)
        self._stopped.clear()

    def poll(self, count_max: int, timeout_s: float) -> Sequence[KafkaRecord]:
        deadline = time.monotonic() + timeout_s
        with self._cluster.changed:
            while True:
                self._process.check()
                self._cluster.tick()
                before = dict(self._positions)
                records = self._take(count_max)
                if records or before != self._positions or not self._cluster.wait(deadline - time.monotonic()):
                    return records

    def _take(self, count_max: int) -> list[KafkaRecord]:
        records: list[KafkaRecord] = []
        for partition in [partition for partition in self._positions if partition not in self._stopped]:
            error = self._fault(partition)
            if error is not None and not records:
                self._stopped.add(partition)
                raise error
            if error is None:
                records += self._read_on(partition, count_max - len(records))
        return records  # these go first; what is wrong is found again by the next call

    def _fault(self, partition: int) -> KafkaClientError | None:
        """Return what keeps the next record of a partition from being read."""
        log, position = self._cluster.log(self._topic, partition), self._positions[partition]
        if not log.begin <= position <= log.end:
            text = f"read {self._topic}[{partition}]: position {position} is outside the log"
            return PositionOutOfRange(text, partition=partition)
        found, _ = log.read(position, 1, committed_only=True)
        if found and self._is_damaged(partition, found[0].offset()):
            return unreadable(self._topic, partition, found[0].offset(), "Local: Bad message format (BAD_MSG)")
        return None

    def _read_on(self, partition: int, count_max: int) -> list[KafkaRecord]:
        log, position = self._cluster.log(self._topic, partition), self._positions[partition]
        found, after = log.read(position, count_max, committed_only=True)
        bad = next((record.offset() for record in found if self._is_damaged(partition, record.offset())), None)
        self._positions[partition] = after if bad is None else bad
        return [record for record in found if bad is None or record.offset() < bad]

    def _is_damaged(self, partition: int, offset: int) -> bool:
        damaged = self._cluster.faults.damaged
        return damaged is not None and damaged(self._topic, partition, offset)

    def positions(self) -> Mapping[int, int]:
        return dict(self._positions)

    def close(self) -> None:
        """Nothing to do."""
