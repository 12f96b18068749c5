"""Spark's columns and the Python codec read every record alike.

Method: records with chance headers, each drawn from a few names and awkward values, go through a real topic; each row
is compared with what the codec makes of the same record. (The codec also gives the reason why something could not be
decoded, Spark does not; and a `reply_to` that names no destination is shown by Spark as its text.)
"""

import math
import random
from datetime import UTC, datetime

from pyspark.sql import Row, SparkSession

from jbm_kafka.codec.bodies import decode_body
from jbm_kafka.codec.headers import DECODE_ERROR, JmsHeaders, decode_headers
from jbm_kafka.codec.identity import foreign_message_id, unit_name
from jbm_kafka.codec.property_header import Property, parse_property
from jbm_spark.messages import messages
from tests.spark.any_record import any_record
from tests.spark.conftest import Topics
from tests.spark.records import Record

RECORDS = 600


def ms(instant: datetime | None) -> int:
    return 0 if instant is None else round(instant.astimezone(UTC).timestamp() * 1000)


def same_property(text: str | None, expected: Property) -> bool:
    if text is None or expected.value is None:
        return text is None and expected.value is None
    read = parse_property(expected.type, text).value
    return read == expected.value or (isinstance(read, float) and math.isnan(read))


def assert_same(row: Row, record: Record) -> None:
    expected: JmsHeaders = decode_headers(record.headers)
    foreign = foreign_message_id(row.kafka.topic, row.kafka.partition, row.kafka.offset)
    assert row.message_id == (expected.message_id or foreign)
    assert ms(row.timestamp) == (record.timestamp_ms if expected.timestamp_ms is None else expected.timestamp_ms)
    assert (row.correlation_id, row.type) == (expected.correlation_id, expected.type)
    assert row.delivery_mode == expected.delivery_mode.name
    assert row.priority == expected.scanned.priority
    assert ms(row.expiration) == expected.scanned.expiration_ms
    assert ms(row.delivery_time) == expected.scanned.delivery_time_ms
    shape, body, _ = decode_body(record.headers, record.value)
    assert row.body_kind == shape.value
    assert row.body_text == (body if shape.value == "text" else None)
    assert row.unit_of_order == unit_name(record.key)
    told = {name: held for name, held in expected.properties.items() if name != DECODE_ERROR}
    assert row.properties.keys() == told.keys()
    assert all(same_property(row.properties[name], held) for name, held in told.items())


def test_spark_reads_every_record_as_the_codec_does(spark: SparkSession, topics: Topics) -> None:
    """MSG-2, of LOG-1: one meaning of a record, whoever reads it."""
    chance = random.Random(2)
    records = [any_record(chance) for _ in range(RECORDS)]
    topic = topics.create()
    topics.write(topic, records)
    rows = messages(spark, topic, bootstrap=topics.bootstrap).orderBy("kafka.offset").collect()
    assert len(rows) == RECORDS
    for row, record in zip(rows, records, strict=True):
        assert_same(row, record)
