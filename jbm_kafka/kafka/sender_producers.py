"""The producers that the connections of one process to one cluster share, some for each linger time.

A partition has one of them, in turn as partitions are first sent to, so that its order is one producer's. One is made
when it is first needed, and all end with the last connection that sends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from jbm_kafka.kafka.send_line import Refused, SendLine
from jbm_kafka.kafka.shared_producer import SharedProducer

PRODUCERS = 2
"""For each linger time. More cost threads and connections, and reports run one at a time in Python anyway."""


class _Set:
    def __init__(self) -> None:
        self.users = 0
        self.producers: list[SharedProducer] = []
        self.numbers: dict[tuple[str, int], int] = {}
        """By partition, the number of its producer."""


class SenderProducers:
    """Any thread."""

    def __init__(self, make: Callable[[int], SharedProducer]) -> None:
        """`make` gets a linger time in ms."""
        self._make = make
        self._lock = threading.RLock()
        self._sets: dict[int, _Set] = {}

    def join(self, linger_ms: int) -> None:
        """One connection more sends. The first producer is made, for a new one needs a while to get its id."""
        with self._lock:
            found = self._sets.setdefault(linger_ms, _Set())
            if not found.producers:
                found.producers.append(self._make(linger_ms))
            found.users += 1

    def line(
        self, linger_ms: int, topic: str, partition: int, refused: Refused, told: Callable[[], None]
    ) -> tuple[SendLine, SharedProducer]:
        """A line of a connection that has joined, to a partition, and the partition's producer."""
        with self._lock:
            found = self._sets[linger_ms]
            number = found.numbers.setdefault((topic, partition), len(found.numbers) % PRODUCERS)
            while number >= len(found.producers):
                found.producers.append(self._make(linger_ms))
            producer = found.producers[number]
        return producer.line(topic, partition, refused, told), producer

    def leave(self, linger_ms: int) -> list[SharedProducer]:
        """One connection less. Those that end with it, to be closed."""
        with self._lock:
            found = self._sets[linger_ms]
            found.users -= 1
            if found.users:
                return []
            del self._sets[linger_ms]
            for producer in found.producers:
                producer.begin_close()
            return found.producers
