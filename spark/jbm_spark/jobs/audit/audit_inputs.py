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
from typing import TypeVar

from py4j.protocol import Py4JError
from pyroaring import BitMap
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, Window
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
from jbm_spark.jobs.audit.audit_story import (
    BOUND,
    PLACE,
    SORTED_ONCE,
    Bound,
    Known,
    is_of_bound,
    sorted_story,
    story_in_order,
)
from jbm_spark.jobs.audit.partition_walk import in_order, places_of
from jbm_spark.known_values import known_rows, looked_up
from jbm_spark.letters import letter_columns
from jbm_spark.log_positions import log_positions, whole_ends
from jbm_spark.session_setting import Size, planned_for, session_setting
from jbm_spark.subscription_rows import is_for
from jbm_spark.topic_check import TIMEOUT_S

SINCE_EVER = -(2**63)
_NO_EVENTS_MS = 2**63 - 1
_EVERY_OFFSET = 2**63 - 1
_READS_MAX = 5
"""So often is read what is deleted meanwhile. The next read begins where the log begins by then."""
_OF_EVENTS = ("group", "topic_id", "partition", "offset", "last_offset", "fate", "at_ms", "attempts", "target",
              "reason", "due_at_ms", "max_delivery_attempts", "attempt", "acknowledge_mode")  # fmt: skip
_Read = TypeVar("_Read")
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
    gone: DataFrame | None
    """`queue`, and `until_ms`: the latest event about messages of it that are not there any more. None where messages
    are read later."""
    is_in_order: bool = False
    """The story comes by partitions, in the order of their logs."""
    size: Size | None = None
    """That of the story, if it is known."""


def read_now(frame: DataFrame) -> DataFrame:
    """Its rows as they are now, kept until nobody has the frame any more.

    Not `persist`, which keeps the plan too: Spark would analyse the plans of all inputs again for each query over them.
    """
    return frame.localCheckpoint()


