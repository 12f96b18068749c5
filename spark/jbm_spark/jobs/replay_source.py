"""Where a replay takes its messages from: an archive, or the log of a queue or topic as it is at one moment."""

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.kafka import ConfluentKafka
from jbm_spark.archiving.archive_folder import MESSAGES, ArchiveIdentity, archive_path, read_identity
from jbm_spark.archiving.archive_reading import archived_messages
from jbm_spark.archiving.archive_rows import message_rows
from jbm_spark.archiving.archive_tables import archived_table
from jbm_spark.archiving.next_span import topic_state
from jbm_spark.errors import ArchiveError
from jbm_spark.log_positions import OF_A_QUEUE_S, whole_ends
from jbm_spark.messages import messages
from jbm_spark.topic_check import TIMEOUT_S, one_line_errors


@dataclass(frozen=True, slots=True)
class ReplaySource:
    """The rows to choose from, with `topic_id` beside the columns of `messages`."""

    name: str
    identity: str
    """The same for the same source, wherever its folder is."""
    destination: str
    """Whose messages they are, without its kind."""
    rows: DataFrame
    topic_ids: tuple[str, ...]
    """The ids of the topics of that name, the oldest first."""


def replay_source(
    spark: SparkSession,
    source: str | os.PathLike[str] | Destination,
    *,
    bootstrap: str,
    namespace: str,
    kafka: Mapping[str, object] | None,
    queue: str | None = None,
) -> ReplaySource:
    """Return what is in there now: a folder is an archive. `queue`: of an archive of many, whose messages.

    Raises:
        ArchiveError, TopicError: there is no such archive, or no such queue or topic.
    """
    if not isinstance(source, Destination):
        path = archive_path(source)
        whose = read_identity(path)
        check_queue(source, whose, queue)
        spans = [span for manifest in archived_table(path, MESSAGES).manifests() for span in manifest.spans]
        topic_ids = tuple(dict.fromkeys(span.topic_id for span in spans if queue in (None, span.topic)))
        archived = archived_messages(spark, path, None if queue is None else [queue])
        rows = message_rows(archived, "topic_id")
        name = queue or whose.destination.partition(":")[2]
        identity = whose.archive_id if queue is None else f"{whose.archive_id}/{queue}"
        return ReplaySource(os.fspath(source), identity, name, rows, topic_ids)
    if queue is not None:
        raise ArchiveError(f"--queue {queue} is of an archive of many queues, and {source} is none: leave it out")
    rows, topic_id = log_of_now(spark, source, bootstrap=bootstrap, namespace=namespace, kafka=kafka)
    with_id = rows.withColumn("topic_id", F.lit(topic_id))
    return ReplaySource(str(source), str(source), source.name, with_id, (topic_id,))


def check_queue(folder: object, identity: ArchiveIdentity, queue: str | None) -> None:
    """Raises ArchiveError: whose messages of an archive of many queues is not said, or of another archive it is."""
    if identity.is_of_many and queue is None:
        raise ArchiveError(f"archive {folder} is that of {identity.destination}: say whose messages, with --queue NAME")
    if queue is not None and not (identity.is_of_many and identity.has(Queue(queue))):
        raise ArchiveError(f"archive {folder} is that of {identity.destination}, and has nothing of queue {queue}")


def log_of_now(
    spark: SparkSession, named: Destination, *, bootstrap: str, namespace: str, kafka: Mapping[str, object] | None,
    about: str = "replay", is_whole: bool = False,
) -> tuple[DataFrame, str]:  # fmt: skip
    """The messages that its log has at this moment, whenever they are read; and the topic's id.

    `is_whole`: also those behind transactions that are open now, for which this waits.

    Raises:
        SparkJobError: such a transaction goes on and on.
    """
    client = ConfluentKafka(bootstrap, kafka, namespace=namespace, admin_timeout_s=TIMEOUT_S)
    topic = named.kafka_topic(namespace)
    with one_line_errors(f"{about} {named}"), closing(client.admin()) as admin:
        now = topic_state(admin, topic)
        ends = whole_ends(admin, topic, [*now.end], patience_s=OF_A_QUEUE_S) if is_whole else now.end
    end = {partition: max(offset, now.begin[partition]) for partition, offset in ends.items()}
    frame = messages(spark, named, bootstrap=bootstrap, namespace=namespace, kafka=kafka,
                     starting=now.begin, ending=end, raw=True)  # fmt: skip
    return frame, now.topic_id
