"""What an archive has beside what Kafka still has, with the columns that an audit needs of it."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_spark.archiving.archive_reading import archived_messages, read_archived_events


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
