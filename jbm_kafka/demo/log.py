"""Reads whole topics as any Kafka client would, without jbm-kafka's own reading: the checker must not share its faults.

Only committed records are shown; the end is the high watermark, so an open transaction is waited for.
"""

import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import client_of
from jbm_kafka.demo.demo_error import DemoError

TIMEOUT_S = 40.0
"""A killed worker's open transaction ends after 10 s, and the broker looks every 10 s by default."""


def quiet_client(cluster: Cluster) -> dict[str, Any]:
    """Properties of a client of Kafka's own that keeps its connection trouble to itself."""
    return {**client_of(cluster), "log_level": 0}


class Follower:
    """Reads topics from their beginnings and goes on as they grow."""

    def __init__(self, cluster: Cluster, topics: Sequence[str]) -> None:
        self._cluster = cluster
        self._consumer = Consumer(
            {
                **quiet_client(cluster),
                "group.id": "jbm.bookstore-checker",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        self._read_to: dict[tuple[str, int], int] = {}
        known = self._consumer.list_topics(timeout=TIMEOUT_S).topics
        places = [TopicPartition(t, p, 0) for t in topics if t in known for p in known[t].partitions]
        self.partitions = [(place.topic, place.partition) for place in places]
        self._consumer.assign(places)

    def poll(self, timeout_s: float) -> list[Message]:
        """Return what has come meanwhile, in log order within each partition."""
        found = []
        for record in self._consumer.consume(1000, timeout_s):
            place, error = (record.topic() or "", record.partition() or 0), record.error()
            if error is None:
                found.append(record)
                self._read_to[place] = (record.offset() or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                # Past the last record stand markers of transactions; only this event tells that they were passed.
                self._read_to[place] = record.offset() or 0
            else:
                raise DemoError(f"reading {place[0]} failed: {error.str()}")
        return found

    def to_the_end(self, timeout_s: float = TIMEOUT_S) -> Iterator[Message]:
        """Everything up to where the partitions end now."""
        ends = end_positions(self._cluster, self.partitions)
        deadline = time.monotonic() + timeout_s
        while any(self._read_to.get(place, 0) < end for place, end in ends.items()):
            yield from self.poll(0.2)
            if time.monotonic() > deadline:
                raise DemoError(f"reading {', '.join({t for t, _ in ends})} did not reach the end in {timeout_s:g} s")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()


def read_all(cluster: Cluster, topic: str) -> list[Message]:
    """Every committed record of the topic, partition by partition in log order."""
    with Follower(cluster, [topic]) as follower:
        records = list(follower.to_the_end())
    return sorted(records, key=lambda record: (record.partition() or 0, record.offset() or 0))


def end_positions(cluster: Cluster, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """High watermarks."""
    admin = AdminClient(quiet_client(cluster))
    wanted: dict[TopicPartition, Any] = {TopicPartition(t, p): OffsetSpec.latest() for t, p in places}  # type: ignore[no-untyped-call]
    if not wanted:
        return {}
    futures = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=TIMEOUT_S)
    return {(place.topic, place.partition): future.result(TIMEOUT_S).offset for place, future in futures.items()}


def lag(cluster: Cluster, group: str, topic: str) -> int:
    """Return what Kafka's own tools show as the group's lag: messages that are not settled."""
    consumer = Consumer({**quiet_client(cluster), "group.id": group})
    try:
        partitions = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        committed = consumer.committed([TopicPartition(topic, p) for p in partitions], timeout=TIMEOUT_S)
    except KafkaException as error:
        raise DemoError(f"the lag of group {group} cannot be read: {error.args[0].str()}") from None
    finally:
        consumer.close()
    ends = end_positions(cluster, [(topic, p) for p in partitions])
    return sum(ends[topic, place.partition] - max(place.offset, 0) for place in committed)
