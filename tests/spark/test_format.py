"""Spark's format "jbm": the same rows as `messages`, the same records as `write_messages`, and streams, once."""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Message, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from jbm_spark import register
from jbm_spark.causes import cause_line
from jbm_spark.errors import QueryError
from jbm_spark.messages import messages, wait_until_done, write_messages
from tests.spark.any_record import any_record
from tests.spark.conftest import Topics
from tests.spark.crashed_checkpoint import forget_that_the_last_batch_was_done
from tests.spark.records import Record, headers
from tests.support.topics import admin_client

END_S = 300


@pytest.fixture
def options(topics: Topics) -> Callable[[str], dict[str, str]]:
    return lambda destination: {"destination": destination, "bootstrap": topics.bootstrap}


def as_it_stands(record: Message) -> str:
    return repr((record.partition(), record.key(), record.value(), record.headers()))


def numbered(begin: int, end: int) -> list[Record]:
    return [Record(key=b"u%d" % (number % 5), value=b"%d" % number) for number in range(begin, end)]


def test_rows_and_records_are_those_of_the_functions(
    spark: SparkSession, topics: Topics, options: Callable[[str], dict[str, str]]
) -> None:
    """MSG-2, SPARK-1, SPARK-2: any record is read alike, and written on alike; not one of an aborted transaction.

    A duplicate id that is no UTF-8 ended every reader, and an object that only the application can read became bytes.
    """
    chance = random.Random(2)
    source, by_format, by_function = topics.create(2), topics.create(3), topics.create(3)
    bad_id = Record(headers=(("JBMDuplicateID", b"\xf5\x80"),))
    no_map = Record(headers=(("JBMBody", b"map"),))
    of_a_codec = Record(headers=(("JBMBody", b"object"), ("JBMCodec", b"the application's")))
    topics.write(source, [*(any_record(chance) for _ in range(600)), bad_id, no_map, of_a_codec])
    topics.write(source, [Record(value=b"aborted")], transactional_id=f"{source}-a").abort_transaction()
    frame = spark.read.format("jbm").options(**options(source)).load()
    expected = messages(spark, source, bootstrap=topics.bootstrap, raw=True)
    assert frame.columns == expected.columns
    rows = frame.orderBy("kafka.partition", "kafka.offset").collect()
    assert rows == expected.orderBy("kafka.partition", "kafka.offset").collect()
    frame.write.format("jbm").options(**options(by_format)).mode("append").save()
    write_messages(frame, by_function, bootstrap=topics.bootstrap)
    written, told = ([*map(as_it_stands, topics.read(queue))] for queue in (by_format, by_function))
    assert len(written) == 603
    assert sorted(written) == sorted(told)


def test_sql_has_a_queue_as_a_view(
    spark: SparkSession, topics: Topics, options: Callable[[str], dict[str, str]]
) -> None:
    register(spark)  # where it was found already it does no harm
    queue = topics.create(2)
    topics.write(queue, numbered(0, 10))
    given = ", ".join(f"{name} '{value}'" for name, value in options(queue).items())
    spark.sql(f'CREATE OR REPLACE TEMPORARY VIEW orders USING jbm OPTIONS ({given}, starting \'{{"0": 0, "1": 0}}\')')
    assert spark.sql("SELECT count(*), min(body_kind) FROM orders WHERE unit_of_order = 'u1'").collect() == [
        (2, "bytes")
    ]


@pytest.fixture
def copy(
    spark: SparkSession, options: Callable[[str], dict[str, str]], tmp_path: Path
) -> Callable[[str, str, int], None]:
    """Runs a query from one queue to another until all is written that is there, so many tasks a batch."""

    def run(source: str, queue: str, tasks: int) -> None:
        frame = spark.readStream.format("jbm").options(**options(source)).option("maxOffsetsPerTrigger", "40").load()
        split = frame.drop("message_id").repartition(tasks, "unit_of_order")
        writer = split.writeStream.format("jbm").options(**options(queue))
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
        try:
            assert wait_until_done(query, timeout=END_S), "the query did not end"
        finally:
            query.stop()

    return run


