"""What an archive has beside what Kafka still has, with the columns that an audit needs of it."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.core.destination import parse_destination
from jbm_spark.archiving.archive_folder import archive_path, read_identity
from jbm_spark.archiving.archive_reading import archived_messages, read_archived_events
from jbm_spark.errors import ArchiveError


def check_archive_of(folder: str, topic: str, namespace: str) -> None:
    """Raises ArchiveError: there is no such archive, or it is that of another topic, and proves nothing of this one."""
    whose = read_identity(archive_path(folder)).destination
    if parse_destination(whose).kafka_topic(namespace) != topic:
        raise ArchiveError(f"archive {folder} is that of {whose}, and this audit is of {topic}: name its own archive")


def messages_in_archive(spark: SparkSession, folder: str, topic: str) -> DataFrame:
    """Its messages of a topic.

    Raises:
        ArchiveError: there is no such archive, or batches of it are missing.
    """
    return (
        archived_messages(spark, folder)
        .where(F.col("topic") == topic)
        .select(
            "topic_id",
            "partition",
            "offset",
            "message_id",
            "unit_of_order",
            F.coalesce(F.col("key"), F.col("unit_of_order").cast("binary")).alias("key"),
            F.coalesce("kafka_timestamp", "timestamp").alias("sent_at"),
            "expiration",
            "delivery_time",
        )
    )


def events_in_archive(spark: SparkSession, folder: str, columns: list[str]) -> DataFrame:
    """Its events, with these columns of `events`; raises as `messages_in_archive`."""
    return read_archived_events(spark, folder).select(*[F.col(f"`{name}`") for name in columns])
