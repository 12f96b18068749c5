"""What an audit reads, in an order in which nothing that is settled can be without its event.

First the messages, then the changelog, then the events, then the letters. What was settled when the changelog was read
has its event in the same transaction, so the events are read to the end that the log had afterwards, open transactions
included; letters, which go with events, after those.
"""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.core.destination import Destination, Queue, Topic, parse_destination
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.ports import KafkaAdmin
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.own_topics import events_topic
from jbm_kafka.registry.topic_configs import SYSTEM_PARTITIONS
from jbm_spark.changelog import latest_entries, positions, settled_offsets
from jbm_spark.columns import message_columns
from jbm_spark.committed import committed_records, no_records
from jbm_spark.errors import SparkJobError
from jbm_spark.events import UNREADABLE, event_columns
from jbm_spark.jobs.audit.archived import check_archive_of, events_in_archive, messages_in_archive
from jbm_spark.letters import letter_columns
from jbm_spark.subscription_rows import is_for
from jbm_spark.topic_check import TIMEOUT_S

OPEN_MAX_S = 60.0
"""How long an open transaction may keep the last events from being read; one of ours ends after ten."""
_LOOK_S = 0.2
_SINCE_EVER = -(2**63)
_NO_EVENTS_MS = 2**63 - 1


@dataclass(slots=True)
class AuditInputs:
    """The frames that the checks are over (audit_checks.py), and what is known of them."""

    group: ChannelGroup
    messages: DataFrame
    fates: DataFrame
    settled: DataFrame
    letters: DataFrame
    targets: DataFrame
    known_from_ms: int
    """What was settled since then has its event among the fates."""
    unreadable: int
    """Events that nobody here can read."""
    moves_known_from_ms: int
    """Letters that were moved away since then are told by events."""


def read_now(frame: DataFrame) -> DataFrame:
    """Its rows as they are now, kept until nobody has the frame any more.

    Not `persist`, which keeps the plan too: Spark would analyse the plans of all inputs again for each check, and that
    takes longer than the checks.
    """
    return frame.localCheckpoint()


