"""The messages that a queue or subscription still holds, as a DataFrame: from its topic, its changelog, its group's
offset (LOG-3).

No receiver is asked and none is disturbed. The changelog is read anew by every action; where the group's offset decides
(core/channel/start_position.py: a reset by Kafka's tools, a topic that was made anew), it was asked when the frame was
made. A message that is parked, and deleted from the log, between an action's looks at the changelog and at the log is
missing from that action.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

from jbm_spark.call_sites import without_call_sites
from jbm_spark.cluster_in_use import cluster_in_use
from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
    from pyspark.sql import functions as F  # noqa: N812
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.codec.changelog import decode_entry
from jbm_kafka.core.channel.entries import BLOCK_OFFSETS, Position
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.channel.start_position import Facts, StartReason, decide_start, is_disputed
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.jms_errors import CorruptRecordError
from jbm_kafka.ports import KafkaAdmin, LogPlace, TopicDescription
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_spark.call_checks import check_session
from jbm_spark.columns import message_columns
from jbm_spark.committed import committed_records, no_records
from jbm_spark.known_values import known_rows, looked_up
from jbm_spark.log_positions import log_positions
from jbm_spark.messages import source_options
from jbm_spark.raw_columns import shown
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

    topic: str
    partition: int
    checkpoint_id: str | None
    begin: int
    keeps_below: int
    """The end of the offsets for which the changelog counts."""
    keeps_parked: bool
    """The records that it has parked below the beginning are owed."""


_BEGIN = "topic string, partition int, checkpoint_id string, begin bigint, keeps_below bigint, keeps_parked boolean"


@without_call_sites()
def held(
    spark: SparkSession,
    destination: str | Queue | Topic,
    *,
    bootstrap: str | None = None,
    subscription: str | None = None,
    client_id: str = "",
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
    raw: bool = False,
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
    bootstrap, namespace, kafka = cluster_in_use(bootstrap, namespace, kafka)
    core = AdminCore(bootstrap, kafka, namespace, TIMEOUT_S)
    with closing(core), core.asking(f"read what {destination} holds"):
        group = core.group(core.source(destination, subscription, client_id))
        found = held_of(spark, core.admin, [group], bootstrap=bootstrap, kafka=kafka, options=options)
    return shown(found, raw=raw)


def held_of(
    spark: SparkSession,
    admin: KafkaAdmin,
    groups: Sequence[ChannelGroup],
    *,
    bootstrap: str,
    kafka: Mapping[str, object] | None,
    options: Mapping[str, str] | None,
) -> DataFrame:
    """The same of many queues in one frame, or of one subscription, with all of the record in `kafka`.

    Raises:
        KafkaClientError: the brokers do not answer.
    """
    by_topic = {group.topic: group for group in groups}
    described = admin.describe([name for group in groups for name in (group.topic, group.changelog_topic)])
    changelogs = sorted({group.changelog_topic for group in groups if group.changelog_topic in described})
    records = no_records(spark)
    if changelogs:
        records = committed_records(spark, ",".join(changelogs), bootstrap=bootstrap, kafka=kafka, options=options)
    of_topic = looked_up(F.col("group"), {group.group_id: group.topic for group in groups})
    entries = latest_entries(records, [group.group_id for group in groups]).withColumn("topic", of_topic)
    found = list(_begins(admin, groups, described, entries))
    begins = _in_force(known_rows(spark, found, _BEGIN), entries)
    starting: dict[str, dict[str, int]] = {}
    for each in found:
        starting.setdefault(each.topic, {})[str(each.partition)] = each.begin
    chosen = {
        **source_options(spark, ",".join(sorted(by_topic)), bootstrap, kafka, options),
        "startingOffsets": json.dumps(starting),
        "endingOffsets": "latest",
        # What was deleted since the frame was made is settled by now, or the changelog has it.
        "failOnDataLoss": "false",
    }
    source = message_columns(spark.read.format("kafka").options(**chosen).load())
    for group in groups:
        if group.subscription is not None:
            source = source.where(is_for(group.subscription))
    from_begin = _placed(source).join(F.broadcast(begins), ["_topic", "_partition"]).where("_offset >= begin")
    unsettled = from_begin.join(settled_offsets(entries), _same("settled"), "left_anti")
    owed = unsettled.unionByName(_parked(entries, begins))
    with_past = owed.join(returned_messages(entries), _same("returned"), "left")
    with_branches = with_past.join(prepared_offsets(entries), _same("prepared"), "left")
    return with_branches.select(
        *(F.col(name) for name in source.columns),
        _state().alias("state"),
        F.coalesce("attempts", F.lit(0)).alias("attempts"),
    )


def latest_entries(records: DataFrame, groups: Sequence[str]) -> DataFrame:
    """Return what changelogs say of these groups now: `group`, `partition`, `kind`, `index` (null where it is no
    number), `value`."""
    key = F.split(F.col("key").cast("string"), r"\|", 3)
    newest = F.max_by("value", "offset")
    return (
        records.where((F.size(key) == 3) & key[0].isin(*groups))
        .groupBy("topic", "partition", "key")
        .agg(newest.alias("value"))
        .where("value is not null")
        .select(
            key[0].alias("group"), "partition", key[1].alias("kind"), key[2].try_cast("bigint").alias("index"), "value"
        )
    )


def positions(entries: DataFrame) -> DataFrame:
    """`topic`, `partition`, `topic_id`, `checkpoint_id` and `watermark` of the positions that can be read."""
    value = decoded(F.col("value"), "Position").alias("read")
    read = entries.where("kind = 'position'").select("topic", "partition", value)
    found = read.select("topic", "partition", "read.topic_id", "read.checkpoint_id", "read.watermark")
    return found.where("checkpoint_id is not null")


def settled_offsets(entries: DataFrame) -> DataFrame:
    """`settled_topic`, `settled_partition`, `settled_offset` of what is settled above the watermark; below it they mean
    nothing."""
    block, bitmap = F.col("index").alias("block"), decoded(F.col("value"), "Settled")["bitmap"].alias("bitmap")
    return _offsets_in(entries.where("kind = 'settled'").select("topic", "partition", block, bitmap), "settled")


def prepared_offsets(entries: DataFrame) -> DataFrame:
    """`prepared_topic`, `prepared_partition`, `prepared_offset` of what prepared branches have."""
    of_branch = F.explode(decoded(F.col("value"), "Prepared")["blocks"]).alias("of_branch")
    blocks = entries.where("kind = 'prepared'").select("topic", "partition", of_branch)
    return _offsets_in(blocks.select("topic", "partition", "of_branch.block", "of_branch.bitmap"), "prepared")


def parked_records(entries: DataFrame) -> DataFrame:
    """The records that the changelogs keep, as Spark's Kafka source has those of the topics."""
    read = entries.where("kind = 'parked'").select("*", decoded(F.col("value"), "Parked").alias("read"))
    headers = F.transform(
        "read.headers", lambda header: F.struct(header["name"].alias("key"), header["value"].alias("value"))
    )
    return read.where("read.timestamp_ms is not null").select(
        F.col("read.key").alias("key"),
        F.col("read.value").alias("value"),
        "topic",
        "partition",
        F.col("index").alias("offset"),
        F.timestamp_millis("read.timestamp_ms").alias("timestamp"),
        (F.col("read.timestamp_type") - 1).alias("timestampType"),
        F.when(F.size(headers) > 0, headers).alias("headers"),
    )


