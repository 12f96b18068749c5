"""Each message with what became of it and what addresses have of it: the story that an audit judges.

Where the messages come as Kafka's logs have them, what is known of them is sorted alone and put beside them as they go
by. Those of an archive are in files in any order, so there Spark sorts both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from jbm_spark.events import UNREADABLE
from jbm_spark.jobs.audit.audit_checks import FATE, LETTER
from jbm_spark.jobs.audit.partition_walk import Place, with_known
from jbm_spark.known_values import known_rows, looked_up

PLACE = ["offset", "partition", "topic_id"]
"""In this order: Spark sorts by the first of them as by a number, and compares rows only where it is the same."""
SORTED_ONCE = "spark.sql.execution.useObjectHashAggregateExec", "false"
"""Lists are collected from sorted rows, which are then joined as they are: Spark would sort them three times, for its
hash tables hold 128 lists."""
BOUND = "topic string, queue string, topic_id string, partition int, first bigint, last bigint"
_MARK = "topic_id string, partition int, first bigint, last bigint, is_set boolean"


class Bound(NamedTuple):
    """A partition, and the offsets in it that are audited; the last one, too."""

    topic: str
    queue: str
    topic_id: str
    partition: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of messages beside them."""

    events: DataFrame
    """In the order of their checkpoints: `seq`."""
    letters: DataFrame | None
    watermarks: Mapping[tuple[str, int], int]
    """By topic id and partition: below it all is settled, but for what `marks` except."""
    marks: Sequence[tuple[str, int, int, int, bool]]
    """Topic id, partition, first and last offset: they are settled, or not, whatever the watermark."""


def story_in_order(messages: DataFrame, places: Sequence[Place], known: Known, bounds: Sequence[Bound]) -> DataFrame:
    """Return the story by partitions, as the logs have them.

    Args:
        messages: topic and offset are their first columns.
        places: the partition of each of the frame's, in which its messages are in order.
    """
    spark = messages.sparkSession
    tasks: dict[tuple[str, int], int] = {place: number for number, place in enumerate(places)}
    task_of = {(each.topic_id, each.partition): tasks[each.topic, each.partition]
               for each in bounds if (each.topic, each.partition) in tasks}  # fmt: skip
    read = [(*each, task_of[each.topic_id, each.partition]) for each in bounds
            if (each.topic_id, each.partition) in task_of]  # fmt: skip
    frame = known_rows(spark, read, f"{BOUND}, task int")
    marks = [(topic_id, part, 0, watermark - 1, True) for (topic_id, part), watermark in known.watermarks.items()]
    # A mark of no message: where nothing is known Spark would plan anew while it runs, with no tasks beside ours.
    of_tasks: list[tuple[object, ...]] = [(0, 0, -1, True)]
    of_tasks += [(task_of[topic_id, part], *more) for topic_id, part, *more in (*marks, *known.marks)
                 if (topic_id, part) in task_of]  # fmt: skip
    beside = [
        known_rows(spark, of_tasks, "task int, first bigint, last bigint, mark boolean"),
        _within(known.events, frame).select("task", "first", "last", F.col("each").alias("fate")),
    ]
    if known.letters is not None:
        # What no program of ours wrote may tell a partition and no offset.
        letters = known.letters.where("offset is not null")
        letters = letters.join(F.broadcast(frame.select("queue", "partition", "task")), ["queue", "partition"])
        offset = F.col("offset")
        beside.append(letters.select("task", offset.alias("first"), offset.alias("last"), _letter().alias("letter")))
    nothing = {"fate": FATE, "letter": LETTER, "mark": "boolean"}
    [first, *more] = [
        each.withColumns({name: F.lit(None).cast(kind) for name, kind in nothing.items() if name not in each.columns})
        for each in beside
    ]
    for each in more:
        first = first.unionByName(each)
    by_task = first.repartitionById(len(places), "task").sortWithinPartitions("first")
    topics = {each.topic: (each.queue, each.topic_id) for each in bounds}
    return with_known(messages, by_task.select("first", "last", "fate", "letter", "mark"), topics)


def sorted_story(messages: DataFrame, known: Known, bounds: Sequence[Bound]) -> DataFrame:
    """Return the story of messages that come in any order. `messages` have the ids of their topics, too."""
    spark = messages.sparkSession
    below = [(*of, watermark) for of, watermark in known.watermarks.items()]
    watermarks = known_rows(spark, below, "topic_id string, partition int, watermark bigint")
    rows = messages.join(F.broadcast(watermarks), ["topic_id", "partition"], "left")
    is_settled = F.coalesce(F.col("offset") < F.col("watermark"), F.lit(False))
    if known.marks:
        each = known_rows(spark, known.marks, _MARK).select(
            "topic_id", "partition", F.expr("explode(sequence(first, last)) as offset"), "is_set"
        )
        rows = rows.join(each, PLACE, "left")
        is_settled = F.coalesce(F.col("is_set"), is_settled)
    queues = {each.topic: each.queue for each in bounds}
    rows = rows.withColumns({"queue": looked_up(F.col("topic"), queues), "is_settled": is_settled})
    within = _within(known.events, known_rows(spark, bounds, BOUND)).select(
        "topic_id", "partition", F.explode(F.sequence("first", "last")).alias("offset"), "each"
    )
    fates = within.repartition(*PLACE).groupBy(*PLACE).agg(F.sort_array(F.collect_list("each")).alias("fates"))
    rows = rows.drop("topic", "watermark", "is_set").join(fates, PLACE, "left")
    if known.letters is None:
        rows = rows.withColumn("letters", F.lit(None))
    else:
        place = ["queue", "partition", "offset"]
        letters = known.letters.groupBy(*place).agg(F.collect_list(_letter()).alias("letters"))
        rows = rows.join(letters, place, "left")
    none = {name: F.expr(f"coalesce({name}, cast(array() as array<{kind}>))")
            for name, kind in (("fates", FATE), ("letters", LETTER))}  # fmt: skip
    return rows.withColumns(none)


def is_of_bound() -> Column:
    """Of `events` and `bounds`: it is about a message of that partition."""
    told = F.col("events.topic_id")
    return (
        (F.col("events.group") == F.col("bounds.queue"))
        & (F.col("events.partition") == F.col("bounds.partition"))
        & (told.isNull() | (told == F.col("bounds.topic_id")))
    )


def _within(events: DataFrame, bounds: DataFrame) -> DataFrame:
    """Return the bounds with each fate that is about messages in them: `each`, and their first and last offset."""
    known = events.where(F.col("fate") != UNREADABLE).alias("events")
    first, last = F.greatest("events.offset", "bounds.first"), F.least("events.last_offset", "bounds.last")
    within = known.join(F.broadcast(bounds).alias("bounds"), is_of_bound()).where(first <= last)
    fate = F.struct(
        "seq", "fate", "at_ms", "attempts", "target", "reason", "due_at_ms",
        F.col("max_delivery_attempts").alias("attempts_max"), "attempt", F.col("acknowledge_mode").alias("mode"),
        F.col("events.topic_id").isNotNull().alias("is_known"),
    )  # fmt: skip
    rest = [F.col(f"bounds.{name}") for name in bounds.columns if name not in ("first", "last")]
    return within.select(*rest, first.alias("first"), last.alias("last"), fate.cast(FATE).alias("each"))


def _letter() -> Column:
    return F.struct("target", "topic_id", "place", "at_ms", "has_left").cast(LETTER)
