"""The inputs of an audit, read in an order in which nothing that is settled can be without its event.

First the ends of the messages, then the changelogs, then the events, then the letters. What was settled when a
changelog was read has its event in the same transaction, so the events are read to the end that the log had afterwards,
open transactions included; letters, which go with events, after those. The messages themselves are read last, up to the
ends that were asked first: what is deleted meanwhile is not looked at.

Many queues are read as one is: each kind of topic by one query, and whose a row is its topic tells.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyroaring import BitMap
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.codec.changelog import decode_entry
from jbm_kafka.core.channel.entries import BLOCK_OFFSETS, Entry, Position, Settled
from jbm_kafka.core.channel.log_id import topic_id_of
from jbm_kafka.core.destination import Destination, Queue, Topic, parse_destination
from jbm_kafka.core.jms_errors import CorruptRecordError, JMSError
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.ports import KafkaAdmin, LogPlace
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.own_topics import events_topic
from jbm_kafka.registry.topic_configs import SYSTEM_PARTITIONS
from jbm_spark.causes import is_gone
from jbm_spark.changelog import latest_entries
from jbm_spark.columns import message_columns
from jbm_spark.committed import no_records, records_of_topics
from jbm_spark.errors import SparkJobError
from jbm_spark.events import UNREADABLE, event_columns
from jbm_spark.jobs.audit.archived import (
    archived_bounds,
    beyond_archive,
    check_archive_of,
    events_in_archive,
    messages_in_archive,
)
from jbm_spark.jobs.audit.audit_checks import FATE, LETTER
from jbm_spark.known_values import known_rows, looked_up
from jbm_spark.letters import letter_columns
from jbm_spark.log_positions import log_positions, whole_ends
from jbm_spark.session_setting import session_setting
from jbm_spark.subscription_rows import is_for
from jbm_spark.topic_check import TIMEOUT_S

SINCE_EVER = -(2**63)
_NO_EVENTS_MS = 2**63 - 1
_EVERY_OFFSET = 2**63 - 1
_PLACE = ["offset", "partition", "topic_id"]
"""In this order: Spark sorts by the first of them as by a number, and compares rows only where it is the same."""
_SORTED_ONCE = "spark.sql.execution.useObjectHashAggregateExec", "false"
"""Lists are collected from sorted rows, which are then joined as they are: Spark would sort them three times, for its
hash tables hold 128 lists."""
_READS_MAX = 5
"""So often is read what is deleted meanwhile. The next read begins where the log begins by then."""
_BOUNDS = "queue string, topic_id string, partition int, lo bigint, hi bigint, watermark bigint"
Ends = Mapping[str, Mapping[int, int]]
"""Positions by topic and partition."""


@dataclass(slots=True)
class AuditInputs:
    """The story of each message (audit_checks.py), and what is known beside it. `queue` is a group's id everywhere."""

    groups: Mapping[str, ChannelGroup]
    """Whose messages are audited, by the ids of their groups."""
    topic_ids: Mapping[str, str]
    """The ids of the Kafka topics that were read, by queue."""
    story: DataFrame
    known_from_ms: Mapping[str, int]
    """The time since when all that was settled has its event among the fates, by queue."""
    unreadable: Mapping[str, int]
    """The number of events that nobody here can read, by queue."""
    kept_from_ms: Mapping[str, int]
    """By address: what was copied there since then is there still, whichever partition it went to. Those whose topics
    are gone are missing."""
    moves_known_from_ms: int
    """Letters that were moved away since then are told by events."""
    gone: DataFrame
    """`queue`, and `until_ms`: the latest event about messages of it that are not there any more."""


