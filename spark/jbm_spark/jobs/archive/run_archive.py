"""Keeps the messages of a queue or topic, or of many queues, and what became of them, in files.

Each run adds what has come since the last one. Killed at any moment, it goes on where it was, and readers of the folder
see each message once at every moment. Nothing is acknowledged.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.core.destination import Destination, Queue, with_namespace
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.core.settings.address_pattern import checked_pattern
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.registry.own_topics import events_topic
from jbm_kafka.registry.topic_configs import SYSTEM_PARTITIONS
from jbm_spark.call_sites import without_call_sites
from jbm_spark.jobs.archive.archive_result import Archived, ArchivedQueues
from jbm_spark.topic_check import TIMEOUT_S, check_topics, one_line_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from jbm_kafka.ports import KafkaAdmin
    from jbm_spark.archiving.archive_folder import ArchiveIdentity, ArchivePath
    from jbm_spark.archiving.archiver import Batch, TopicArchiver
    from jbm_spark.archiving.manifest import Span
    from jbm_spark.archiving.next_span import TopicState
    from jbm_spark.reader_registration import ReaderRegistration

log = logging.getLogger(__name__)


@without_call_sites()
def run(
    spark: "SparkSession",
    destination: str | Destination,
    folder: str | os.PathLike[str],
    *,
    bootstrap: str,
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    every_s: float | None = None,
    file_format: str | None = None,
    stop: threading.Event | None = None,
    accept_loss: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Archived:
    """Archive what the topic has now and what the archive has not; with `every_s` again and again, until `stop` is set.

    `file_format` is `parquet`, `delta` or `iceberg`; None: what the archive has, and a new one is of Parquet
    files, which need a folder on a disk. `tell` is called with a line for each batch. `accept_loss` is of messages;
    lost events are a warning.

    Raises:
        ArchiveError: there is no such format; the folder cannot be written, is another archive's, or has lost batches;
            or messages are gone that were not archived, and `accept_loss` is not given. What was published stays.
        InvalidDestinationError: there is no such queue or topic.
        SparkJobError: Spark failed, or the brokers do not answer.
    """
    from pyspark.sql import functions as F  # noqa: N812

    from jbm_spark.archiving.next_span import topic_state

    source = destination if isinstance(destination, Destination) else Queue(destination)
    topic = source.kafka_topic(namespace)
    check_topics([source], about=f"archive {source}", bootstrap=bootstrap, namespace=namespace, kafka=kafka)
    # Its events are in the partition of the group; of a topic, in those of all its subscriptions.
    only = (
        {partition_for(source.group_id(namespace).encode(), SYSTEM_PARTITIONS)} if isinstance(source, Queue) else None
    )
    client = ConfluentKafka(bootstrap, kafka, namespace=namespace, admin_timeout_s=TIMEOUT_S)
    ended = stop or threading.Event()
    with one_line_errors(f"archive {source}"), closing(client.admin()) as admin:
        archive = _Archive(spark, bootstrap=bootstrap, namespace=namespace, kafka=kafka, accept_loss=accept_loss,
                           tell=tell, name=str(source), path=_path(spark, folder))  # fmt: skip
        with archive.open_by(admin, file_format, only=only, is_ours=lambda: F.col("topic") == topic) as archivers:
            messages = archivers[0]
            rows = 0
            while True:
                until = topic_state(admin, topic)
                archive.register({topic: until})
                while not ended.is_set() and (batch := messages.archive_next(until)) is not None:
                    rows += archive.published(batch)
                    if tell is not None:
                        tell(f"{source}: {batch.manifest.rows} messages archived")
                archive.finish_round(ended)
                if every_s is None or ended.wait(every_s):
                    break
            in_all = sum(manifest.rows for manifest in messages.folder.manifests())
    return Archived(str(source), os.fspath(folder), archive.batches, rows, in_all, archive.fates, archive.compactions)


@without_call_sites()
def run_queues(
    spark: "SparkSession",
    pattern: str,
    folder: str | os.PathLike[str],
    *,
    bootstrap: str,
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    every_s: float | None = None,
    file_format: str | None = None,
    stop: threading.Event | None = None,
    accept_loss: bool = False,
    tell: Callable[[str], None] | None = None,
) -> ArchivedQueues:
    """As `run`, for all queues whose names are as the pattern, such as `orders.*`, or `#` for all: in one read, to one
    archive, with `destination` and `day` as partitions. With `every_s` those that come later, too.

    A queue that cannot be archived is in `failures` with the reason, and the others are archived.

    Raises:
        ArchiveError: the folder cannot be written, is another archive's, or has lost batches.
        InvalidSettingError: it is no pattern.
        SparkJobError: no queue has such a name; Spark failed, or the brokers do not answer.
    """
    from pyspark.sql import functions as F  # noqa: N812

    from jbm_spark.archiving.archive_folder import MANY
    from jbm_spark.queue_pattern import pattern_regex, queues_named

    pattern = checked_pattern(pattern)
    groups = with_namespace("jbm.queue.", namespace)

    def is_ours() -> "Column":
        # Of queues that were not listed yet, too: another run does not read these events again.
        is_named = F.concat(F.lit("."), "topic").rlike(pattern_regex(pattern))
        return F.col("group").startswith(groups) & is_named

    ended = stop or threading.Event()
    core = AdminCore(bootstrap, kafka, namespace, TIMEOUT_S)
    with closing(core), core.asking(f"archive {pattern}"):
        archive = _Archive(spark, bootstrap=bootstrap, namespace=namespace, kafka=kafka, accept_loss=accept_loss,
                           tell=tell, name=f"{MANY}:{pattern}", path=_path(spark, folder))  # fmt: skip
        with archive.open_by(core.admin, file_format, is_ours=is_ours) as archivers:
            messages = archivers[0]
            while True:
                names = [queue.kafka_topic(namespace) for queue in queues_named(core.catalog, pattern)]
                until, failures = _states(core.admin, names)
                archive.register(until)
                failures |= archive.archive_each(messages, until, ended)
                archive.finish_round(ended)
                if every_s is None or ended.wait(every_s):
                    break
            in_all = sum(manifest.rows for manifest in messages.folder.manifests())
    return ArchivedQueues(
        pattern=pattern, failures=failures, folder=os.fspath(folder), batches=archive.batches,
        queues={name: archive.rows.get(name, 0) for name in names}, messages_in_all=in_all, events=archive.fates,
        compactions=archive.compactions,
    )  # fmt: skip


def _states(admin: "KafkaAdmin", names: "Sequence[str]") -> "tuple[dict[str, TopicState], dict[str, str]]":
    """Return the state of each topic now, and for those of which the brokers tell nothing the reason."""
    from jbm_spark.archiving.next_span import topic_gone, topic_states
    from jbm_spark.fault_by_halves import FAULTS_MAX
    from jbm_spark.log_positions import OF_ONE_TOPIC

    failures: dict[str, str] = {}
    try:
        until = dict(topic_states(admin, names))
    except OF_ONE_TOPIC:
        until = {}
        for name in names:
            try:
                until |= topic_states(admin, [name])
            except OF_ONE_TOPIC as error:
                failures[name] = str(error)
                if len(failures) > FAULTS_MAX:
                    raise
    return until, {name: failures.get(name, str(topic_gone(name))) for name in names if name not in until}


def _path(spark: "SparkSession", folder: str | os.PathLike[str]) -> "ArchivePath":
    from jbm_spark.archiving.archive_folder import archive_path
    from jbm_spark.call_checks import check_session

    check_session(spark)
    return archive_path(folder)


@dataclass(kw_only=True)
class _Archive:
    """One run of the job, over one queue or many."""

    spark: "SparkSession" = field(kw_only=False)
    bootstrap: str
    namespace: str
    kafka: Mapping[str, object] | None
    accept_loss: bool
    tell: Callable[[str], None] | None
    name: str
    """Whose it is: a destination as text, or a pattern."""
    path: "ArchivePath"
    batches: int = 0
    fates: int = 0
    compactions: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    """The rows of this run by topic."""
    _archivers: "tuple[TopicArchiver, TopicArchiver] | None" = None
    _identity: "ArchiveIdentity | None" = None
    _registration: "ReaderRegistration | None" = None

    @contextmanager
    def open_by(
        self, admin: "KafkaAdmin", file_format: str | None, *, is_ours: "Callable[[], Column]",
        only: set[int] | None = None,
    ) -> "Iterator[tuple[TopicArchiver, TopicArchiver]]":  # fmt: skip
        """The archivers of the messages and of the events, while no other job writes to the archive."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StructType

        from jbm_spark.archiving.archive_event_rows import EVENT_KEY, EVENTS_SCHEMA, archived_event_rows
        from jbm_spark.archiving.archive_files import RowShape
        from jbm_spark.archiving.archive_folder import DESTINATION, EVENTS, MESSAGES, locked_archive
        from jbm_spark.archiving.archive_rows import MESSAGE_KEY, MESSAGES_SCHEMA, archived_rows
        from jbm_spark.archiving.archive_tables import archive_table
        from jbm_spark.archiving.archiver import TopicArchiver
        from jbm_spark.columns import message_columns
        from jbm_spark.events import event_columns
        from jbm_spark.reader_registration import ReaderRegistration

        def records(spans: "Sequence[Span]") -> "DataFrame":
            from jbm_spark.committed import records_of_topics

            ends = {span.topic or "": span.end for span in spans}
            begins = {span.topic or "": span.begin for span in spans}
            return records_of_topics(self.spark, ends, begins, bootstrap=self.bootstrap, kafka=self.kafka)

        def rows_of(spans: "Sequence[Span]") -> "DataFrame":
            ids = {span.topic or "": span.topic_id for span in spans}
            more = [F.concat(F.lit("queue:"), "kafka.topic").alias(DESTINATION)] if by else []
            return archived_rows(message_columns(records(spans)), ids, *more)

        def events_of(spans: "Sequence[Span]") -> "DataFrame":
            more = [F.concat(F.lit("queue:"), "topic").alias(DESTINATION)] if by else []
            return archived_event_rows(event_columns(records(spans)), is_ours(), spans[0].topic_id, *more)

        with (
            locked_archive(
                self.path, destination=self.name, cluster_id=admin.cluster_id(), file_format=file_format
            ) as whose,
            ReaderRegistration(
                bootstrap=self.bootstrap, namespace=self.namespace, kafka=self.kafka
            ) as self._registration,
        ):
            by = (DESTINATION,) if whose.is_of_many else ()
            self._identity = whose
            tables = [archive_table(self.path, name, whose, StructType.fromDDL(schema).json())
                      for name, schema in ((MESSAGES, MESSAGES_SCHEMA), (EVENTS, EVENTS_SCHEMA))]  # fmt: skip
            self._archivers = (
                TopicArchiver(self.spark, admin, tables[0], RowShape(MESSAGES_SCHEMA, MESSAGE_KEY, by), rows_of,
                              accept_loss=self.accept_loss),
                TopicArchiver(self.spark, admin, tables[1], RowShape(EVENTS_SCHEMA, EVENT_KEY, by), events_of,
                              accept_loss=True, only=only),
            )  # fmt: skip
            yield self._archivers

    def register(self, until: "Mapping[str, TopicState]") -> None:
        """Tell the registry what this archive has not read of these topics."""
        from jbm_spark.archiving.table_folder import positions

        assert self._archivers is not None
        known = positions(self._archivers[0].folder)
        self._renew({
            topic: (state.topic_id, known[state.topic_id].end if state.topic_id in known else {})
            for topic, state in until.items()
        })  # fmt: skip

    def _renew(self, readers: Mapping[str, tuple[str, Mapping[int, int]]]) -> None:
        """Tell the registry how far the archive has read each topic: what is behind that is kept for it."""
        assert self._registration is not None
        assert self._identity is not None
        name = f"archive-{self._identity.archive_id[:12]}"
        named = {f"{name}/{topic}" if self._identity.is_of_many else name: topic for topic in readers}
        self._registration.renew_all({each: (topic, *readers[topic]) for each, topic in named.items()})

    def published(self, batch: "Batch") -> int:
        """Count a batch of messages, and tell the registry; how many they are."""
        self.batches += 1
        spans = {span.topic or "": span for span in batch.manifest.spans}
        for topic, span in spans.items():
            self.rows[topic] = self.rows.get(topic, 0) + batch.rows[span.topic_id]
        self._renew({topic: (span.topic_id, span.end) for topic, span in spans.items()})
        return batch.manifest.rows

    def archive_each(
        self, messages: "TopicArchiver", until: "Mapping[str, TopicState]", stop: threading.Event
    ) -> Mapping[str, str]:
        """All that these topics had at those moments; of those that cannot be archived why."""
        from jbm_spark.fault_by_halves import AtFault, by_halves

        failures: dict[str, str] = {}
        while not stop.is_set():
            waiting = {topic: state for topic, state in until.items() if topic not in failures}
            spans, refused = messages.next_spans(waiting)
            failures |= {topic: str(error) for topic, error in refused.items()}
            if not spans:
                break
            for done in by_halves(spans, messages.archive):
                if isinstance(done, AtFault):
                    failures[done.item.topic or ""] = done.why
                    continue
                rows = self.published(done)
                if self.tell is not None:
                    self.tell(f"{self.name}: {rows} messages of {len(done.rows)} queues archived")
        return failures

    def finish_round(self, stop: threading.Event) -> None:
        """Archive the events up to now, then compact both tables.

        A warning tells of events that were deleted before they were archived. When `stop` is set it goes on to compact.
        """
        from jbm_spark.archiving.next_span import lost_ranges, topic_states

        assert self._archivers is not None
        of_messages, of_events = self._archivers
        topic = events_topic(self.namespace)
        # Events second: of each archived message there is then what had become of it by now.
        until = topic_states(of_events.admin, [topic]).get(topic)
        while until is not None and not stop.is_set() and (batch := of_events.archive_next(until)) is not None:
            self.batches, self.fates = self.batches + 1, self.fates + batch.manifest.rows
            span = batch.manifest.spans[-1]
            if span.lost:
                text = (f"{self.name}: what became of messages is missing, for {lost_ranges(span.lost, span.begin)} of "
                        f"{topic} were deleted before they were archived: run it more often than Kafka deletes them "
                        "(7 days)")  # fmt: skip
                log.warning("%s", text) if self.tell is None else self.tell(f"warning: {text}")
        self.compactions += of_messages.compact() + of_events.compact()