def test_a_batch_of_the_format_is_not_written_again(
    topics: Topics, copy: Callable[[str, str, int], None], tmp_path: Path
) -> None:
    """SPARK-3: over restarts and a crash; one that has its rows in other tasks by then is refused."""
    source, queue = topics.create(3), topics.create(2)
    topics.write(source, numbered(0, 100))
    copy(source, queue, 2)
    forget_that_the_last_batch_was_done(tmp_path / "checkpoint")
    topics.write(source, numbered(100, 130))
    copy(source, queue, 2)
    found = topics.read(queue)
    assert sorted(int(record.value() or b"") for record in found) == [*range(130)]
    assert len({headers(record)["JMSMessageID"] for record in found}) == 130
    forget_that_the_last_batch_was_done(tmp_path / "checkpoint")
    with pytest.raises(QueryError, match=r"batch \d+ was begun with its rows in other tasks: split the stream as it"):
        copy(source, queue, 1)


def test_a_stream_of_the_format_ends_when_messages_are_gone_that_it_has_not_read(
    topics: Topics, copy: Callable[[str, str, int], None]
) -> None:
    """SPARK-1: those that were deleted, and those of a topic that was made anew, also when it has more by now."""
    source, queue = topics.create(1), topics.create(1)
    topics.write(source, numbered(0, 5))
    copy(source, queue, 1)
    topics.write(source, numbered(5, 20))
    admin = admin_client(topics.bootstrap)  # kept: without it the answer never comes
    for future in admin.delete_records([TopicPartition(source, 0, 10)]).values():
        future.result(END_S)
    with pytest.raises(QueryError, match=r"partition 0, offsets 5 to 10: messages that were not read yet are gone"):
        copy(source, queue, 1)
    topics.make_anew(source)
    topics.write(source, numbered(20, 50))
    with pytest.raises(QueryError, match=r"messages that were not read yet are gone .* made anew"):
        copy(source, queue, 1)
    assert len(topics.read(queue)) == 5


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"bootstrap": ""}, "option bootstrap is missing: set it, as in"),
        ({"destination": "no-such-queue"}, "create it with: jbm-kafka create no-such-queue"),
        (
            {"minPartitions": "4"},
            "option minpartitions is not one of format jbm here: there are destination, bootstrap",
        ),
        ({"starting": "latest"}, "option starting=latest is refused: it is earliest, or offsets as JSON"),
        ({"ending": '{"0": 5}'}, "ending: partition 0 ends at 0, not at 5"),
        ({"kafka.sasl.mecanism": "PLAIN"}, r"sasl\.mecanism"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    spark: SparkSession, topics: Topics, options: Callable[[str], dict[str, str]], wrong: dict[str, Any], told: str
) -> None:
    with pytest.raises(PySparkException) as raised:
        spark.read.format("jbm").options(**{**options(topics.create()), **wrong}).load().collect()
    line = cause_line(raised.value)
    assert re.search(told, line), line
    assert "\n" not in line


def test_a_row_that_is_no_message_is_one_line_and_nothing_of_its_task_is_written(
    spark: SparkSession, topics: Topics, options: Callable[[str], dict[str, str]]
) -> None:
    """SPARK-3"""
    queue = topics.create()
    frame = spark.createDataFrame([("a", 4), ("b", 10)], "body_text string, priority int").coalesce(1)

    def write(rows: DataFrame, mode: str) -> None:
        rows.write.format("jbm").options(**options(queue)).mode(mode).save()

    with pytest.raises(PySparkException) as raised:
        write(frame, "append")
    assert cause_line(raised.value) == "priority is '10': it is an int from 0 to 9"
    with pytest.raises(PySparkException) as raised:
        write(frame, "overwrite")
    assert cause_line(raised.value) == "messages that were sent cannot be overwritten: write with mode('append')"
    with pytest.raises(PySparkException) as raised:
        write(frame.selectExpr("repeat(body_text, 2000000) body_text", "'ID:1' message_id"), "append")
    told = rf"a message takes 2000\d+ bytes, and {queue} takes 1048588: .* leave the row out, .*; its id: ID:1"
    assert re.match(told, cause_line(raised.value))
    assert topics.read(queue) == []
