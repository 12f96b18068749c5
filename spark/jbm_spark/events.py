"""The fates of messages, as a DataFrame: the events that every checkpoint leaves in `jbm.events` (docs/topics.md)."""

from collections.abc import Mapping

from jbm_spark.call_sites import without_call_sites
from jbm_spark.cluster_in_use import cluster_in_use
from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql import functions as F  # noqa: N812
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_kafka.codec.operator_actions import starts_of_operator_actions
from jbm_kafka.jms.factory import checked_namespace
from jbm_kafka.registry.own_topics import events_topic
from jbm_spark.call_checks import check_session
from jbm_spark.columns import time_of, unit_name
from jbm_spark.committed import committed_records, no_records
from jbm_spark.options import Position
from jbm_spark.single_object import decoded
from jbm_spark.topic_check import topic_ids

ACKNOWLEDGED, DELIVERED, UNREADABLE = "acknowledged", "delivered", "unreadable"
"""Fates that `core.entries.MessageFate` has not: a range of offsets; a hand-over; a record that cannot be decoded."""

_FATE = {
    "fate": "string",
    "offset": "bigint",
    "last_offset": "bigint",
    "at_ms": "bigint",
    "unit": "binary",
    "attempts": "int",
    "target": "string",
    "reason": "string",
    "due_at_ms": "bigint",
    "delay_ms": "bigint",
    "max_delivery_attempts": "int",
    "on_dead_letter": "string",
    "attempt": "int",
    "session": "string",
    "acknowledge_mode": "string",
}
_SKIPPED_TO = r"^offsets \d+ to (\d+),"
"""How the reason of what was skipped begins: it tells the last offset."""


@without_call_sites()
def events(
    spark: SparkSession,
    *,
    bootstrap: str | None = None,
    namespace: str = "",
    starting: Position = "earliest",
    ending: Position = "latest",
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return what receivers of all queues and subscriptions did to messages, one row a fate; columns:
    docs/spark-events.md.

    Kafka keeps the events for seven days. No rows where nobody has received yet. Nothing is read before an action.
    `starting`, `ending`, `kafka` and `options` as of `messages`, about the topic `jbm.events`.

    Raises:
        OptionRefusedError: an option or position that would break order or safety.
        SessionError: `spark` is no session, or one that was stopped.
        TopicError: the brokers do not answer.
        JMSSecurityError: they refuse us.
    """
    check_session(spark)
    bootstrap, namespace, kafka = cluster_in_use(bootstrap, namespace, kafka)
    topic = events_topic(checked_namespace(namespace))
    records = committed_records(spark, topic, bootstrap=bootstrap, starting=starting, ending=ending, kafka=kafka,
                                options=options)  # fmt: skip
    is_there = topic in topic_ids([topic], about="read the events", bootstrap=bootstrap, kafka=kafka, options=options)
    return event_columns(records if is_there else no_records(spark))


def with_times(fates: DataFrame) -> DataFrame:
    """With what they tell in ms as times, too: `at`, `due_at` (null: at once) and `checkpoint_at`."""
    return fates.withColumns({name: time_of(F.col(f"{name}_ms")) for name in ("at", "due_at", "checkpoint_at")})


def event_columns(records: DataFrame) -> DataFrame:
    """One row a fate, from the rows of Spark's Kafka source for `jbm.events`; of a batch or a stream."""
    # What operators did stands there too, and is no fate of a message.
    starts = [F.lit(start) for start in starts_of_operator_actions()]
    of_checkpoints = records.where(F.col("value").isNotNull() & ~F.substring("value", 1, 10).isin(*starts))
    read = of_checkpoints.withColumn("event", decoded(F.col("value"), "ChannelEvents"))
    told = F.when(F.col("event.group").isNull(), F.array(_unreadable())).otherwise(
        F.concat(_acknowledged(), _messages(), _deliveries())
    )
    each = read.select("*", F.posexplode(told).alias("index", "each"))
    fates = each.select(
        F.coalesce(F.col("event.group"), F.col("key").cast("string")).alias("group"),
        "event.topic",
        "event.topic_id",
        "event.partition",
        "each.offset",
        "each.last_offset",
        "each.fate",
        "each.at_ms",
        unit_name(F.col("each.unit")).alias("unit_of_order"),
        *(F.col(f"each.{name}") for name in _FATE if name not in ("fate", "offset", "last_offset", "at_ms", "unit")),
        "event.checkpoint_id",
        F.col("event.at_ms").alias("checkpoint_at_ms"),
        "index",
        F.struct("topic", "partition", "offset", "timestamp").alias("kafka"),
    )
    return with_times(fates)


def _fate(fate: Column | str, **known: Column) -> Column:
    values = {"fate": F.lit(fate) if isinstance(fate, str) else fate, **known}
    return F.struct(*(values.get(name, F.lit(None)).cast(type_name).alias(name) for name, type_name in _FATE.items()))


def _unreadable() -> Column:
    start = F.hex(F.substring("value", 1, 10))
    return _fate(UNREADABLE, reason=F.concat(F.lit("no known schema, or damaged: it starts with "), start))


def _acknowledged() -> Column:
    at_ms = F.col("event.at_ms")
    return F.transform(
        F.col("event.acknowledged"),
        lambda each: _fate(ACKNOWLEDGED, offset=each["first"], last_offset=each["last"], at_ms=at_ms),
    )


def _messages() -> Column:
    same = ("offset", "unit", "attempts", "target", "reason", "due_at_ms", "delay_ms", "max_delivery_attempts",
            "on_dead_letter")  # fmt: skip

    def fate(each: Column) -> Column:
        skipped_to = F.regexp_extract(each["reason"], _SKIPPED_TO, 1).try_cast("bigint")
        last = F.coalesce(F.when(each["fate"] == "skipped", skipped_to), each["offset"])
        at_ms = F.coalesce(each["at_ms"], F.col("event.at_ms"))
        return _fate(each["fate"], last_offset=last, at_ms=at_ms, **{name: each[name] for name in same})

    return F.transform(F.col("event.messages"), fate)


def _deliveries() -> Column:
    def fate(each: Column) -> Column:
        who = F.try_element_at(F.col("event.sessions"), each["session"] + 1)
        return _fate(
            DELIVERED,
            offset=each["first"],
            last_offset=each["first"] + each["count"] - 1,
            at_ms=F.col("event.deliveries_from_ms") + each["after_ms"],
            attempt=each["attempt"],
            session=who["id"],
            acknowledge_mode=who["mode"],
        )

    return F.transform(F.col("event.deliveries"), fate)
