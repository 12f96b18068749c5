"""What an archive has beside what Kafka still has: Parquet files below `messages` and `events` of its folder."""

from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_spark.causes import cause_line
from jbm_spark.errors import SparkJobError


def archived_messages(spark: SparkSession, folder: str, topic: str) -> DataFrame:
    """Its messages of a topic, with the columns that an audit needs of them.

    Raises:
        SparkJobError: there is no such archive, or it cannot be read.
    """
    found = _read(spark, folder, "messages").where(F.col("topic") == topic)
    return found.select(
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


def archived_events(spark: SparkSession, folder: str, columns: list[str]) -> DataFrame | None:
    """Its events, with the columns of `events`; None where it has none.

    Raises:
        SparkJobError: they cannot be read.
    """
    if not (Path(folder) / "events").exists():
        return None
    found = _read(spark, folder, "events")
    record = F.struct(*(F.col(f"events_{name}").alias(name) for name in ("topic", "partition", "offset")), "timestamp")
    return found.withColumn("kafka", record).select(*columns)


def _read(spark: SparkSession, folder: str, kind: str) -> DataFrame:
    try:
        return spark.read.parquet(f"{folder.rstrip('/')}/{kind}")
    except PySparkException as error:
        raise SparkJobError(f"--archive {folder}: its {kind} cannot be read: {cause_line(error)}") from None
