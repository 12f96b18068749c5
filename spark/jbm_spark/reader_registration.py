"""Registers archives and streaming queries as readers, so that nothing is deleted that they have not read.

Who deletes from the log asks the registry first (docs/topics.md). A reader counts for seven days after it was heard of
last; a position that is older than the reader's own keeps more, and never less.
"""

import json
import logging
import math
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
    StreamingQueryProgress,
)
from pyspark.sql.streaming.query import StreamingQuery

from jbm_kafka.codec.reader_record import LOAD, REPLAY, RegisteredReader
from jbm_kafka.core.closed_at_end import ClosedAtEnd
from jbm_kafka.core.destination import with_namespace
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.clock import SystemClock
from jbm_kafka.registry.readers import SPARK_LEASE_MS, registered_readers, renew_reader, renew_readers
from jbm_kafka.registry.registry import Registry
from jbm_spark.topic_check import TIMEOUT_S

log = logging.getLogger(__name__)

RENEWED_AFTER_S = 60.0
"""A query of many small batches does not write to the registry after each of them."""


class ReaderRegistration(ClosedAtEnd):
    """Tells the registry of a cluster how far readers are. A context manager."""

    def __init__(self, *, bootstrap: str, namespace: str = "", kafka: Mapping[str, object] | None = None) -> None:
        client = ConfluentKafka(bootstrap, kafka, namespace=namespace, admin_timeout_s=TIMEOUT_S)
        self._admin = client.admin()
        self._registry = Registry(client, self._admin, with_namespace("jbm.registry", namespace))

    def renew(self, name: str, topic: str, positions: Mapping[int, int], *, topic_id: str | None = None) -> None:
        """Keep what is from these positions on; of a partition that is not named, all. For seven days.

        Raises:
            KafkaClientError: it cannot be recorded.
            KeyError: no id is given, and there is no such topic.
        """
        now_ms = SystemClock().now_ms()
        known_id = topic_id or self._admin.describe([topic])[topic].topic_id
        renew_reader(
            self._registry.log,
            RegisteredReader("spark", name, topic, known_id, dict(positions), now_ms, now_ms + SPARK_LEASE_MS),
        )

    def renew_all(self, readers: Mapping[str, tuple[str, str, Mapping[int, int]]]) -> None:
        """As `renew`, of many in one write: by name the topic, its id, and the positions.

        Raises:
            KafkaClientError: it cannot be recorded.
        """
        now_ms = SystemClock().now_ms()
        found = [
            RegisteredReader("spark", name, topic, topic_id, dict(positions), now_ms, now_ms + SPARK_LEASE_MS)
            for name, (topic, topic_id, positions) in readers.items()
        ]
        if found:
            renew_readers(self._registry.log, found, [])

    def renew_first(self, name: str, topic: str, positions: Mapping[int, int] | None = None) -> Mapping[int, int]:
        """Keep all of the topic, or what is from these positions on, for a reader that was not heard of, and for others
        what was kept, seven days more; the positions from which on it is kept.

        Raises:
            KafkaClientError: as `renew`.
        """
        known = {each.name: each for each in registered_readers(self._registry.log) if each.kind == "spark"}
        topic_id = self._admin.describe([topic])[topic].topic_id
        before = known.get(name)
        is_same = before is not None and before.topic_id == topic_id
        kept = before.positions if before is not None and is_same else positions or {}
        self.renew(name, topic, kept, topic_id=topic_id)
        return kept

    def by_topic_id(self, topics: Sequence[str]) -> Mapping[str, str]:
        """Return those that are there, by their ids. Raises KafkaClientError."""
        return {found.topic_id: topic for topic, found in self._admin.describe(topics).items()}

    def close(self) -> None:
        """Let the cluster go; what is registered stays until its lease ends."""
        self._registry.close()
        self._admin.close()