def read_again(read: Callable[[], _Read]) -> _Read:
    """Return what it does; it is called once more where what it was about to read is deleted meanwhile: workers do that
    three times a minute, and Kafka's retention does."""
    for _ in range(_READS_MAX - 1):
        try:
            return read()
        except (PySparkException, Py4JError) as error:
            if not is_gone(error):
                raise
    return read()


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

    def read(self, groups: Sequence[ChannelGroup], *, is_read_once: bool = False) -> AuditInputs:
        """Everything about these queues, or about one subscription, as of now.

        Args:
            is_read_once: the story is asked for once, now, and the messages may be read then. Who asks reads again
                what is deleted meanwhile, and all with it.

        Raises:
            SparkJobError: an open transaction keeps the events from being read; a topic is gone.
            KafkaClientError: the brokers do not answer.
        """
        if is_read_once:
            return self._read(groups, is_read_once=True)
        return read_again(lambda: self._read(groups, is_read_once=False))

    def _read(self, groups: Sequence[ChannelGroup], *, is_read_once: bool) -> AuditInputs:
        topics = {group.topic: group for group in groups}
        described = self.admin.describe([*topics])
        gone = next((topic for topic in topics if topic not in described), None)
        if gone is not None:
            raise SparkJobError(f"topic {gone} is not there any more")
        log_ids = {topic: group.log_id(described[topic].topic_id) for topic, group in topics.items()}
        ends = self._positions([*topics], LogPlace.STABLE_END)
        changelogs = self._changelogs({group.group_id: group for group in groups}, log_ids)
        events, begins, told = self._events([group.group_id for group in groups])
        names = {name for row in told.values() for name in row["targets"]}
        oldest = {queue: row["oldest"] for queue, row in told.items()}
        letters, kept = self._letters(groups, names)
        letters, moves_known_from_ms = self._without_moved(letters)
        known = Known(events=events, letters=letters, watermarks=changelogs.watermarks, marks=changelogs.marks)
        log_begins = self._begins(ends)
        bounds = self._bounds(topics, log_ids, ends, log_begins)
        size = Size(sum(each.last - each.first + 1 for each in bounds), len(bounds))
        with planned_for(self.spark, size):
            messages = self._messages(topics, log_ids, ends, log_begins)
            places = places_of(messages) if self.archive is None else None
            if places is not None:
                story = story_in_order(messages, places, known, bounds)
                story = story if is_read_once else read_now(story)
            else:
                with session_setting(self.spark, *SORTED_ONCE):
                    story = read_now(sorted_story(self._with_archived(messages, topics, log_ids), known, bounds))
        without_message = None
        if not is_read_once:
            # Asked behind the messages, for they are deleted meanwhile.
            without_message = _gone(events, self._there(topics, log_ids, self._positions([*ends], LogPlace.BEGIN)))
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
            gone=without_message,
            is_in_order=places is not None,
            size=size,
        )

    def _positions(self, topics: Collection[str], at: LogPlace) -> Ends:
        described = self.admin.describe([*topics])
        return log_positions(self.admin, {topic: found.partitions for topic, found in described.items()}, at)

    def _records(self, ends: Ends, begins: Ends | None = None) -> DataFrame:
        return records_of_topics(
            self.spark, ends, begins, bootstrap=self.bootstrap, kafka=self.kafka, options=self.options
        )

    def _bounds(
        self, topics: Mapping[str, ChannelGroup], log_ids: Mapping[str, str], ends: Ends, begins: Ends
    ) -> list[Bound]:
        """Return the range of offsets of each partition, and of each that an archive knows."""
        found = {
            (log_ids[topic], part): Bound(topic, group.group_id, log_ids[topic], part, begins[topic][part], end - 1)
            for topic, group in topics.items() for part, end in ends[topic].items()
        }  # fmt: skip
        if self.archive is not None:
            for topic, topic_id, part, begin, end in archived_bounds(self.archive, [*topics]):
                new = Bound(topic, topics[topic].group_id, topic_id, part, begin, end - 1)
                of = found.setdefault((topic_id, part), new)
                found[topic_id, part] = of._replace(first=min(of.first, begin), last=max(of.last, end - 1))
        return [*found.values()]

    def _there(self, topics: Mapping[str, ChannelGroup], log_ids: Mapping[str, str], begins: Ends) -> DataFrame:
        """Return the stretches of each partition whose messages the log or the archive has; there are gaps where the
        log went on, or the topic ended, before it was archived."""
        found = {(topic, log_ids[topic], part): [(begin, _EVERY_OFFSET)]
                 for topic in topics for part, begin in begins[topic].items()}  # fmt: skip
        if self.archive is not None:
            for topic, topic_id, part, begin, end in archived_bounds(self.archive, [*topics]):
                found.setdefault((topic, topic_id, part), []).append((begin, end))
        rows = [
            Bound(topic, topics[topic].group_id, topic_id, part, begin, end - 1)
            for (topic, topic_id, part), stretches in found.items() for begin, end in joined(stretches)
        ]  # fmt: skip
        return known_rows(self.spark, rows, BOUND)

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
        self, topics: Mapping[str, ChannelGroup], log_ids: Mapping[str, str], ends: Ends, begins: Ends
    ) -> DataFrame:
        """Return those that are audited, of what Kafka has."""
        # Beside an archive, whose end is known, what is archived and deleted from now on must not be passed over.
        is_from_there = self.since_ms or self.archive is not None
        rows = message_columns(in_order(self._records(ends, begins if is_from_there else None)))
        for topic, group in topics.items():
            if group.subscription is not None:
                rows = rows.where(is_for(group.subscription))
            begun = group.begins(topic_id_of(log_ids[topic]))
            if begun:
                before = F.coalesce(*(F.when(F.col("kafka.partition") == part, begin) for part, begin in begun.items()))
                rows = rows.where((F.col("kafka.offset") >= before) | before.isNull())
        return self._since(
            rows.select(
                F.col("kafka.topic").alias("topic"),
                "kafka.offset",
                "kafka.partition",
                "message_id",
                "kafka.key",
                F.unix_millis("kafka.timestamp").alias("sent_at_ms"),
                F.coalesce(F.unix_millis("expiration"), F.lit(0)).alias("expiration_ms"),
                F.coalesce(F.unix_millis("delivery_time"), F.lit(0)).alias("delivery_ms"),
            )
        )

    def _since(self, messages: DataFrame) -> DataFrame:
        return messages.where(F.col("sent_at_ms") >= self.since_ms) if self.since_ms else messages

    def _with_archived(
        self, messages: DataFrame, topics: Mapping[str, ChannelGroup], log_ids: Mapping[str, str]
    ) -> DataFrame:
        """Return them with the ids of their topics, and with those that the archive has."""
        audited = messages.withColumn("topic_id", looked_up(F.col("topic"), log_ids))
        if self.archive is None:
            return audited
        # In this order: what is archived meanwhile is in both, and not in none.
        audited = beyond_archive(self.spark, audited, self.archive, [*topics])
        older = self._since(messages_in_archive(self.spark, self.archive, [*topics]))
        return audited.unionByName(older).dropDuplicates(PLACE)

    def _changelogs(self, groups: Mapping[str, ChannelGroup], log_ids: Mapping[str, str]) -> "_Changelogs":
        """Return what they say of topics that are those of today.

        Their newest entries come to this process: a position and a few bitmaps of each partition. Of a record that a
        changelog keeps, its place is enough.
        """
        ends = self._positions({group.changelog_topic for group in groups.values()}, LogPlace.STABLE_END)
        with planned_for(self.spark, _size(ends)):
            entries = latest_entries(self._records(ends), [*groups]).where("kind in ('position', 'settled', 'parked')")
            value = F.when(F.col("kind") != "parked", F.col("value")).alias("value")
            rows = entries.select("group", "partition", "kind", "index", value).collect()
        found = _Changelogs()
        settled: dict[tuple[str, int, int], BitMap] = {}
        parked: list[tuple[str, int, int]] = []
        for row in rows:
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

    def _events(self, queues: Sequence[str]) -> tuple[DataFrame, int, Mapping[str, Row]]:
        """Return those of the groups, in the order of their checkpoints; how many records were deleted before them; and
        by group `oldest`, `unreadable` and `targets`."""
        topic = events_topic(self.namespace)
        found = self.admin.describe([topic]).get(topic)
        records, parts = no_records(self.spark), [*range(found.partitions if found is not None else 0)]
        ends = {topic: whole_ends(self.admin, topic, parts)} if parts else {}
        with planned_for(self.spark, _size(ends) if self.archive is None else None):
            if parts:
                records = self._records(ends)
            rows = event_columns(records.where(F.col("key").cast("string").isin(*queues)))
            older = None if self.archive is None else events_in_archive(self.spark, self.archive, rows.columns)
            if older is not None:
                both = rows.unionByName(older.where(F.col("group").isin(*queues)))
                places = both.withColumns({"_part": F.col("kafka.partition"), "_at": F.col("kafka.offset")})
                rows = places.dropDuplicates(["_part", "_at", "index"]).drop("_part", "_at")
            in_checkpoint = Window.partitionBy("group", "kafka.partition", "checkpoint_id")
            told = read_now(rows.select(*_OF_EVENTS, F.min("kafka.offset").over(in_checkpoint).alias("seq")))
            # Asked behind the events, for the oldest are deleted meanwhile.
            begins = self.admin.begin_positions(topic, parts) if parts else {}
            facts = told.groupBy("group").agg(
                F.min("at_ms").alias("oldest"),
                F.count_if(F.col("fate") == UNREADABLE).alias("unreadable"),
                F.collect_set("target").alias("targets"),
            )
            return told, sum(begins.values()), {row["group"]: row for row in facts.collect()}

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
            letters.select(
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
        same = ["target", *PLACE]
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


def _size(ends: Ends) -> Size:
    """Of what is before these positions, or more, for the oldest are deleted."""
    return Size(sum(sum(parts.values()) for parts in ends.values()), sum(len(parts) for parts in ends.values()))


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
    is_there = is_of_bound() & (F.col("events.offset") >= F.col("bounds.first")) & (last <= F.col("bounds.last"))
    gone = known.join(F.broadcast(there).alias("bounds"), is_there, "left_anti")
    return gone.groupBy(F.col("group").alias("queue")).agg(F.max("at_ms").alias("until_ms"))


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
