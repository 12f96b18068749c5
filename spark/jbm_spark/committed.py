"""Committed records of a Kafka topic, ours or a destination's, as Spark's Kafka source has them."""

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame, SparkSession

from jbm_spark.messages import source_options
from jbm_spark.options import Position, ending_options, starting_options

RECORD = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of such records."""


def committed_records(
    spark: SparkSession,
    topic: str,
    *,
    bootstrap: str,
    starting: Position = "earliest",
    ending: Position = "latest",
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Those between the two positions of a topic that is there. Nothing is read before an action.

    Raises:
        OptionRefusedError: an option or a position that would break order or safety.
    """
    chosen = {
        **source_options(spark, topic, bootstrap, kafka, options),
        **starting_options(topic, starting),
        **ending_options(topic, ending),
    }
    return spark.read.format("kafka").options(**chosen).load()


def no_records(spark: SparkSession) -> DataFrame:
    """What a topic holds that nobody has made yet."""
    return spark.createDataFrame([], RECORD)


def union(frames: Collection[DataFrame]) -> DataFrame:
    """All rows of some frames that have the same columns."""
    [first, *others] = frames
    for each in others:
        first = first.unionByName(each)
    return first