@contextmanager
def audited(
    destination: str | Queue | Topic, *, bootstrap: str, subscription: str | None, client_id: str, namespace: str,
    archive: str | None, kafka: Mapping[str, object] | None,
) -> Iterator[tuple[KafkaAdmin, ChannelGroup]]:  # fmt: skip
    """Whose messages are audited, and the brokers, until the end of the block.

    Raises:
        SparkJobError: the archive is not one of this queue.
        JMSError: no such destination; the brokers do not answer.
    """
    core = AdminCore(bootstrap, kafka, namespace, TIMEOUT_S)
    with closing(core), core.asking(f"audit {destination}"):
        group = core.group(core.source(destination, subscription, client_id))
        if archive is not None and group.subscription is not None:
            raise SparkJobError("--archive is for queues: of a topic it does not tell which messages whose are")
        if archive is not None:
            check_archive_of(archive, group.topic, namespace)
        yield core.admin, group


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSource:
    """How the cluster is reached, and what of it is audited."""

    spark: SparkSession
    destination: str | Queue | Topic
    bootstrap: str
    subscription: str | None
    client_id: str
    namespace: str
    since_ms: int
    archive: str | None
    kafka: Mapping[str, object] | None
    options: Mapping[str, str] | None

    def read(self) -> AuditInputs:
        """Everything, as of now.

        Raises:
            SparkJobError: an open transaction keeps the events from being read.
            JMSError: no such destination; the brokers do not answer.
        """
        with audited(
            self.destination, bootstrap=self.bootstrap, subscription=self.subscription, client_id=self.client_id,
            namespace=self.namespace, archive=self.archive, kafka=self.kafka,
        ) as (admin, group):  # fmt: skip
            return self._read(admin, group)

    def _read(self, admin: KafkaAdmin, group: ChannelGroup) -> AuditInputs:
        described = admin.describe([group.topic])[group.topic]
        now_id = group.log_id(described.topic_id)
        messages = read_now(self._messages(admin, group, now_id))
        bounds = messages.groupBy("topic_id", "partition").agg(F.min("offset").alias("lo"), F.max("offset").alias("hi"))
        bounds = read_now(bounds)
        settled = read_now(self._settled(admin, group, now_id, messages))
        events, begins = self._events(admin, group)
        fates = read_now(_fates(events, bounds))
        names = [row[0] for row in fates.where("target is not null").select("target").distinct().collect()]
        letters, targets = self._letters(admin, group, names)
        letters, moves_known_from_ms = self._without_moved(admin, read_now(_within(letters, bounds)))
        return AuditInputs(
            group=group,
            messages=messages,
            fates=fates,
            settled=settled,
            letters=letters,
            targets=targets,
            known_from_ms=_SINCE_EVER if begins == 0 else _first(events.agg(F.min("at_ms")), _NO_EVENTS_MS),
            unreadable=events.where(F.col("fate") == UNREADABLE).count(),
            moves_known_from_ms=moves_known_from_ms,
        )

    def _messages(self, admin: KafkaAdmin, group: ChannelGroup, now_id: str) -> DataFrame:
        parts = range(admin.describe([group.topic])[group.topic].partitions)
        ends = admin.end_positions(group.topic, list(parts), stable=True)
        rows = message_columns(self._committed(group.topic, ends))
        if group.subscription is not None:
            rows = rows.where(is_for(group.subscription))
        begun = group.begins(now_id.partition("/")[0])
        if begun:
            before = F.coalesce(*(F.when(F.col("kafka.partition") == part, begin) for part, begin in begun.items()))
            rows = rows.where((F.col("kafka.offset") >= before) | before.isNull())
        audited = rows.select(
            F.lit(now_id).alias("topic_id"),
            "kafka.partition",
            "kafka.offset",
            "message_id",
            "unit_of_order",
            "kafka.key",
            F.col("kafka.timestamp").alias("sent_at"),
            "expiration",
            "delivery_time",
        )
        if self.archive is not None:
            older = messages_in_archive(self.spark, self.archive, group.topic)
            audited = audited.unionByName(older).dropDuplicates(["topic_id", "partition", "offset"])
        return audited.where(F.unix_millis("sent_at") >= self.since_ms).select(
            "topic_id",
            "partition",
            "offset",
            "message_id",
            F.col("unit_of_order").alias("unit"),
            "key",
            F.unix_millis("sent_at").alias("sent_at_ms"),
            F.coalesce(F.unix_millis("expiration"), F.lit(0)).alias("expiration_ms"),
            F.coalesce(F.unix_millis("delivery_time"), F.lit(0)).alias("delivery_ms"),
        )

    def _settled(self, admin: KafkaAdmin, group: ChannelGroup, now_id: str, messages: DataFrame) -> DataFrame:
        """By the changelog, if it is that of this topic: below the watermark and not parked, or in a bitmap."""
        found = admin.describe([group.changelog_topic]).get(group.changelog_topic)
        records = no_records(self.spark)
        if found is not None:
            ends = admin.end_positions(group.changelog_topic, list(range(found.partitions)), stable=True)
            records = self._committed(group.changelog_topic, ends)
        entries = latest_entries(records, group.group_id)
        ours = positions(entries).where(F.col("topic_id") == now_id).select("topic_id", "partition", "watermark")
        bits = settled_offsets(entries).select(
            F.col("settled_partition").alias("partition"),
            F.col("settled_offset").alias("offset"),
            F.lit(True).alias("is_set"),
        )
        known = messages.select("topic_id", "partition", "offset").join(F.broadcast(ours), ["topic_id", "partition"])
        marked = known.join(bits, ["partition", "offset"], "left").where("offset < watermark or is_set")
        parked = entries.where("kind = 'parked'").select("partition", F.col("index").alias("offset"))
        return marked.join(parked, ["partition", "offset"], "left_anti").select("topic_id", "partition", "offset")

    def _events(self, admin: KafkaAdmin, group: ChannelGroup) -> tuple[DataFrame, int]:
        """Those of the group, in the order of its checkpoints; and how many records were deleted before them."""
        topic = events_topic(self.namespace)
        found = admin.describe([topic]).get(topic)
        records = no_records(self.spark)
        if found is not None:
            parts = list(range(found.partitions))
            records = self._committed(topic, _whole_ends(admin, topic, parts))
        of_group = records.where(F.col("key").cast("string") == group.group_id)
        rows = event_columns(of_group)
        older = None if self.archive is None else events_in_archive(self.spark, self.archive, rows.columns)
        if older is not None:
            both = rows.unionByName(older.where(F.col("group") == group.group_id))
            places = both.withColumns({"_part": F.col("kafka.partition"), "_at": F.col("kafka.offset")})
            rows = places.dropDuplicates(["_part", "_at", "index"]).drop("_part", "_at")
        in_checkpoint = Window.partitionBy("kafka.partition", "checkpoint_id")
        told = read_now(rows.withColumn("seq", F.min("kafka.offset").over(in_checkpoint)))
        # Asked behind the events, for the oldest are deleted meanwhile.
        begins = 0 if found is None else sum(admin.begin_positions(topic, parts).values())
        return told, begins

    def _letters(self, admin: KafkaAdmin, group: ChannelGroup, names: Collection[str]) -> tuple[DataFrame, DataFrame]:
        """What these addresses have of ours; and of those that are there, from when on they have everything."""
        found: list[DataFrame] = []
        there: list[tuple[str, int]] = []
        for name in sorted(names):
            topic = _topic_of(name, self.namespace)
            described = admin.describe([topic]) if topic else {}
            if topic not in described:
                continue
            parts = list(range(described[topic].partitions))
            rows = letter_columns(message_columns(self._committed(topic, _whole_ends(admin, topic, parts))))
            told = read_now(_told(rows, name))
            # Asked behind the letters, for they are deleted meanwhile.
            there.append((name, kept_from_ms(_oldest(told, "letter_partition"), admin.begin_positions(topic, parts))))
            found.append(told)
        nothing = _told(letter_columns(message_columns(no_records(self.spark))), "")
        told = reduce(DataFrame.unionByName, found, nothing)
        ours = F.col("origin_destination") == str(group.destination)
        if group.subscription is not None:
            ours &= F.col("origin_subscription").isin(group.subscription.full_name, group.subscription.former_name)
        letters = told.where(ours).drop("origin_destination", "origin_subscription", "letter_partition")
        return letters, self.spark.createDataFrame(there, "target string, kept_from_ms bigint")

    def _without_moved(self, admin: KafkaAdmin, letters: DataFrame) -> tuple[DataFrame, int]:
        """With `has_left`: an operator moved it away, and where it was moved back there is another copy. And since when
        events tell that.

        Read after the letters: a letter that is there again has its event by then.
        """
        none_left, topic = letters.withColumn("has_left", F.lit(False)), events_topic(self.namespace)
        same = ["target", "topic_id", "partition", "offset"]
        several = [row["target"] for row in letters.groupBy(*same).count().where("count > 1").collect()]
        found = admin.describe([topic]).get(topic) if several else None
        if found is None:
            return none_left, _SINCE_EVER
        parts = list(range(found.partitions))
        records = self._committed(topic, _whole_ends(admin, topic, parts))
        queues = {name: queue for name in set(several) if isinstance(queue := _destination(name), Queue)}
        ids = admin.describe([queue.kafka_topic(self.namespace) for queue in queues.values()])
        known = [(name, queue.group_id(self.namespace), ids[each].topic_id) for name, queue in queues.items()
                 if (each := queue.kafka_topic(self.namespace)) in ids]  # fmt: skip
        groups = [each[1] for each in known]
        oldest = _oldest(records.withColumn("at_ms", F.unix_millis("timestamp")), "partition")
        theirs = sorted({partition_for(each.encode(), SYSTEM_PARTITIONS) for each in groups})
        known_from_ms = kept_from_ms(oldest, admin.begin_positions(topic, theirs))
        of = self.spark.createDataFrame(known, "letters_of string, of_group string, its_topic_id string")
        moves = event_columns(records.where(F.col("key").cast("string").isin(*groups))).where("fate = 'moved'")
        moves = moves.join(F.broadcast(of), F.col("group") == F.col("of_group"))
        moves = moves.where("coalesce(topic_id, its_topic_id) = its_topic_id")
        place = F.concat_ws(":", "partition", "offset").alias("place")
        places = moves.select(F.col("letters_of").alias("target"), place, F.lit(True).alias("has_left")).distinct()
        left = letters.join(places, ["target", "place"], "left")
        return read_now(left.withColumn("has_left", F.coalesce("has_left", F.lit(False)))), known_from_ms

    def _committed(self, topic: str, ends: Mapping[int, int]) -> DataFrame:
        if not any(ends.values()):
            return no_records(self.spark)
        return committed_records(
            self.spark, topic, bootstrap=self.bootstrap, ending=ends, kafka=self.kafka, options=self.options
        )


