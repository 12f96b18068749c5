"""What a queue or subscription still holds, as a DataFrame: from its topic, its changelog, its group's offset (LOG-3).

No receiver is asked and none is disturbed. The changelog is read anew by every action; where the group's offset decides
(core/start_position.py: a reset by Kafka's tools, a topic that was made anew), it was asked when the frame was made.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import NamedTuple

from jbm_spark.call_sites import without_call_sites
from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
    from pyspark.sql import functions as F  # noqa: N812
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.codec.changelog import decode_entry
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.entries import BLOCK_OFFSETS, Position
from jbm_kafka.core.jms_errors import CorruptRecordError
from jbm_kafka.core.redelivery import FOREVER_MS
from jbm_kafka.core.start_position import Facts, StartReason, decide_start, is_disputed
from jbm_kafka.ports import KafkaAdmin, TopicDescription
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_spark.call_checks import check_session
from jbm_spark.columns import message_columns
from jbm_spark.committed import committed_records, no_records
from jbm_spark.messages import messages
from jbm_spark.single_object import decoded
from jbm_spark.subscription_rows import is_for
from jbm_spark.topic_check import TIMEOUT_S

STATES = ("ready", "behind", "delayed", "on hold", "expired", "prepared")
"""Of what is held: it may be received now, or a receiver has it; earlier ones of its unit come first; it waits for a
time; it waits for an operator; it leaves as soon as somebody receives; a prepared branch has it until it is decided."""

_READINGS_MAX = 3
"""Between two questions there may be a checkpoint; as in `store.recovery`."""
_EVERY_OFFSET = 2**63 - 1


class _Begin(NamedTuple):
    """Where a partition begins, while its changelog's position is the one that this was decided by."""

    partition: int
    checkpoint_id: str | None
    begin: int
    keeps_below: int
    """What the changelog says of offsets from there on does not count."""
    keeps_parked: bool
    """What it has parked below the beginning is owed."""


_BEGIN = "partition int, checkpoint_id string, begin bigint, keeps_below bigint, keeps_parked boolean"


