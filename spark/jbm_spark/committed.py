"""Committed records of a Kafka topic, ours or a destination's, as Spark's Kafka source has them."""

import json
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from jbm_spark.known_values import known_rows
from jbm_spark.messages import source_options
from jbm_spark.options import Position, ending_options, starting_options
from jbm_spark.session_setting import session_setting

RECORD = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of such records."""
_OF_FIRST_INTERFACE = "spark.sql.sources.useV1SourceList"
"""Sources that Spark reads in batches by its first interface, Kafka's among them: there each row is made twice. By the
second one, which streams have, it is made once."""


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
    """Return those between the two positions of a topic that is there. Nothing is read before an action.

    Raises:
        OptionRefusedError: an option or a position that would break order or safety.
    """
    chosen = {
        **source_options(spark, topic, bootstrap, kafka, options),
        **starting_options(topic, starting),
        **ending_options(topic, ending),
    }
    return spark.read.format("kafka").options(**chosen).load()


def records_of_topics(
    spark: SparkSession,
    ends: Mapping[str, Mapping[int, int]],
    begins: Mapping[str, Mapping[int, int]] | None = None,
    *,
    bootstrap: str,
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return those of many topics in one read, up to these positions by topic and partition, and from those; None: from
    where each log begins. Partitions in which nothing lies between are left out.

    Raises:
        OptionRefusedError: an option that would break order or safety.
    """
    first = {} if begins is None else begins
    wanted = {
        topic: {part: end for part, end in sorted(parts.items()) if end > first.get(topic, {}).get(part, 0)}
        for topic, parts in sorted(ends.items())
    }
    wanted = {topic: parts for topic, parts in wanted.items() if parts}
    if not wanted:
        return no_records(spark)
    chosen = source_options(spark, "", bootstrap, kafka, options)
    del chosen["subscribe"]
    chosen["assign"] = json.dumps({topic: [*parts] for topic, parts in wanted.items()})
    chosen["endingOffsets"] = json.dumps(wanted)
    chosen["startingOffsets"] = "earliest"
    if begins is not None:
        froms = {topic: {part: begins[topic][part] for part in parts} for topic, parts in wanted.items()}
        chosen["startingOffsets"] = json.dumps(froms)
    older = [each for each in str(spark.conf.get(_OF_FIRST_INTERFACE)).split(",") if each.strip() != "kafka"]
    with session_setting(spark, _OF_FIRST_INTERFACE, ",".join(older)):
        return spark.read.format("kafka").options(**chosen).load()


def no_records(spark: SparkSession) -> DataFrame:
    """Return what a topic holds that nobody has made yet."""
    return known_rows(spark, [], RECORD)
