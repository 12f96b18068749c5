"""What a pass over each partition in the order of its log tells is what Spark tells that sorts all messages."""

import random
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_spark.committed import no_records, records_of_topics
from jbm_spark.jobs.audit.audit_checks import IN_UNIT, LETTER, NEVER, ORDER
from jbm_spark.jobs.audit.audit_story import Bound, Known, sorted_story, story_in_order
from jbm_spark.jobs.audit.partition_walk import Place, in_order, places_of, with_unit_order
from tests.spark.any_record import any_record
from tests.spark.conftest import Topics
from tests.spark.records import Record

pytestmark = pytest.mark.thorough
TOPICS, PARTITIONS, OFFSETS = ("a", "b"), 3, 400
BOUNDS = [Bound(topic, f"g-{topic}", f"id-{topic}", part, 5 * part, OFFSETS - 7)
          for topic in TOPICS for part in range(PARTITIONS)]  # fmt: skip
PLACES = [Place(each.topic, each.partition) for each in reversed(BOUNDS)]
MESSAGES = "topic string, offset bigint, partition int, message_id string"
EVENTS = (
    "group string, topic_id string, partition int, offset bigint, last_offset bigint, fate string, at_ms bigint, "
    "attempts int, target string, reason string, due_at_ms bigint, max_delivery_attempts int, attempt int, "
    "acknowledge_mode string, seq bigint"
)
LETTERS = f"queue string, partition int, offset bigint, letter {LETTER}"


def test_records_in_order_are_those_of_sparks_source(spark: SparkSession, bootstrap: str, topics: Topics) -> None:
    """AUDIT-1: each cell of records as any producer may write them, from any offset on."""
    chance, names = random.Random(3), [topics.create() for _ in range(2)]
    for name in names:
        topics.write(name, [any_record(chance) for _ in range(300)] + [Record(timestamp_ms=1)])
    begins = {names[0]: {0: 7}, names[1]: {0: 0}}
    source = records_of_topics(spark, {name: {0: 301} for name in names}, begins, bootstrap=bootstrap)
    found = in_order(source)
    assert sorted(places_of(found) or []) == sorted(Place(name, 0) for name in names)
    assert places_of(source) is None
    assert found.schema == source.schema
    assert sorted(map(str, found.collect())) == sorted(map(str, source.collect()))
    assert found.count() == 301 + 294
    assert places_of(in_order(no_records(spark))) is None


def in_order_of_logs(frame: DataFrame) -> DataFrame:
    """As tasks read them: one partition each."""
    number = F.expr(" ".join(["case", *(f"when topic = '{topic}' and partition = {part} then {number}"
                                        for number, (topic, part) in enumerate(PLACES)), "end"]))  # fmt: skip
    return frame.repartitionById(len(PLACES), number).sortWithinPartitions("offset")


def some_events(chance: random.Random) -> Iterator[tuple[object, ...]]:
    """Of all kinds, some beyond the bounds, of other topics of the same name, of older versions, and several alike."""
    for seq in range(1_500):
        topic, first = chance.choice(TOPICS), chance.randrange(OFFSETS)
        fate = chance.choice(["acknowledged", "delivered", "returned", "skipped", "unreadable"])
        last = first + chance.choice([0, 0, 1, 30, OFFSETS]) if fate != "returned" else first
        of = chance.choice([f"id-{topic}"] * 8 + ["id-of-before", None])
        yield (
            f"g-{topic}", of, chance.randrange(PARTITIONS), first, last, fate, chance.choice([None, 7, 8]), 1,
            chance.choice([None, "queue:a", "queue:ä"]), "why", None, None, chance.choice([1, 2]), "AUTO", seq // 4,
        )  # fmt: skip


def test_what_is_known_of_a_message_is_put_beside_it(spark: SparkSession) -> None:
    """AUDIT-1: fates in their order, letters, and what changelogs settle or except, of two queues. A letter that tells
    no offset was that of offset 0."""
    chance = random.Random(5)
    messages = spark.createDataFrame(
        [(each.topic, offset, each.partition, f"ID:{offset}") for each in BOUNDS
         for offset in range(each.first, each.last + 1) if chance.random() < 0.9],
        MESSAGES,
    )  # fmt: skip
    letters: list[tuple[object, ...]] = [
        (f"g-{chance.choice(TOPICS)}", chance.randrange(PARTITIONS), chance.randrange(OFFSETS),
         ("queue:DLQ", chance.choice([None, "id-a"]), f"0:{number}", 5, number % 3 == 0))
        for number in range(200)
    ]  # fmt: skip
    letters.append(("g-a", 0, None, ("queue:DLQ", "id-a", "0:200", 5, False)))
    known = Known(
        events=spark.createDataFrame([*some_events(chance)], EVENTS),
        letters=spark.createDataFrame(letters, LETTERS).select("queue", "partition", "offset", "letter.*"),
        watermarks={("id-a", 0): 100, ("id-b", 1): 0, ("id-b", 2): 50, ("id-of-before", 0): 10},
        marks=[("id-a", 0, 120, 140, True), ("id-a", 0, 60, 60, False), ("id-a", 0, 61, 61, False),
               ("id-b", 1, 0, 3, True), ("id-b", 2, 200, 200, False)],
    )  # fmt: skip
    for each in (known, Known(events=known.events, letters=None, watermarks={}, marks=[])):
        sorted_once = sorted_story(messages.withColumn("topic_id", F.concat(F.lit("id-"), "topic")), each, BOUNDS)
        columns = [name for name in sorted_once.columns if name != "letters"]
        columns.append("sort_array(letters) as letters")
        in_order = story_in_order(in_order_of_logs(messages), PLACES, each, BOUNDS)
        expected, found = (frame.selectExpr(*columns).localCheckpoint() for frame in (sorted_once, in_order))
        assert found.exceptAll(expected).collect() == expected.exceptAll(found).collect() == []
        assert found.count() == messages.count()


@pytest.mark.parametrize("units_max", [1_000, 12])
def test_what_came_before_in_a_unit_is_told_in_the_order_of_the_log(spark: SparkSession, units_max: int) -> None:
    """AUDIT-1: a task that cannot hold all units says so, and tells nothing wrong until then."""
    chance = random.Random(9)
    keys = [None, b"", *(b"%d" % number for number in range(17)), b"\xff"]
    rows = [
        (offset, chance.choice(keys), chance.choice([None, NEVER, offset, offset + 20, 3]),
         chance.choice([None, 1, 2, offset]), chance.random() < 0.1, topic, f"id-{topic}", part)
        for topic, part in PLACES for offset in range(OFFSETS)
    ]  # fmt: skip
    schema = (
        "offset bigint, key binary, held_until_seq bigint, first_given_ms bigint, is_unordered boolean, "
        "topic string, topic_id string, partition int"
    )
    in_unit = [F.expr(sql).alias(name) for name, sql in IN_UNIT.items()]
    stories = spark.createDataFrame(rows, schema).select("offset", "key", *in_unit, "topic", "topic_id", "partition")
    stories = in_order_of_logs(stories)
    columns = ["topic", "partition", "offset", *ORDER]
    expected = stories.withColumns({name: F.expr(sql) for name, sql in ORDER.items()}).select(*columns)
    walked = with_unit_order(stories, [*IN_UNIT], units_max).localCheckpoint()
    found = walked.where("is_told").select(*columns)
    assert found.exceptAll(expected).collect() == []
    assert (found.count() == len(rows)) is (units_max > len(keys))
    assert found.where("before_held is not null and before_given is not null").count() > 20
