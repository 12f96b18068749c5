"""What Spark shows of a record, for our headers and for whatever else stands on a topic."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_spark.columns import PropertyType, property_column
from jbm_spark.messages import messages
from tests.spark.records import Record

Written = Callable[..., str]


def rows_of(spark: SparkSession, bootstrap: str, topic: str) -> list[Row]:
    return messages(spark, topic, bootstrap=bootstrap, raw=True).orderBy("kafka.offset").collect()


def at(ms: int) -> datetime:
    """As collect() shows an instant: in the local zone, without saying so."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone().replace(tzinfo=None)


def test_our_headers_become_typed_columns(spark: SparkSession, bootstrap: str, written: Written) -> None:
    topic = written(
        Record(
            key=b"joe",
            value="grüß dich".encode(),
            headers=(
                ("JMSMessageID", b"ID:p:1"), ("JMSTimestamp", b"1700000000123"), ("JMSCorrelationID", b"c-1"),
                ("JMSType", b"order"), ("JMSReplyTo", b"queue:answers"), ("JMSDeliveryMode", b"NON_PERSISTENT"),
                ("JMSPriority", b"9"), ("JMSExpiration", b"1800000000000"), ("JMSDeliveryTime", b"1700000060000"),
                ("JBMBody", b"text"), ("JBMDuplicateID", b"d-1"), ("jms.int.qty", b"42"),
                ("jms.string.region", b"EU"), ("jms.null.note", b""), ("trace", b"abc"),
            ),
        )
    )  # fmt: skip
    (row,) = rows_of(spark, bootstrap, topic)
    told = row.asDict(recursive=True)
    kafka = told.pop("kafka")
    assert told == {
        "message_id": "ID:p:1", "timestamp": at(1_700_000_000_123), "correlation_id": "c-1", "type": "order",
        "reply_to": "queue:answers", "delivery_mode": "NON_PERSISTENT", "priority": 9,
        "expiration": at(1_800_000_000_000), "delivery_time": at(1_700_000_060_000), "body_kind": "text",
        "body_text": "grüß dich", "body_bytes": None, "unit_of_order": "joe",
        "duplicate_id": "d-1",
        "properties": {"qty": "42", "region": "EU", "note": None, "trace": "abc"},
    }  # fmt: skip
    assert (kafka["topic"], kafka["partition"], kafka["offset"]) == (topic, 0, 0)
    assert kafka["timestamp"] == at(1_700_000_000_000)
    assert kafka["key"] == b"joe"
    assert len(kafka["headers"]) == 15
    (slim,) = messages(spark, topic, bootstrap=bootstrap).collect()
    assert slim.kafka.asDict() == {name: kafka[name] for name in ("topic", "partition", "offset", "timestamp")}
    assert slim.asDict(recursive=True) == {**told, "kafka": slim.kafka.asDict()}


def test_a_record_without_headers_is_a_bytes_message_with_the_defaults(
    spark: SparkSession, bootstrap: str, written: Written
) -> None:
    """MSG-2: whatever wrote it, it is shown."""
    topic = written(Record(value=b"\xff\xfe"), Record(value=None), Record(key=b""), Record(key=b"\xffk"))
    plain, null_value, empty_key, binary_key = rows_of(spark, bootstrap, topic)
    assert plain.message_id == f"ID:kafka:{topic}:0:0"
    assert (plain.body_kind, plain.body_text, plain.body_bytes) == ("bytes", None, b"\xff\xfe")
    assert (plain.delivery_mode, plain.priority, plain.expiration, plain.delivery_time) == ("PERSISTENT", 4, None, None)
    assert plain.timestamp == at(1_700_000_000_000)
    assert (plain.unit_of_order, plain.properties) == (None, {})
    assert (null_value.body_kind, null_value.body_bytes) == ("none", None)
    assert empty_key.unit_of_order is None
    assert binary_key.unit_of_order == "0xff6b"


def test_numbers_that_are_none_count_as_absent_and_end_no_query(
    spark: SparkSession, bootstrap: str, written: Written
) -> None:
    bad = [b"x", b"", b" 4", b"+4", b"1e3", b"5.0", b"9999999999999999999", b"\xff", None, b"-1",
           b"5\n"]  # fmt: skip
    names = ("JMSPriority", "JMSExpiration", "JMSDeliveryTime", "JMSTimestamp")
    topic = written(*(Record(headers=tuple((name, value) for name in names)) for value in bad))
    for row in rows_of(spark, bootstrap, topic):
        assert (row.priority, row.expiration, row.delivery_time) == (4, None, None)
        assert row.timestamp == at(1_700_000_000_000)


def test_an_instant_beyond_the_calendar_is_its_last_day(spark: SparkSession, bootstrap: str, written: Written) -> None:
    topic = written(Record(headers=(("JMSExpiration", str(2**63 - 1).encode()),)))
    (row,) = rows_of(spark, bootstrap, topic)
    assert row.expiration == datetime(9999, 12, 31)  # noqa: DTZ001  (tests run in UTC or near it)


def test_of_repeated_headers_the_last_typed_one_wins(spark: SparkSession, bootstrap: str, written: Written) -> None:
    headers = (
        ("JMSType", b"a"), ("JMSType", b"b"),
        ("jms.int.n", b"1"), ("jms.long.n", b"2"), ("n", b"3"),
        ("plain", b"1"), ("plain", b"2"),
    )  # fmt: skip
    (row,) = rows_of(spark, bootstrap, written(Record(headers=headers)))
    assert row.type == "b"
    assert row.properties == {"n": "2", "plain": "2"}


