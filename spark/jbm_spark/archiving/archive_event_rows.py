"""The columns of archived events: those of `events`, flat, with the place of the record that had them."""

from jbm_spark.events import with_times
from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import functions as F  # noqa: N812
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

_OF_EVENTS = (
    ("group", "string"), ("topic", "string"), ("topic_id", "string"), ("partition", "int"), ("offset", "bigint"),
    ("last_offset", "bigint"), ("fate", "string"), ("at_ms", "bigint"), ("unit_of_order", "string"),
    ("attempts", "int"), ("target", "string"), ("reason", "string"), ("due_at_ms", "bigint"), ("delay_ms", "bigint"),
    ("max_delivery_attempts", "int"), ("on_dead_letter", "string"), ("attempt", "int"), ("session", "string"),
    ("acknowledge_mode", "string"), ("checkpoint_id", "string"), ("checkpoint_at_ms", "bigint"), ("index", "int"),
)  # fmt: skip
_OF_RECORD = (
    ("events_topic", "string"), ("events_topic_id", "string"), ("events_partition", "int"), ("events_offset", "bigint"),
    ("timestamp", "timestamp"),
)  # fmt: skip
EVENTS_SCHEMA = ", ".join(f"`{name}` {kind}" for name, kind in (*_OF_EVENTS, *_OF_RECORD))
"""The schema of the files under `events`; `timestamp` is that of the record, by which the days go."""
EVENT_KEY = ("events_topic_id", "events_partition", "events_offset", "index")


def archived_event_rows(events: DataFrame, is_ours: Column, events_topic_id: str, *more: Column) -> DataFrame:
    """The rows of `events` that are ours, and those that cannot be read, which may be about any; `more` are columns
    beside."""
    record = [F.col(f"kafka.{name}").alias(f"events_{name}") for name in ("topic", "partition", "offset")]
    return events.where(F.coalesce(is_ours, F.lit(True))).select(
        *[F.col(f"`{name}`") for name, _ in _OF_EVENTS],
        *record,
        F.lit(events_topic_id).alias("events_topic_id"),
        F.col("kafka.timestamp").alias("timestamp"),
        *more,
    )


def event_rows(rows: DataFrame) -> DataFrame:
    """The columns of `events` again; files have the times in ms alone, as ever."""
    record = [F.col(f"events_{name}").alias(name) for name in ("topic", "partition", "offset")]
    names = [F.col(f"`{name}`") for name, _ in _OF_EVENTS]
    return with_times(rows.select(*names, F.struct(*record, "timestamp").alias("kafka")))