def _placed(rows: DataFrame) -> DataFrame:
    return rows.withColumns({f"_{name}": F.col(f"kafka.{name}") for name in ("topic", "partition", "offset")})


def _parked(entries: DataFrame, begins: DataFrame) -> DataFrame:
    """Return what is owed below the beginnings, which only the changelogs have, perhaps."""
    places = _placed(message_columns(parked_records(entries)))
    below = places.join(F.broadcast(begins), ["_topic", "_partition"]).where("_offset < begin and keeps_parked")
    return below.withColumn("keeps_below", F.lit(_EVERY_OFFSET))


def _offsets_in(blocks: DataFrame, what: str) -> DataFrame:
    """`<what>_topic`, `<what>_partition`, `<what>_offset` of blocks: `topic`, `partition`, `block`, `bitmap`."""
    offsets = F.udf(_offsets_of, "array<int>", useArrow=False)  # Spark has bitmaps of another format
    each = blocks.select("topic", "partition", "block", F.explode(offsets("bitmap")).alias("within"))
    return each.select(
        F.col("topic").alias(f"{what}_topic"),
        F.col("partition").alias(f"{what}_partition"),
        (F.col("block") * BLOCK_OFFSETS + F.col("within")).alias(f"{what}_offset"),
    )


def returned_messages(entries: DataFrame) -> DataFrame:
    """`returned_topic`, `returned_partition`, `returned_offset`, `attempts` and `due_at_ms` of what came back or waits
    for a time."""
    read = entries.where("kind = 'held'").select("*", decoded(F.col("value"), "Held").alias("read"))
    found = read.select(
        F.col("topic").alias("returned_topic"),
        F.col("partition").alias("returned_partition"),
        F.col("index").alias("returned_offset"),
        "read.attempts",
        "read.due_at_ms",
    )
    return found.where("attempts is not null")