def test_a_header_is_a_property_only_with_a_legal_name_and_readable_text(
    spark: SparkSession, bootstrap: str, written: Written
) -> None:
    headers = (
        ("ok_1", b"yes"), ("größe", b"7"), ("nothing", None), ("content-type", b"x"), ("binary", b"\xff\xfe"),
        ("Between", b"reserved"), ("1st", b"x"), ("jms.decimal.x", b"1"), ("jms.string.", b"x"),
        ("jms.string.broken", b"a\xff"), ("jms.string.null_value", None), ("JMSXGroupSeq", b"1"),
        ("JMSOther", b"x"), ("jms.int.a-b", b"1"), ("jms.string.Like", b"x"), ("a\n", b"x"), ("jms.int.b\n", b"1"),
    )  # fmt: skip
    (row,) = rows_of(spark, bootstrap, written(Record(headers=headers)))
    assert row.properties == {
        "ok_1": "yes", "größe": "7", "nothing": None, "null_value": None, "JMSXGroupSeq": "1",
    }  # fmt: skip
    assert len(row.kafka.headers) == len(headers)


def test_a_look_at_all_headers_at_once_sees_what_each_is(spark: SparkSession, bootstrap: str, written: Written) -> None:
    """A comma in a name makes no two properties of one header, and two halves of a character no text. A header between
    ours is none of ours."""
    topic = written(
        Record(headers=(("jms.int.a,b", b"1"),)), Record(headers=(("a", b"\xc3"), ("b", b"\xa9"))),
        Record(headers=(("jms.null.a", b""), ("b", b"x"))), Record(headers=(("a", None), ("jms.string.b", b"x"))),
        Record(headers=(("JMSType", b"t"), ("a", b"1"), ("JBMBody", b"text"))),
        Record(headers=(("~", b"1"), ("a", b"1"))), Record(headers=(("a,", b"1"),)),
        Record(headers=(("a,b", b"1"), ("", b"2"))),
    )  # fmt: skip
    shown = [row.properties for row in rows_of(spark, bootstrap, topic)]
    assert shown == [{}, {}, {"a": None, "b": "x"}, {"a": None, "b": "x"}, {"a": "1"}, {"a": "1"}, {}, {}]


def test_text_that_is_not_utf8_is_shown_as_bytes(spark: SparkSession, bootstrap: str, written: Written) -> None:
    text = (("JBMBody", b"text"),)
    topic = written(
        Record(value=b"a\xff", headers=text), Record(value=None, headers=text), Record(value=b"", headers=text),
        Record(headers=(("JBMBody", b"surprise"),)), Record(headers=(("JBMBody", b"map"),)),
    )  # fmt: skip
    shown = [(row.body_kind, row.body_text) for row in rows_of(spark, bootstrap, topic)]
    assert shown == [("bytes", None), ("text", None), ("text", ""), ("bytes", None), ("map", None)]


READ_AS: Sequence[tuple[str, PropertyType, object]] = [
    ("boolean", "boolean", True), ("maybe", "boolean", None), ("small", "byte", 127), ("over", "byte", None),
    ("over", "short", 128), ("small", "int", 127), ("large", "int", None), ("large", "long", 2**63 - 1),
    ("half", "int", None), ("half", "double", 1.5), ("exponent", "double", 1000.0), ("exponent", "long", None),
    ("infinite", "float", float("-inf")), ("suffixed", "double", None), ("empty", "long", None),
    ("half", "string", "1.5"), ("missing", "int", None), ("missing", "string", None),
]  # fmt: skip


def test_a_property_reads_as_a_type_or_is_null(spark: SparkSession, bootstrap: str, written: Written) -> None:
    values = {
        "boolean": b"true", "maybe": b"maybe", "small": b"127", "large": b"9223372036854775807", "over": b"128",
        "half": b"1.5", "exponent": b"1e3", "infinite": b"-Infinity", "suffixed": b"1d", "empty": b"",
    }  # fmt: skip
    topic = written(Record(headers=tuple((f"jms.string.{name}", value) for name, value in values.items())))
    read = [property_column(name, type_name).alias(f"{name} as {type_name}") for name, type_name, _ in READ_AS]
    (row,) = messages(spark, topic, bootstrap=bootstrap).select(*read).collect()
    assert row.asDict() == {f"{name} as {type_name}": expected for name, type_name, expected in READ_AS}


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("x", "integer"), "type is 'integer': it is one of string, boolean, byte, short, int, long, float, double"),
        (("x", int), "type is <class 'int'>: it is one of"),
        (("x", []), "type is []: it is one of"),
        ((5, "int"), "name is 5: it is the name of a property, a str"),
    ],
)
def test_a_property_column_that_cannot_be_is_refused_with_its_value(call: Any, told: str) -> None:
    """A name that is no text gave a column of nulls, and a type Python's own error."""
    with pytest.raises(InvalidSettingError) as raised:
        property_column(*call)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


def test_properties_serve_in_a_filter(spark: SparkSession, bootstrap: str, written: Written) -> None:
    topic = written(*(Record(headers=(("jms.int.qty", str(n).encode()),)) for n in range(5)), Record())
    large = messages(spark, topic, bootstrap=bootstrap).where(property_column("qty", "int") >= 3)
    assert large.agg(F.count("*")).first() == (2,)