def register_query(
    spark: SparkSession,
    query: StreamingQuery,
    topics: Iterable[str],
    *,
    bootstrap: str,
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    renewed_after_s: float = RENEWED_AFTER_S,
) -> StreamingQueryListener:
    """Register a query that was just started as a reader of these Kafka topics: all that they have is kept for it, and
    from its first batch on what is behind its committed offsets.

    Its name in the registry is the query's own, or its id, with the topic; one that is named as jobs are that load or
    replay is told from those. The listener that is returned follows it,
    and writes to the registry once in `renewed_after_s` seconds at most.

    Raises:
        KafkaClientError: it cannot be recorded.
    """
    registration = ReaderRegistration(bootstrap=bootstrap, namespace=namespace, kafka=kafka)
    try:
        kept = {topic: registration.renew_first(f"{_name_of(query)}/{topic}", topic) for topic in topics}
        by_id = registration.by_topic_id([*kept])
    except BaseException:
        registration.close()
        raise
    listener = _QueryReader(spark, query, registration, renewed_after_s, kept, by_id)
    spark.streams.addListener(listener)
    if not query.isActive:  # its last event may have come before there was a listener
        listener.end(query.lastProgress)
    return listener


class _QueryReader(StreamingQueryListener):
    """Follows one run of a query: an event of the run before may come when the next one has begun."""

    def __init__(
        self, spark: SparkSession, query: StreamingQuery, registration: ReaderRegistration, renewed_after_s: float,
        kept: Mapping[str, Mapping[int, int]], by_id: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._streams = spark.streams
        self._run = str(query.runId)
        self._name = _name_of(query)
        self._registration = registration
        self._renewed_after_s = renewed_after_s
        self._renewed_s = -renewed_after_s
        self._latest = {**kept}
        """The positions behind the latest batch, by topic; before the first one those that are registered."""
        self._by_id = by_id
        self._lock = threading.Lock()
        self._has_ended = False

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  (Spark's name)
        """Nothing is known of its offsets yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch is committed."""
        if str(event.progress.runId) == self._run:
            with self._lock:
                self._note(event.progress)
                self._renew()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """It waits for messages; its lease must not end meanwhile."""
        if str(event.runId) == self._run:
            with self._lock:
                self._renew()

    def _note(self, progress: StreamingQueryProgress) -> None:
        for source in progress.sources:
            self._latest.update(topic_positions(source.endOffset, self._by_id))

    def _renew(self) -> None:
        if self._has_ended or time.monotonic() < self._renewed_s + self._renewed_after_s:
            return
        try:
            for topic, positions in self._latest.items():
                self._registration.renew(f"{self._name}/{topic}", topic, positions)
        except (KafkaClientError, KeyError) as error:
            log.warning("query %s is not registered as a reader after this batch: %s", self._name, error)
        else:
            self._renewed_s = time.monotonic()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Keep what it has not read until the lease ends, for the query may be started again."""
        if str(event.runId) == self._run:
            self.end(None)

    def end(self, latest: StreamingQueryProgress | None) -> None:
        """Tell the registry its last position, and let go. `latest`: what Spark knows of it, where no event told."""
        with self._lock:
            if self._has_ended:
                return
            if latest is not None:
                self._note(latest)
            self._renewed_s = -math.inf
            self._renew()
            self._has_ended = True
            self._registration.close()
        # Spark's thread would wait for itself.
        threading.Thread(target=self._remove, name="jbm-reader", daemon=True).start()

    def _remove(self) -> None:
        with suppress(PySparkException, Py4JError, OSError):  # the session has ended
            self._streams.removeListener(self)


def _name_of(query: StreamingQuery) -> str:
    name = query.name or str(query.id)
    return f"query-{name}" if name.startswith((LOAD, REPLAY)) else name


def topic_positions(offsets: str | None, by_id: Mapping[str, str]) -> Mapping[str, Mapping[int, int]]:
    """Return by topic and partition the positions that Spark's Kafka source, or ours, tells of itself; nothing for any
    other source. Ours tells the topic's id."""
    try:
        found = json.loads(offsets or "null")
        if isinstance(found.get("topic_id"), str):
            found = {by_id[found["topic_id"]]: found["offsets"]}
        return {
            str(topic): {int(partition): int(position) for partition, position in positions.items()}
            for topic, positions in found.items()
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
