"""The part that an archive has beside what Kafka still has, with the columns that an audit needs of it."""

from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.core.destination import Destination
from jbm_spark.archiving.archive_folder import MESSAGES, archive_path, read_identity
from jbm_spark.archiving.archive_reading import archived_messages, read_archived_events
from jbm_spark.archiving.archive_tables import archived_table
from jbm_spark.errors import ArchiveError
from jbm_spark.known_values import known_rows


def check_archive_of(folder: str, destination: Destination) -> None:
    """Raises ArchiveError: there is no such archive, or it is that of another queue, and proves nothing of this one."""
    identity = read_identity(archive_path(folder))
    if not identity.has(destination):
        raise ArchiveError(
            f"archive {folder} is that of {identity.destination}, and this audit is of {destination}: name its own "
            "archive"
        )


def archived_bounds(folder: str, topics: Sequence[str]) -> Iterator[tuple[str, str, int, int, int]]:
    """Topic, topic id, partition, first offset and one past the last, of what it has of these topics.

    Raises:
        ArchiveError: there is no such archive, or batches of it are missing.
    """
    path = archive_path(folder)
    alone = read_identity(path).destination.partition(":")[2]
    for span in (span for manifest in archived_table(path, MESSAGES).manifests() for span in manifest.spans):
        topic = span.topic or alone
        if topic in topics:
            for part, end in span.end.items():
                yield topic, span.topic_id, part, span.begin.get(part, 0), end


def messages_in_archive(spark: SparkSession, folder: str, topics: Sequence[str]) -> DataFrame:
    """Its messages of these topics.

    Raises:
        ArchiveError: there is no such archive, or batches of it are missing.
    """
    return (
        archived_messages(spark, folder, topics)
        .where(F.col("topic").isin(*topics))
        .select(
            "topic",
            "topic_id",
            "partition",
            "offset",
            "message_id",
            F.coalesce(F.col("key"), F.col("unit_of_order").cast("binary")).alias("key"),
            F.unix_millis(F.coalesce("kafka_timestamp", "timestamp")).alias("sent_at_ms"),
            F.coalesce(F.unix_millis("expiration"), F.lit(0)).alias("expiration_ms"),
            F.coalesce(F.unix_millis("delivery_time"), F.lit(0)).alias("delivery_ms"),
        )
    )


def beyond_archive(spark: SparkSession, rows: DataFrame, folder: str, topics: Sequence[str]) -> DataFrame:
    """Return the rows whose offsets it has not archived. Of all others its own rows count: what was erased there has
    no events any more, and may be in Kafka's log for long.

    Raises:
        ArchiveError: there is no such archive, or batches of it are missing.
    """
    spans = [(topic_id, part, begin, end) for _, topic_id, part, begin, end in archived_bounds(folder, topics)]
    had = F.broadcast(known_rows(spark, spans, "of_id string, part int, begin bigint, end bigint"))
    is_archived = (
        (rows["topic_id"] == had["of_id"]) & (rows["partition"] == had["part"])
        & (rows["offset"] >= had["begin"]) & (rows["offset"] < had["end"])
    )  # fmt: skip
    return rows.join(had, is_archived, "left_anti")


def events_in_archive(spark: SparkSession, folder: str, columns: list[str]) -> DataFrame:
    """Its events, with these columns of `events`; raises as `messages_in_archive`."""
    return read_archived_events(spark, folder).select(*[F.col(f"`{name}`") for name in columns])
