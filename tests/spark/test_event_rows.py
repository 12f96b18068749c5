"""Events as rows: records of every version, beside records that nobody can read."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from jbm_kafka.codec.events import encode_events
from jbm_kafka.codec.operator_actions import OperatorAction, encode_operator_action
from jbm_kafka.core.channel.entries import ChannelEvents, DeliveryRun, MessageEvent, MessageFate, OffsetRange
from jbm_spark.committed import committed_records
from jbm_spark.events import event_columns, events
from tests.spark.conftest import Topics
from tests.spark.records import Record

pytestmark = pytest.mark.thorough

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden/changelog.json").read_text(encoding="utf-8"))
NEW = ChannelEvents(
    group="jbm.queue.q",
    topic="q",
    partition=3,
    checkpoint_id="jbm.x:1",
    at_ms=5_000,
    acknowledged=(OffsetRange(1, 4), OffsetRange(7, 7)),
    messages=(
        MessageEvent(MessageFate.RETURNED, 5, b"joe", 1, None, "returned", 4_000, 9_000, 5_000, 3, "continue"),
        MessageEvent(MessageFate.SKIPPED, 8, None, 0, None, "offsets 8 to 11, as far as they were not settled: reset"),
    ),
    topic_id="id-2",
    deliveries=(DeliveryRun(1, 4, 1, "s-1", "AUTO", 3_000), DeliveryRun(5, 1, 2, "s-2", "CLIENT", 3_020)),
)


def rows_of(spark: SparkSession, topics: Topics, *records: Record) -> list[Row]:
    topic = topics.create()
    topics.write(topic, records)
    return frame_of(spark, topics, topic).orderBy("kafka.offset", "index").collect()


def frame_of(spark: SparkSession, topics: Topics, topic: str) -> DataFrame:
    return event_columns(committed_records(spark, topic, bootstrap=topics.bootstrap))


def encoded(events: ChannelEvents) -> Record:
    key, value = encode_events(events)
    return Record(key=key, value=value)


def test_the_first_versions_events_are_read_beside_those_of_today(spark: SparkSession, topics: Topics) -> None:
    golden = [Record(key=b"g", value=bytes.fromhex(each)) for each in GOLDEN["events"]]
    found = rows_of(spark, topics, *golden, encoded(NEW))
    old = [row for row in found if row.kafka.offset == 0]
    assert old
    assert all(row.topic_id is None and row.fate != "unreadable" for row in old)
    new = [row for row in found if row.kafka.offset == len(golden)]
    assert {(row.group, row.topic, row.topic_id, row.partition) for row in new} == {("jbm.queue.q", "q", "id-2", 3)}
    assert [(row.fate, row.offset, row.last_offset, row.at_ms) for row in new] == [
        ("acknowledged", 1, 4, 5_000),
        ("acknowledged", 7, 7, 5_000),
        ("returned", 5, 5, 4_000),
        ("skipped", 8, 11, 5_000),
        ("delivered", 1, 4, 3_000),
        ("delivered", 5, 5, 3_020),
    ]
    returned, delivered = new[2], new[5]
    assert (returned.unit_of_order, returned.due_at_ms, returned.max_delivery_attempts) == ("joe", 9_000, 3)
    assert (delivered.session, delivered.acknowledge_mode, delivered.attempt) == ("s-2", "CLIENT", 2)


def test_a_record_that_nobody_can_read_blocks_no_other(spark: SparkSession, topics: Topics) -> None:
    good = encoded(NEW).value
    assert good is not None
    poison = [
        b"",
        b"text",
        good[:10],
        good[:-9],
        b"\xc3\x01" + b"\x07" * 30,
        good[:10] + b"\xff" * 40,
        good[:10] + b"\x80\xe0\xc0\xcb\x0b" + b"x" * 30,
        None,
    ]
    found = rows_of(spark, topics, *(Record(key=b"g", value=each) for each in poison), encoded(NEW))
    unreadable = [row for row in found if row.fate == "unreadable"]
    assert [row.kafka.offset for row in unreadable] == [0, 1, 2, 3, 4, 5, 6]  # null is no event
    assert {row.group for row in unreadable} == {"g"}
    assert "C30107" in unreadable[4].reason
    assert sum(row.fate != "unreadable" for row in found) == 6


def test_what_operators_did_is_no_fate_of_a_message(spark: SparkSession, topics: Topics) -> None:
    done = OperatorAction(
        id="1", action="pause", by="ann", destination="q", wanted="{}", outcome="done", text="paused", at_ms=1
    )
    key, value = encode_operator_action(done)
    rows = rows_of(spark, topics, Record(key=key, value=value), encoded(NEW))
    assert {row["group"] for row in rows} == {"jbm.queue.q"}
    assert "unreadable" not in {row["fate"] for row in rows}


def test_where_nobody_has_received_there_are_no_events(spark: SparkSession, topics: Topics) -> None:
    assert events(spark, bootstrap=topics.bootstrap, namespace="nobody-here").count() == 0