def _begins(
    admin: KafkaAdmin, groups: Sequence[ChannelGroup], described: Mapping[str, TopicDescription], entries: DataFrame
) -> Iterator[_Begin]:
    """Yield the beginnings by the rule that an owner goes by."""
    by_id = {group.group_id: group for group in groups}
    parts = {group.group_id: list(range(described[group.topic].partitions)) for group in groups}
    before: Mapping[tuple[str, int], Position] = {}
    for reading in range(_READINGS_MAX):
        # In this order, as a recovery asks.
        committed = {group.group_id: admin.committed(group.group_id, group.topic, parts[group.group_id])
                     for group in groups}  # fmt: skip
        rows = entries.where("kind = 'position'").select("group", "partition", "value").collect()
        read = ((row, _position_of(by_id[row["group"]], row)) for row in rows)
        found = {(row["group"], row["partition"]): position for row, position in read if position is not None}
        if reading == 0:
            before = found
        each = ((queue, part) for queue, numbers in parts.items() for part in numbers)
        if not any(is_disputed(found.get(at), committed[at[0]].get(at[1])) for at in each):
            break
    counts = {group.topic: described[group.topic].partitions for group in groups}
    log_begins, log_ends = log_positions(admin, counts, LogPlace.BEGIN), log_positions(admin, counts, LogPlace.END)
    for queue, group in by_id.items():
        topic_id = described[group.topic].topic_id
        for part in parts[queue]:
            position, earlier = found.get((queue, part)), before.get((queue, part))
            written_by = None if position is None else position.checkpoint_id
            facts = Facts(
                topic_id=group.log_id(topic_id),
                position=position,
                committed=committed[queue].get(part),
                log_begin=log_begins[group.topic][part],
                log_end=log_ends[group.topic][part],
                begin=group.begins(topic_id).get(part, 0),
                is_written=earlier is not None and written_by not in (None, earlier.checkpoint_id),
            )
            start = decide_start(facts)
            keeps_below = _EVERY_OFFSET if start.keeps_entries else 0
            if start.reason is StartReason.LOG_BOUNDS:
                keeps_below = start.position.fetched
            keeps_parked = start.reason not in (StartReason.TOPIC_RECREATED, StartReason.SUBSCRIBED_ANEW)
            yield _Begin(group.topic, part, written_by, start.position.watermark, keeps_below, keeps_parked)


def _position_of(group: ChannelGroup, row: Row) -> Position | None:
    try:
        _, entry = decode_entry(f"{group.group_id}|position|0".encode(), bytes(row["value"]))
    except CorruptRecordError:  # a newer version's, too
        return None
    return entry if isinstance(entry, Position) else None


def _in_force(begins: DataFrame, entries: DataFrame) -> DataFrame:
    """`_topic`, `_partition` and what else `_Begin` has: as decided, or, after another checkpoint, as that one says."""
    now = positions(entries).select("topic", "partition", F.col("checkpoint_id").alias("written_by"), "watermark")
    is_same = F.col("written_by").isNull() | F.col("written_by").eqNullSafe(F.col("checkpoint_id"))
    return begins.join(now, ["topic", "partition"], "left").select(
        F.col("topic").alias("_topic"),
        F.col("partition").alias("_partition"),
        F.when(is_same, F.col("begin")).otherwise(F.col("watermark")).alias("begin"),
        F.when(is_same, F.col("keeps_below")).otherwise(F.lit(_EVERY_OFFSET)).alias("keeps_below"),
        (F.col("keeps_parked") | ~is_same).alias("keeps_parked"),
    )


def _same(what: str) -> Column:
    """The entry is about the row's message, and counts."""
    is_its = F.col("_topic") == F.col(f"{what}_topic")
    is_its &= (F.col("_partition") == F.col(f"{what}_partition")) & (F.col("_offset") == F.col(f"{what}_offset"))
    return is_its & (F.col("_offset") < F.col("keeps_below"))


def _state() -> Column:
    now_ms = F.unix_millis(F.current_timestamp())
    is_expired = F.coalesce(F.unix_millis("expiration") <= now_ms, F.lit(False))
    due_at_ms = F.greatest(F.lit(0), "due_at_ms", F.unix_millis("delivery_time"))
    unit = F.when(F.length("kafka.key") > 0, F.col("kafka.key"))
    # Each message without a unit stands for itself: in one window they would be sorted together.
    in_unit = Window.partitionBy("_topic", "_partition", unit, F.when(unit.isNull(), F.col("_offset")))
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