def _fates(events: DataFrame, bounds: DataFrame) -> DataFrame:
    """A row for each message of a range, as far as it is one of those that are audited."""
    known = events.where(F.col("fate") != UNREADABLE).withColumn("is_known", F.col("topic_id").isNotNull())
    now_known = F.col("events.topic_id").isNull() | (F.col("events.topic_id") == F.col("bounds.topic_id"))
    same = (F.col("events.partition") == F.col("bounds.partition")) & now_known
    first, last = F.greatest("events.offset", "lo"), F.least("events.last_offset", "hi")
    within = known.alias("events").join(F.broadcast(bounds).alias("bounds"), same).where(first <= last)
    return within.select(
        "bounds.topic_id",
        "events.partition",
        F.explode(F.sequence(first, last)).alias("offset"),
        "fate",
        "at_ms",
        "attempts",
        "target",
        "reason",
        "due_at_ms",
        F.col("max_delivery_attempts").alias("attempts_max"),
        "attempt",
        F.col("acknowledge_mode").alias("mode"),
        "seq",
        "is_known",
    )


def _told(letters: DataFrame, target: str) -> DataFrame:
    """What an audit needs of the letters of an address."""
    return letters.select(
        F.lit(target).alias("target"),
        "origin_destination",
        "origin_subscription",
        F.col("origin_topic_id").alias("topic_id"),
        F.col("origin_partition").alias("partition"),
        F.col("origin_offset").alias("offset"),
        F.concat_ws(":", "kafka.partition", "kafka.offset").alias("place"),
        F.col("kafka.partition").alias("letter_partition"),
        F.unix_millis("kafka.timestamp").alias("at_ms"),
    )


