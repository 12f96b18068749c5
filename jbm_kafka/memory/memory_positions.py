"""Where a member of the in-memory Kafka reads each of its partitions, and what it finds there.

Used under the cluster's lock or by the thread of the member, as `MemoryGroupConsumer` does.
"""

from collections.abc import Collection, Mapping, Sequence

from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.memory.memory_log import PartitionLog
from jbm_kafka.ports import KafkaRecord, PartitionGone, PositionOutOfRange


class MemoryPositions:
    """The positions of one member, in one topic."""

    def __init__(self, cluster: MemoryCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._next: dict[int, int] = {}
        """Partitions that have been started, with the next position to read."""
        self._paused: set[int] = set()
        self._stopped: set[int] = set()
        """These have raised an error, and wait for a seek."""
        self.ends: dict[int, int] = {}
        """Where a partition had nothing more, when it was last found so."""
        self._turn = 0

    def start(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from there on."""
        self._next.update(positions)

    def seek(self, partition: int, position: int) -> None:
        """Go on there."""
        self._stopped.discard(partition)
        self.ends.pop(partition, None)
        self._next[partition] = position

    def pause(self, partitions: Collection[int]) -> None:
        """Read no further."""
        self._paused.update(partitions)

    def resume(self, partitions: Collection[int]) -> None:
        """Read on."""
        self._paused.difference_update(partitions)

    def forget(self, partitions: Sequence[int]) -> None:
        """They are the member's no longer."""
        self._paused.difference_update(partitions)
        self._stopped.difference_update(partitions)
        for partition in partitions:
            self._next.pop(partition, None)
            self.ends.pop(partition, None)

    def take(self, count_max: int) -> tuple[list[KafkaRecord], list[BaseException]]:
        """The next records, or why partitions stand still from now on. One of both is empty."""
        records: list[KafkaRecord] = []
        errors: list[BaseException] = []
        ready = sorted(p for p in self._next if p not in self._paused and p not in self._stopped)
        standing: list[int] = []
        self._turn += 1
        logs = self._cluster.topic(self._topic).logs if ready else []
        for index in range(len(ready)):
            # Another partition first each time, so that none waits for ever behind a busy one.
            partition = ready[(index + self._turn) % len(ready)]
            error = self._fault(partition, logs)
            if error is not None:
                standing.append(partition)
                errors.append(error)
                continue
            log = logs[partition]
            if self._next[partition] == log.end == self.ends.get(partition):
                continue  # nothing came since
            found, position = log.read(self._next[partition], count_max - len(records), committed_only=True)
            self._next[partition] = position
            records += found
            if position == log.stable_end:
                self.ends[partition] = position
        if records:
            return records, []  # they go first; the errors are found again by the next call
        self._stopped.update(standing)
        return records, errors

    def _fault(self, partition: int, logs: Sequence[PartitionLog]) -> PositionOutOfRange | PartitionGone | None:
        """Why it cannot be read where it should be."""
        if partition >= len(logs):
            text = f"{self._topic}[{partition}]: the topic was made anew with fewer partitions"
            return PartitionGone(text, partition=partition)
        log, position = logs[partition], self._next[partition]
        if not log.begin <= position <= log.end:
            text = f"{self._topic}[{partition}]: position {position} is outside the log [{log.begin}, {log.end}]"
            return PositionOutOfRange(text, partition=partition)
        return None
