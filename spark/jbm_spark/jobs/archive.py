"""Keeps the messages of a queue or topic, and what became of them, as Parquet files or as Delta tables.

    jbm-spark archive orders --to /data/orders [--every 5m] [--format delta]

Each run adds what has come since the last one. Killed at any moment, it goes on where it was, and readers of the folder
see each message once at every moment. Nothing is acknowledged.
"""

import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import Named, as_named
from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.registry.own_topics import events_topic
from jbm_kafka.registry.topic_configs import SYSTEM_PARTITIONS
from jbm_spark.call_sites import without_call_sites
from jbm_spark.jobs.job import in_session, job_options
from jbm_spark.topic_check import TIMEOUT_S, check_topics, cluster_id, one_line_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from jbm_spark.archiving.archiver import TopicArchiver
    from jbm_spark.archiving.manifest import Manifest, Span
    from jbm_spark.archiving.next_span import TopicState

log = logging.getLogger(__name__)

_DURATION = re.compile(r"([1-9][0-9]{0,6})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class Archived:
    """What one run did, and what the archive has."""

    destination: str
    folder: str
    batches: int
    """Published by this run."""
    messages: int
    """Of those batches, read back from their files."""
    messages_in_all: int
    """In the archive, by its manifests."""
    events: int
    """Of this run: what became of messages, one row a fate."""
    compactions: int

    @property
    def has_violations(self) -> bool:
        """It looks for none."""
        return False

    def text(self) -> str:
        """For people."""
        noun = "message" if self.messages == 1 else "messages"
        return f"{self.messages} {noun} of {self.destination} archived; {self.messages_in_all} in {self.folder}"


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

    `file_format` is `parquet` or `delta`; None: the one that the archive has, and a new one is of Parquet files. `tell`
    is called with a line for each batch. `accept_loss` is of messages; lost events are a warning.

    Raises:
        ArchiveError: there is no such format; the folder cannot be written, is another archive's, or has lost batches;
            or messages are gone that were not archived, and `accept_loss` is not given. What was published stays.
        InvalidDestinationError: there is no such queue or topic.
        SparkJobError: Spark failed, or the brokers do not answer.
    """
    from pyspark.sql.types import StructType

    from jbm_spark.archiving.archive_event_rows import EVENT_KEY, EVENTS_SCHEMA, archived_event_rows
    from jbm_spark.archiving.archive_folder import EVENTS, MESSAGES, archive_path, locked_archive
    from jbm_spark.archiving.archive_rows import MESSAGES_SCHEMA, archived_rows
    from jbm_spark.archiving.archive_tables import archive_table
    from jbm_spark.archiving.archiver import TopicArchiver
    from jbm_spark.archiving.next_span import lost_ranges
    from jbm_spark.archiving.table_folder import position
    from jbm_spark.call_checks import check_session
    from jbm_spark.events import events
    from jbm_spark.messages import messages
    from jbm_spark.reader_registration import ReaderRegistration

    check_session(spark)
    source = destination if isinstance(destination, Destination) else Queue(destination)
    path = archive_path(folder)
    check_topics([source], about=f"archive {source}", bootstrap=bootstrap, namespace=namespace, kafka=kafka)

    def rows_of(span: "Span") -> "DataFrame":
        frame = messages(spark, source, bootstrap=bootstrap, namespace=namespace, kafka=kafka,
                         starting=span.begin, ending=span.end)  # fmt: skip
        return archived_rows(frame, span.topic_id)

    def events_of(span: "Span") -> "DataFrame":
        frame = events(spark, bootstrap=bootstrap, namespace=namespace, kafka=kafka,
                       starting=span.begin, ending=span.end)  # fmt: skip
        return archived_event_rows(frame, source.kafka_topic(namespace), span.topic_id)

    client = ConfluentKafka(bootstrap, kafka, namespace=namespace, admin_timeout_s=TIMEOUT_S)
    ended = stop or threading.Event()
    with (
        one_line_errors(f"archive {source}"),
        closing(client.admin()) as admin,
        locked_archive(path, destination=str(source), cluster_id=admin.cluster_id(), file_format=file_format) as whose,
        ReaderRegistration(bootstrap=bootstrap, namespace=namespace, kafka=kafka) as registration,
    ):
        tables = [archive_table(path, name, whose, StructType.fromDDL(schema).json())
                  for name, schema in ((MESSAGES, MESSAGES_SCHEMA), (EVENTS, EVENTS_SCHEMA))]  # fmt: skip
        archiver = TopicArchiver(spark, admin, source.kafka_topic(namespace), tables[0], MESSAGES_SCHEMA, rows_of,
                                 accept_loss=accept_loss)  # fmt: skip
        # They are in the partition of the group; of a topic, in those of all its subscriptions.
        only = (
            {partition_for(source.group_id(namespace).encode(), SYSTEM_PARTITIONS)}
            if isinstance(source, Queue)
            else None
        )
        of_events = TopicArchiver(spark, admin, events_topic(namespace), tables[1], EVENTS_SCHEMA, events_of, EVENT_KEY,
                                  accept_loss=True, only=only)  # fmt: skip
        name = f"archive-{whose.archive_id[:12]}"
        batches = rows = fates = compactions = 0
        while True:
            until, at = archiver.state(), position(archiver.folder)
            is_same = at is not None and at.topic_id == until.topic_id
            registration.renew(name, until.topic, at.end if at and is_same else {}, topic_id=until.topic_id)
            for manifest in _batches(archiver, until, ended):
                batches, rows = batches + 1, rows + manifest.rows
                registration.renew(name, until.topic, manifest.spans[-1].end, topic_id=until.topic_id)
                if tell is not None:
                    tell(f"{source}: {manifest.rows} messages archived")
            # Events second: of each archived message there is then what had become of it by now.
            if admin.describe([of_events.topic]):
                for manifest in _batches(of_events, of_events.state(), ended):
                    batches, fates = batches + 1, fates + manifest.rows
                    if lost := manifest.spans[-1].lost:
                        where = lost_ranges(lost, manifest.spans[-1].begin)
                        text = (f"{source}: what became of messages is missing, for {where} of {of_events.topic} were "
                                "deleted before they were archived: run it more often than Kafka deletes them "
                                "(7 days)")  # fmt: skip
                        log.warning("%s", text) if tell is None else tell(f"warning: {text}")
            compactions += archiver.compact() + of_events.compact()
            if every_s is None or ended.wait(every_s):
                break
        in_all = sum(manifest.rows for manifest in archiver.folder.manifests())
    return Archived(str(source), os.fspath(folder), batches, rows, in_all, fates, compactions)


def _batches(archiver: "TopicArchiver", until: "TopicState", stop: threading.Event) -> "Iterator[Manifest]":
    """Of each batch that is published, until everything is archived that was there at that moment."""
    while not stop.is_set():
        manifest = archiver.archive_next(until)
        if manifest is None:
            return
        yield manifest


def _as_seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    found = _DURATION.fullmatch(value)
    if found is None:
        raise click.BadParameter(f"{value!r}: write a time with its unit, as in 30s, 5m, 2h or 1d", context, parameter)
    return int(found[1]) * _SECONDS[found[2]]


@contextmanager
def _stopped_by_signal() -> Iterator[threading.Event]:
    """An event that SIGTERM sets: the batch in hand is published before the end."""
    stop = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)


@click.command(short_help="Keep messages, and what became of them, as Parquet files or Delta tables.")
@click.argument("destination", metavar="DEST", callback=as_named)
@click.option("--to", "folder", metavar="FOLDER", required=True, help="The archive; made if it is missing.")
@click.option("--every", "every_s", metavar="TIME", callback=_as_seconds, help="Again after 5m, 1h, ..., until ended.")
@click.option("--format", "file_format", metavar="FORMAT", help="parquet or delta. [what it has; else parquet]")
@click.option("--accept-loss", is_flag=True, help="Go on without messages that were deleted before they were archived.")
@job_options
def archive(
    destination: Named, folder: str, every_s: float | None, file_format: str | None, accept_loss: bool,
    cluster: Cluster, master: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Keep what a queue or topic has had since the last run in a folder. Nothing is acknowledged, nothing deleted."""
    source = Queue(destination) if isinstance(destination, str) else destination

    def check(cluster: Cluster) -> None:
        from jbm_spark.archiving.archive_folder import MESSAGES, archive_path, locked_archive
        from jbm_spark.archiving.archive_tables import archive_table

        path = archive_path(folder)
        check_topics([source], about=f"archive {source}", bootstrap=cluster.bootstrap, namespace=cluster.namespace,
                     kafka=cluster.kafka)  # fmt: skip
        at = cluster_id(cluster.bootstrap, cluster.kafka)
        with locked_archive(path, destination=str(source), cluster_id=at, file_format=file_format) as whose:
            archive_table(path, MESSAGES, whose)  # a folder that cannot be used is told before Spark has started

    def tell(line: str) -> None:
        print(f"jbm-spark: {line}", file=sys.stderr, flush=True)

    with _stopped_by_signal() as stop:
        in_session(
            "archive",
            lambda spark: run(
                spark, source, folder, bootstrap=cluster.bootstrap, namespace=cluster.namespace, kafka=cluster.kafka,
                every_s=every_s, file_format=file_format, stop=stop, accept_loss=accept_loss,
                tell=None if as_json else tell,
            ),
            cluster=cluster, master=master, as_json=as_json, check=check,
        )  # fmt: skip