def kept_from_ms(oldest: Mapping[int, int], begins: Mapping[int, int]) -> int:
    """Since when all that a log got is there, whichever of its partitions it went to. `oldest`: when the first record
    was written that each partition has."""
    cut = [partition for partition, begin in begins.items() if begin > 0]
    return max((oldest.get(partition, _NO_EVENTS_MS) for partition in cut), default=_SINCE_EVER)


def _oldest(records: DataFrame, partition: str) -> Mapping[int, int]:
    return {row[0]: row[1] for row in records.groupBy(partition).agg(F.min("at_ms")).collect()}


def _within(letters: DataFrame, bounds: DataFrame) -> DataFrame:
    """Of messages that are audited, as far as letters tell; those of older versions do not tell the topic's id."""
    told, audited = F.col("letters.topic_id"), F.col("bounds.topic_id")
    same = (F.col("letters.partition") == F.col("bounds.partition")) & (told.isNull() | (told == audited))
    return letters.alias("letters").join(F.broadcast(bounds).alias("bounds"), same, "left_semi")


def _whole_ends(admin: KafkaAdmin, topic: str, parts: list[int]) -> Mapping[int, int]:
    """The ends that the log has now, when all transactions below them have ended.

    Raises:
        SparkJobError: one goes on and on.
    """
    heads = admin.end_positions(topic, parts, stable=False)
    deadline = time.monotonic() + OPEN_MAX_S
    while True:
        stable = admin.end_positions(topic, parts, stable=True)
        if all(stable[part] >= heads[part] for part in parts):
            return heads
        if time.monotonic() > deadline:
            raise SparkJobError(
                f"a transaction is open in {topic} for more than {OPEN_MAX_S:.0f} s, and what comes behind it cannot "
                "be read: end it (jbm-kafka docs topics, 'A transaction that never ends'), and start again"
            )
        time.sleep(_LOOK_S)


def _topic_of(target: str, namespace: str) -> str:
    """Empty where that is the name of nothing."""
    destination = _destination(target)
    return "" if destination is None else destination.kafka_topic(namespace)


def _destination(target: str) -> Destination | None:
    try:
        return parse_destination(target)
    except JMSError:
        return None


def _first(frame: DataFrame, default: int) -> int:
    row = frame.first()
    return default if row is None or row[0] is None else int(row[0])