def read_now(frame: Callable[[], DataFrame]) -> DataFrame:
    """Its rows as they are now, kept until nobody has the frame any more. It is made and read once more where what it
    was about to read is deleted meanwhile: workers do that three times a minute, and Kafka's retention does.

    Not `persist`, which keeps the plan too: Spark would analyse the plans of all inputs again for each query over them.
    """
    for _ in range(_READS_MAX - 1):
        try:
            return frame().localCheckpoint()
        except (PySparkException, Py4JError) as error:
            if not is_gone(error):
                raise
    return frame().localCheckpoint()


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
            check_archive_of(archive, group.destination)
        yield core.admin, group


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSource:
    """How the cluster is reached, and what of it is audited."""

    spark: SparkSession
    admin: KafkaAdmin
    bootstrap: str
    namespace: str
    since_ms: int
    archive: str | None
    kafka: Mapping[str, object] | None
    options: Mapping[str, str] | None

    def read(self, groups: Sequence[ChannelGroup]) -> AuditInputs:
        """Everything about these queues, or about one subscription, as of now.

        Raises:
            SparkJobError: an open transaction keeps the events from being read; a topic is gone.
            KafkaClientError: the brokers do not answer.
        """
        topics = {group.topic: group for group in groups}
        described = self.admin.describe([*topics])
        gone = next((topic for topic in topics if topic not in described), None)
        if gone is not None:
            raise SparkJobError(f"topic {gone} is not there any more")
        log_ids = {topic: group.log_id(described[topic].topic_id) for topic, group in topics.items()}
        ends = self._positions([*topics], LogPlace.STABLE_END)
        changelogs = self._changelogs({group.group_id: group for group in groups}, log_ids)
        events, begins = self._events([group.group_id for group in groups])
        facts = events.groupBy("group").agg(
            F.min("at_ms").alias("oldest"),
            F.count_if(F.col("fate") == UNREADABLE).alias("unreadable"),
            F.collect_set("target").alias("targets"),
        )
        told = {row["group"]: row for row in facts.collect()}
        names = {name for row in told.values() for name in row["targets"]}
        oldest = {queue: row["oldest"] for queue, row in told.items()}
        letters, kept = self._letters(groups, names)
        letters, moves_known_from_ms = self._without_moved(letters)

        def story_from_here() -> DataFrame:
            begins = self._begins(ends)
            bounds = self._bounds(topics, log_ids, ends, begins, changelogs)
            messages = self._messages(topics, log_ids, ends, begins, bounds, changelogs)
            return _story(messages, _fates(events, bounds), letters)

        with session_setting(self.spark, *_SORTED_ONCE):
            story = read_now(story_from_here)
        # Asked behind the messages, for they are deleted meanwhile.
        there = self._there(topics, log_ids, self._positions([*ends], LogPlace.BEGIN))
        return AuditInputs(
            groups={group.group_id: group for group in groups},
            topic_ids={group.group_id: described[topic].topic_id for topic, group in topics.items()},
            story=story,
            known_from_ms={
                group.group_id: SINCE_EVER if begins == 0 else oldest.get(group.group_id, _NO_EVENTS_MS)
                for group in groups
            },
            unreadable={queue: row["unreadable"] for queue, row in told.items()},
            kept_from_ms=kept,
            moves_known_from_ms=moves_known_from_ms,
            gone=_gone(events, there),
        )

    def _positions(self, topics: Collection[str], at: LogPlace) -> Ends:
        described = self.admin.describe([*topics])
        return log_positions(self.admin, {topic: found.partitions for topic, found in described.items()}, at)

    def _records(self, ends: Ends, begins: Ends | None = None) -> DataFrame:
        return records_of_topics(
            self.spark, ends, begins, bootstrap=self.bootstrap, kafka=self.kafka, options=self.options
        )

    def _bounds(
        self, topics: Mapping[str, ChannelGroup], log_ids: Mapping[str, str], ends: Ends, begins: Ends,
        changelogs: "_Changelogs",
    ) -> DataFrame:  # fmt: skip
        """Return the range of offsets and the watermark of each partition, and of each that an archive knows."""
        rows = [
            (group.group_id, log_ids[topic], part, begins[topic][part], end - 1,
             changelogs.watermarks.get((log_ids[topic], part)))
            for topic, group in topics.items() for part, end in ends[topic].items()
        ]  # fmt: skip
        if self.archive is not None:
            rows = _widened(rows, {topic: group.group_id for topic, group in topics.items()}, self.archive)
        return known_rows(self.spark, rows, _BOUNDS)

    def _there(self, topics: Mapping[str, ChannelGroup], log_ids: Mapping[str, str], begins: Ends) -> DataFrame:
        """Return the stretches of each partition whose messages the log or the archive has; there are gaps where the
        log went on, or the topic ended, before it was archived."""
        found = {(topic, log_ids[topic], part): [(begin, _EVERY_OFFSET)]
                 for topic in topics for part, begin in begins[topic].items()}  # fmt: skip
        if self.archive is not None:
            for topic, topic_id, part, begin, end in archived_bounds(self.archive, [*topics]):
                found.setdefault((topic, topic_id, part), []).append((begin, end))
        rows = [
            (topics[topic].group_id, topic_id, part, begin, end - 1, None)
            for (topic, topic_id, part), stretches in found.items() for begin, end in joined(stretches)
        ]  # fmt: skip
        return known_rows(self.spark, rows, _BOUNDS)

    def _begins(self, ends: Ends) -> Ends:
        """Where the logs begin, or, of those parts that are audited, what was sent since then."""
        begins = self._positions([*ends], LogPlace.BEGIN)
        if not self.since_ms:
            return begins
        return {
            topic: {**begins[topic], **self.admin.positions_since(topic, [*parts], self.since_ms)}
            for topic, parts in ends.items()
        }

    def _messages(
        self, topics: Mapping[str, ChannelGroup], log_ids: Mapping[str, str], ends: Ends, begins: Ends,
        bounds: DataFrame, changelogs: "_Changelogs",
    ) -> DataFrame:  # fmt: skip
        """Return those that are audited, and whether they are settled."""
        # Beside an archive, whose end is known, what is archived and deleted from now on must not be passed over.
        is_from_there = self.since_ms or self.archive is not None
        rows = message_columns(self._records(ends, begins if is_from_there else None))
        for topic, group in topics.items():
            if group.subscription is not None:
                rows = rows.where(is_for(group.subscription))
            begun = group.begins(topic_id_of(log_ids[topic]))
            if begun:
                before = F.coalesce(*(F.when(F.col("kafka.partition") == part, begin) for part, begin in begun.items()))
                rows = rows.where((F.col("kafka.offset") >= before) | before.isNull())
        audited = rows.select(
            F.col("kafka.topic").alias("topic"),
            looked_up(F.col("kafka.topic"), log_ids).alias("topic_id"),
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
            # In this order: what is archived meanwhile is in both, and not in none.
            audited = beyond_archive(self.spark, audited, self.archive, [*topics])
            older = messages_in_archive(self.spark, self.archive, [*topics])
            audited = audited.unionByName(older).dropDuplicates(_PLACE)
        if self.since_ms:
            audited = audited.where(F.unix_millis("sent_at") >= self.since_ms)
        watermarks = F.broadcast(bounds.select("topic_id", "partition", "watermark"))
        known = audited.join(watermarks, ["topic_id", "partition"], "left")
        is_settled = F.coalesce(F.col("offset") < F.col("watermark"), F.lit(False))
        if changelogs.marks:
            marks = known_rows(
                self.spark,
                changelogs.marks,
                "topic_id string, partition int, first bigint, last bigint, is_set boolean",
            )
            each = marks.select("topic_id", "partition", F.expr("explode(sequence(first, last)) as offset"), "is_set")
            known = known.join(each, _PLACE, "left")
            is_settled = F.coalesce(F.col("is_set"), is_settled)
        return known.select(
            looked_up(F.col("topic"), {topic: group.group_id for topic, group in topics.items()}).alias("queue"),
            *_PLACE,
            "message_id",
            F.col("unit_of_order").alias("unit"),
            "key",
            F.unix_millis("sent_at").alias("sent_at_ms"),
            F.coalesce(F.unix_millis("expiration"), F.lit(0)).alias("expiration_ms"),
            F.coalesce(F.unix_millis("delivery_time"), F.lit(0)).alias("delivery_ms"),
            is_settled.alias("is_settled"),
        )

    def _changelogs(self, groups: Mapping[str, ChannelGroup], log_ids: Mapping[str, str]) -> "_Changelogs":
        """Return what they say of topics that are those of today.

        Their newest entries come to this process: a position and a few bitmaps of each partition. Of a record that a
        changelog keeps, its place is enough.
        """
        ends = self._positions({group.changelog_topic for group in groups.values()}, LogPlace.STABLE_END)
        entries = latest_entries(self._records(ends), [*groups]).where("kind in ('position', 'settled', 'parked')")
        value = F.when(F.col("kind") != "parked", F.col("value")).alias("value")
        found = _Changelogs()
        settled: dict[tuple[str, int, int], BitMap] = {}
        parked: list[tuple[str, int, int]] = []
        for row in entries.select("group", "partition", "kind", "index", value).collect():
            now_id, part, index = log_ids[groups[row["group"]].topic], row["partition"], row["index"]
            if row["kind"] == "parked" and index is not None:
                parked.append((now_id, part, index))
                continue
            match _entry(f"{row['group']}|{row['kind']}|{index}", row["value"]):
                case Position(topic_id=topic_id, watermark=watermark) if topic_id == now_id:
                    found.watermarks[now_id, part] = watermark
                case Settled(block=block, bitmap=bitmap) if bitmap is not None:
                    settled[now_id, part, block] = _bits(bitmap)
        for now_id, part, offset in parked:
            settled.get((now_id, part, offset // BLOCK_OFFSETS), BitMap()).discard(offset % BLOCK_OFFSETS)
        ours = found.watermarks.keys()
        found.marks += [(now_id, part, at, at, False) for now_id, part, at in parked if (now_id, part) in ours]
        found.marks += [
            (now_id, part, block * BLOCK_OFFSETS + first, block * BLOCK_OFFSETS + last, True)
            for (now_id, part, block), bits in settled.items() if (now_id, part) in ours
            for first, last in _runs(bits)
        ]  # fmt: skip
        return found

    def _events(self, queues: Sequence[str]) -> tuple[DataFrame, int]:
        """Return those of the groups, in the order of their checkpoints; and how many records were deleted before
        them."""
        topic = events_topic(self.namespace)
        found = self.admin.describe([topic]).get(topic)
        records, parts = no_records(self.spark), [*range(found.partitions if found is not None else 0)]
        if parts:
            records = self._records({topic: whole_ends(self.admin, topic, parts)})
        rows = event_columns(records.where(F.col("key").cast("string").isin(*queues)))
        older = None if self.archive is None else events_in_archive(self.spark, self.archive, rows.columns)
        if older is not None:
            both = rows.unionByName(older.where(F.col("group").isin(*queues)))
            places = both.withColumns({"_part": F.col("kafka.partition"), "_at": F.col("kafka.offset")})
            rows = places.dropDuplicates(["_part", "_at", "index"]).drop("_part", "_at")
        in_checkpoint = Window.partitionBy("group", "kafka.partition", "checkpoint_id")
        told = read_now(lambda: rows.withColumn("seq", F.min("kafka.offset").over(in_checkpoint)))
        # Asked behind the events, for the oldest are deleted meanwhile.
        begins = self.admin.begin_positions(topic, parts) if parts else {}
        return told, sum(begins.values())

    def _letters(
        self, groups: Sequence[ChannelGroup], names: Collection[str]
    ) -> tuple[DataFrame | None, Mapping[str, int]]:
        """Return what these addresses have of ours, None where none is there; and of those that are there, from when on
        they have everything."""
        addresses: dict[str, list[str]] = {}
        for name in sorted(names):
            addresses.setdefault(_topic_of(name, self.namespace), []).append(name)
        described = self.admin.describe([topic for topic in addresses if topic])
        if not described:
            return None, {}
        ends = {topic: whole_ends(self.admin, topic, [*range(found.partitions)]) for topic, found in described.items()}
        letters = letter_columns(message_columns(self._records(ends)))
        targets = looked_up(F.col("kafka.topic"), addresses, "array<string>")
        told = read_now(
            lambda: letters.select(
                F.explode(targets).alias("target"),
                "origin_destination",
                "origin_subscription",
                F.col("origin_topic_id").alias("topic_id"),
                F.col("origin_partition").alias("partition"),
                F.col("origin_offset").alias("offset"),
                F.concat_ws(":", "kafka.partition", "kafka.offset").alias("place"),
                F.col("kafka.partition").alias("letter_partition"),
                F.unix_millis("kafka.timestamp").alias("at_ms"),
            )
        )
        oldest: dict[str, dict[int, int]] = {}
        for row in told.groupBy("target", "letter_partition").agg(F.min("at_ms").alias("at_ms")).collect():
            oldest.setdefault(row["target"], {})[row["letter_partition"]] = row["at_ms"]
        # Asked behind the letters, for they are deleted meanwhile.
        begins = self._positions([*described], LogPlace.BEGIN)
        kept = {
            name: kept_from_ms(oldest.get(name, {}), begins[topic]) for topic in described for name in addresses[topic]
        }
        ours = looked_up(F.col("origin_destination"), {str(each.destination): each.group_id for each in groups})
        letters = told.withColumn("queue", ours).where("queue is not null")
        for group in groups:
            if group.subscription is not None:
                theirs = (group.subscription.full_name, group.subscription.former_name)
                letters = letters.where(F.col("origin_subscription").isin(*theirs))
        return letters.drop("origin_destination", "origin_subscription", "letter_partition"), kept

    def _without_moved(self, letters: DataFrame | None) -> tuple[DataFrame | None, int]:
        """With `has_left`: an operator moved it away, and where it was moved back there is another copy. And since when
        events tell that.

        Read after the letters: a letter that is there again has its event by then.
        """
        if letters is None:
            return None, SINCE_EVER
        none_left, topic = letters.withColumn("has_left", F.lit(False)), events_topic(self.namespace)
        same = ["target", *_PLACE]
        several = [row["target"] for row in letters.groupBy(*same).count().where("count > 1").collect()]
        found = self.admin.describe([topic]).get(topic) if several else None
        if found is None:
            return none_left, SINCE_EVER
        parts = list(range(found.partitions))
        records = self._records({topic: whole_ends(self.admin, topic, parts)})
        queues = {name: queue for name in set(several) if isinstance(queue := _destination(name), Queue)}
        ids = self.admin.describe([queue.kafka_topic(self.namespace) for queue in queues.values()])
        known = [(name, queue.group_id(self.namespace), ids[each].topic_id) for name, queue in queues.items()
                 if (each := queue.kafka_topic(self.namespace)) in ids]  # fmt: skip
        groups = [each[1] for each in known]
        oldest = _oldest(records.withColumn("at_ms", F.unix_millis("timestamp")), "partition")
        theirs = sorted({partition_for(each.encode(), SYSTEM_PARTITIONS) for each in groups})
        known_from_ms = kept_from_ms(oldest, self.admin.begin_positions(topic, theirs))
        of = known_rows(self.spark, known, "letters_of string, of_group string, its_topic_id string")
        moves = event_columns(records.where(F.col("key").cast("string").isin(*groups))).where("fate = 'moved'")
        moves = moves.join(F.broadcast(of), F.col("group") == F.col("of_group"))
        moves = moves.where("coalesce(topic_id, its_topic_id) = its_topic_id")
        place = F.concat_ws(":", "partition", "offset").alias("place")
        places = moves.select(F.col("letters_of").alias("target"), place, F.lit(True).alias("has_left")).distinct()
        left = letters.join(places, ["target", "place"], "left")
        return left.withColumn("has_left", F.coalesce("has_left", F.lit(False))), known_from_ms


@dataclass(slots=True)
class _Changelogs:
    """The settled messages as changelogs tell them."""

    watermarks: dict[tuple[str, int], int] = field(default_factory=dict)
    """The watermark by topic id and partition: below it all is settled, but for what `marks` except."""
    marks: list[tuple[str, int, int, int, bool]] = field(default_factory=list)
    """Topic id, partition, first and last offset: they are settled, or not, whatever the watermark."""


def _entry(key: str, value: bytes | None) -> Entry | None:
    try:
        return decode_entry(key.encode(), None if value is None else bytes(value))[1]
    except CorruptRecordError:  # a newer version's, too: it counts as none, as in a recovery
        return None


def _bits(bitmap: bytes) -> BitMap:
    try:
        return BitMap.deserialize(bitmap)
    except (ValueError, IndexError):  # a damaged entry counts as none, as in a recovery
        return BitMap()


def _runs(bits: BitMap) -> Iterator[tuple[int, int]]:
    """First and last of those that follow each other."""
    first = last = -2
    for each in bits:
        if each != last + 1:
            if last >= 0:
                yield first, last
            first = each
        last = each
    if last >= 0:
        yield first, last


def _widened(
    rows: list[tuple[str, str, int, int, int, int | None]], queues: Mapping[str, str], archive: str
) -> list[tuple[str, str, int, int, int, int | None]]:
    """With what the archive has of these topics' partitions, and of those that had their names."""
    found = {(topic_id, part): (queue, lo, hi, watermark) for queue, topic_id, part, lo, hi, watermark in rows}
    for topic, topic_id, part, begin, end in archived_bounds(archive, [*queues]):
        queue, lo, hi, watermark = found.get((topic_id, part), (queues[topic], begin, end - 1, None))
        found[topic_id, part] = (queue, min(lo, begin), max(hi, end - 1), watermark)
    return [(queue, topic_id, part, lo, hi, mark) for (topic_id, part), (queue, lo, hi, mark) in found.items()]


def _fates(events: DataFrame, bounds: DataFrame) -> DataFrame:
    """Return the fates at each place of the bounds, in order."""
    known = events.where(F.col("fate") != UNREADABLE)
    told, same = F.col("events.topic_id"), _is_of()
    first, last = F.greatest("events.offset", "lo"), F.least("events.last_offset", "hi")
    within = known.alias("events").join(F.broadcast(bounds).alias("bounds"), same).where(first <= last)
    fate = F.struct(
        "seq", "fate", "at_ms", "attempts", "target", "reason", "due_at_ms",
        F.col("max_delivery_attempts").alias("attempts_max"), "attempt", F.col("acknowledge_mode").alias("mode"),
        told.isNotNull().alias("is_known"),
    )  # fmt: skip
    each = within.select(
        "bounds.topic_id", "events.partition", F.explode(F.sequence(first, last)).alias("offset"), fate.alias("each")
    )
    return each.repartition(*_PLACE).groupBy(*_PLACE).agg(F.sort_array(F.collect_list("each")).alias("fates"))


def _is_of() -> Column:
    """Of `events` and `bounds`: it is about a message of that partition."""
    told = F.col("events.topic_id")
    return (
        (F.col("events.group") == F.col("bounds.queue"))
        & (F.col("events.partition") == F.col("bounds.partition"))
        & (told.isNull() | (told == F.col("bounds.topic_id")))
    )


def joined(stretches: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Begins and ends, those in one that touch each other."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(stretches):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def _gone(events: DataFrame, there: DataFrame) -> DataFrame:
    """Return when the latest event was of each queue that is about messages beside these stretches."""
    known = events.where(F.col("fate") != UNREADABLE).alias("events")
    last = F.coalesce("events.last_offset", "events.offset")
    is_there = _is_of() & (F.col("events.offset") >= F.col("bounds.lo")) & (last <= F.col("bounds.hi"))
    gone = known.join(F.broadcast(there).alias("bounds"), is_there, "left_anti")
    return gone.groupBy(F.col("group").alias("queue")).agg(F.max("at_ms").alias("until_ms"))


def _story(messages: DataFrame, fates: DataFrame, letters: DataFrame | None) -> DataFrame:
    """Each message with what became of it and what addresses have of it."""
    story = messages.join(fates, _PLACE, "left")
    if letters is not None:
        each = F.struct("target", "topic_id", "place", "at_ms", "has_left")
        place = ["queue", "partition", "offset"]  # older letters do not tell the topic's id
        story = story.join(letters.groupBy(*place).agg(F.collect_list(each).alias("letters")), place, "left")
    else:
        story = story.withColumn("letters", F.lit(None))
    none = {name: F.expr(f"coalesce({name}, cast(array() as array<{kind}>))")
            for name, kind in (("fates", FATE), ("letters", LETTER))}  # fmt: skip
    return story.withColumns(none)


def kept_from_ms(oldest: Mapping[int, int], begins: Mapping[int, int]) -> int:
    """Since when all that a log got is there, whichever of its partitions it went to. `oldest`: when the first record
    was written that each partition has."""
    cut = [partition for partition, begin in begins.items() if begin > 0]
    return max((oldest.get(partition, _NO_EVENTS_MS) for partition in cut), default=SINCE_EVER)


def _oldest(records: DataFrame, partition: str) -> Mapping[int, int]:
    return {row[0]: row[1] for row in records.groupBy(partition).agg(F.min("at_ms")).collect()}


def _topic_of(target: str, namespace: str) -> str:
    """Empty where that is the name of nothing."""
    destination = _destination(target)
    return "" if destination is None else destination.kafka_topic(namespace)


def _destination(target: str) -> Destination | None:
    try:
        return parse_destination(target)
    except JMSError:
        return None