@without_call_sites()
def held(
    spark: SparkSession,
    destination: str | Queue | Topic,
    *,
    bootstrap: str,
    subscription: str | None = None,
    client_id: str = "",
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The messages of a queue, or of a topic's durable subscription, that are not settled: as `jbm-kafka show` counts.

    The columns are those of `messages`, and `state` (see `STATES`) and `attempts`: hand-overs that did not end in
    acknowledgement. Make the frame anew after somebody reset the group's offset.

    Raises:
        InvalidDestinationError: no such queue, topic or subscription.
        OptionRefusedError, SessionError, JMSSecurityError: as `messages`.
        JMSError: the brokers do not answer.
    """
    check_session(spark)
    core = AdminCore(bootstrap, kafka, namespace, TIMEOUT_S)
    with closing(core), core.asking(f"read what {destination} holds"):
        group = core.group(core.source(destination, subscription, client_id))
        described = core.admin.describe([group.topic, group.changelog_topic])
        records = no_records(spark)
        if group.changelog_topic in described:
            records = committed_records(spark, group.changelog_topic, bootstrap=bootstrap, kafka=kafka, options=options)
        entries = latest_entries(records, group.group_id)
        found = list(_begins(core.admin, group, described[group.topic], entries))
    begins = _in_force(spark.createDataFrame(found, _BEGIN), entries)
    source = messages(spark, group.destination, bootstrap=bootstrap, namespace=namespace, kafka=kafka, options=options,
                      starting={each.partition: each.begin for each in found})  # fmt: skip
    if group.subscription is not None:
        source = source.where(is_for(group.subscription))
    places = source.withColumns({"_partition": F.col("kafka.partition"), "_offset": F.col("kafka.offset")})
    from_begin = places.join(F.broadcast(begins), "_partition").where("_offset >= begin")
    unsettled = from_begin.join(settled_offsets(entries), _same("settled"), "left_anti")
    owed = unsettled.drop("settled_partition", "settled_offset").unionByName(_parked(entries, group.topic, begins))
    with_past = owed.join(returned_messages(entries), _same("returned"), "left")
    with_branches = with_past.join(prepared_offsets(entries), _same("prepared"), "left")
    return with_branches.select(
        *(F.col(name) for name in source.columns),
        _state().alias("state"),
        F.coalesce("attempts", F.lit(0)).alias("attempts"),
    )


def latest_entries(records: DataFrame, group_id: str) -> DataFrame:
    """What a changelog says of one group now: `partition`, `kind`, `index` (null where it is no number), `value`."""
    key = F.split(F.col("key").cast("string"), r"\|", 3)
    newest = F.max_by("value", "offset")
    return (
        records.where(F.startswith(F.col("key").cast("string"), F.lit(f"{group_id}|")))
        .groupBy("partition", "key")
        .agg(newest.alias("value"))
        .where("value is not null")
        .select("partition", key[1].alias("kind"), key[2].try_cast("bigint").alias("index"), "value")
    )


def positions(entries: DataFrame) -> DataFrame:
    """`partition`, `topic_id`, `checkpoint_id` and `watermark` of the positions that can be read."""
    read = entries.where("kind = 'position'").select("partition", decoded(F.col("value"), "Position").alias("read"))
    found = read.select("partition", "read.topic_id", "read.checkpoint_id", "read.watermark")
    return found.where("checkpoint_id is not null")


def settled_offsets(entries: DataFrame) -> DataFrame:
    """`settled_partition`, `settled_offset` of what is settled above the watermark; below it they mean nothing."""
    block, bitmap = F.col("index").alias("block"), decoded(F.col("value"), "Settled")["bitmap"].alias("bitmap")
    return _offsets_in(entries.where("kind = 'settled'").select("partition", block, bitmap), "settled")


def prepared_offsets(entries: DataFrame) -> DataFrame:
    """`prepared_partition`, `prepared_offset` of what prepared branches have."""
    of_branch = F.explode(decoded(F.col("value"), "Prepared")["blocks"]).alias("of_branch")
    blocks = entries.where("kind = 'prepared'").select("partition", of_branch)
    return _offsets_in(blocks.select("partition", "of_branch.block", "of_branch.bitmap"), "prepared")


def parked_records(entries: DataFrame, topic: str) -> DataFrame:
    """The records that the changelog keeps, as Spark's Kafka source has those of the topic."""
    read = entries.where("kind = 'parked'").select("*", decoded(F.col("value"), "Parked").alias("read"))
    headers = F.transform(
        "read.headers", lambda header: F.struct(header["name"].alias("key"), header["value"].alias("value"))
    )
    return read.where("read.timestamp_ms is not null").select(
        F.col("read.key").alias("key"),
        F.col("read.value").alias("value"),
        F.lit(topic).alias("topic"),
        "partition",
        F.col("index").alias("offset"),
        F.timestamp_millis("read.timestamp_ms").alias("timestamp"),
        (F.col("read.timestamp_type") - 1).alias("timestampType"),
        F.when(F.size(headers) > 0, headers).alias("headers"),
    )


def _parked(entries: DataFrame, topic: str, begins: DataFrame) -> DataFrame:
    """What is owed below the beginnings, which only the changelog has, perhaps."""
    rows = message_columns(parked_records(entries, topic))
    places = rows.withColumns({"_partition": F.col("kafka.partition"), "_offset": F.col("kafka.offset")})
    below = places.join(F.broadcast(begins), "_partition").where("_offset < begin and keeps_parked")
    return below.withColumn("keeps_below", F.lit(_EVERY_OFFSET))


def _offsets_in(blocks: DataFrame, what: str) -> DataFrame:
    """`<what>_partition`, `<what>_offset` of blocks: `partition`, `block`, `bitmap`."""
    offsets = F.udf(_offsets_of, "array<int>", useArrow=False)  # Spark has bitmaps of another format
    each = blocks.select("partition", "block", F.explode(offsets("bitmap")).alias("within"))
    return each.select(
        F.col("partition").alias(f"{what}_partition"),
        (F.col("block") * BLOCK_OFFSETS + F.col("within")).alias(f"{what}_offset"),
    )


def returned_messages(entries: DataFrame) -> DataFrame:
    """`returned_partition`, `returned_offset`, `attempts` and `due_at_ms` of what came back or waits for a time."""
    read = entries.where("kind = 'held'").select("*", decoded(F.col("value"), "Held").alias("read"))
    found = read.select(
        F.col("partition").alias("returned_partition"),
        F.col("index").alias("returned_offset"),
        "read.attempts",
        "read.due_at_ms",
    )
    return found.where("attempts is not null")


def _begins(admin: KafkaAdmin, group: ChannelGroup, topic: TopicDescription, entries: DataFrame) -> Iterator[_Begin]:
    """By the rule that an owner goes by."""
    parts = list(range(topic.partitions))
    before: Mapping[int, Position] = {}
    for reading in range(_READINGS_MAX):
        # In this order, as a recovery asks.
        committed = admin.committed(group.group_id, group.topic, parts)
        rows = entries.where("kind = 'position'").select("partition", "value").collect()
        found = {row["partition"]: position for row in rows if (position := _position_of(group, row)) is not None}
        if reading == 0:
            before = found
        if not any(is_disputed(found.get(part), committed.get(part)) for part in parts):
            break
    log_begins = admin.begin_positions(group.topic, parts)
    log_ends = admin.end_positions(group.topic, parts, stable=False)
    for part in parts:
        position, earlier = found.get(part), before.get(part)
        facts = Facts(
            topic_id=group.log_id(topic.topic_id),
            position=position,
            committed=committed.get(part),
            log_begin=log_begins[part],
            log_end=log_ends[part],
            begin=group.begins(topic.topic_id).get(part, 0),
            is_written=position is not None and earlier is not None and position.checkpoint_id != earlier.checkpoint_id,
        )
        start = decide_start(facts)
        keeps_below = _EVERY_OFFSET if start.keeps_entries else 0
        if start.reason is StartReason.LOG_BOUNDS:
            keeps_below = start.position.fetched
        keeps_parked = start.reason not in (StartReason.TOPIC_RECREATED, StartReason.SUBSCRIBED_ANEW)
        written_by = None if position is None else position.checkpoint_id
        yield _Begin(part, written_by, start.position.watermark, keeps_below, keeps_parked)


def _position_of(group: ChannelGroup, row: Row) -> Position | None:
    try:
        _, entry = decode_entry(f"{group.group_id}|position|0".encode(), bytes(row["value"]))
    except CorruptRecordError:  # a newer version's, too
        return None
    return entry if isinstance(entry, Position) else None


def _in_force(begins: DataFrame, entries: DataFrame) -> DataFrame:
    """`_partition` and what else `_Begin` has: as decided, or, after another checkpoint, as that one says."""
    now = positions(entries).select("partition", F.col("checkpoint_id").alias("written_by"), "watermark")
    is_same = F.col("written_by").isNull() | F.col("written_by").eqNullSafe(F.col("checkpoint_id"))
    return begins.join(now, "partition", "left").select(
        F.col("partition").alias("_partition"),
        F.when(is_same, F.col("begin")).otherwise(F.col("watermark")).alias("begin"),
        F.when(is_same, F.col("keeps_below")).otherwise(F.lit(_EVERY_OFFSET)).alias("keeps_below"),
        (F.col("keeps_parked") | ~is_same).alias("keeps_parked"),
    )


def _same(what: str) -> Column:
    """The entry is about the row's message, and counts."""
    is_its = (F.col("_partition") == F.col(f"{what}_partition")) & (F.col("_offset") == F.col(f"{what}_offset"))
    return is_its & (F.col("_offset") < F.col("keeps_below"))


def _state() -> Column:
    now_ms = F.unix_millis(F.current_timestamp())
    is_expired = F.coalesce(F.unix_millis("expiration") <= now_ms, F.lit(False))
    due_at_ms = F.greatest(F.lit(0), "due_at_ms", F.unix_millis("delivery_time"))
    unit = F.when(F.length("kafka.key") > 0, F.col("kafka.key"))
    # Each message without a unit stands for itself: in one window they would be sorted together.
    in_unit = Window.partitionBy("_partition", unit, F.when(unit.isNull(), F.col("_offset")))
    first = F.min(F.when(~is_expired, F.col("_offset"))).over(in_unit)
    return (
        F.when(F.col("prepared_offset").isNotNull(), "prepared")
        .when(is_expired, "expired")
        .when(due_at_ms >= FOREVER_MS, "on hold")
        .when(due_at_ms > now_ms, "delayed")
        .when(first < F.col("_offset"), "behind")
        .otherwise("ready")
    )


def _offsets_of(bitmap: bytes | None) -> list[int]:
    from pyroaring import BitMap

    try:
        return [] if bitmap is None else list(BitMap.deserialize(bytes(bitmap)))
    except (ValueError, IndexError):  # a damaged entry counts as none, as in a recovery
        return []
