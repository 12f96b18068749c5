"""A body is what its kind says before it is written; what another producer wrote goes on as it came."""

import pytest
from pyspark.sql import SparkSession

from jbm_kafka.codec.typed_values import TypedValue, encode_map
from jbm_spark.body_check import body_fault
from jbm_spark.frame_check import checked_columns
from jbm_spark.messages import messages, write_messages
from jbm_spark.outgoing import outgoing_columns
from tests.spark.conftest import Topics
from tests.spark.records import Record, headers

pytestmark = pytest.mark.thorough

MAP = encode_map({"qty": TypedValue("int", 5)})


def test_a_text_is_the_json_of_an_object_where_the_row_says_so_and_has_nothing_else(
    spark: SparkSession, topics: Topics
) -> None:
    """It was sent as a text, without a word."""
    queue = topics.create()
    write_messages(
        spark.createDataFrame([("object", '{"a": 1}'), (None, "plain")], "body_kind string, body_text string"),
        queue,
        bootstrap=topics.bootstrap,
    )
    found = [(record.value(), headers(record).get("JBMBody")) for record in topics.read(queue)]
    assert found == [(b'{"a": 1}', b"object"), (b"plain", b"text")]


def test_a_text_s_bytes_are_sent_where_the_row_has_no_text(spark: SparkSession) -> None:
    frame = spark.range(1).selectExpr("cast(null as string) body_text", "binary('x') body_bytes", "'text' body_kind")
    [row] = outgoing_columns(frame, checked_columns(frame)).select("out_kind", "out_value").collect()
    assert (row.out_kind, bytes(row.out_value)) == ("text", b"x")


def test_a_record_that_is_not_what_it_says_goes_on_as_it_came(spark: SparkSession, topics: Topics) -> None:
    """MSG-2, of SPARK-2: what no receiver could read does not end the query that copies it."""
    source, queue = topics.create(), topics.create()
    odd = [Record(value=b"junk", headers=(("JBMBody", kind),)) for kind in (b"map", b"stream", b"object")]
    topics.write(source, odd)
    write_messages(messages(spark, source, bootstrap=topics.bootstrap), queue, bootstrap=topics.bootstrap)
    found = [(record.value(), headers(record)["JBMBody"]) for record in topics.read(queue)]
    assert found == [(b"junk", b"map"), (b"junk", b"stream"), (b"junk", b"object")]


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("map", b"junk", "body_kind is 'map': the body is announced as a map, but cannot be read: "),
        ("stream", None, "body_kind is 'stream': the body is announced as a stream, but cannot be read: "),
        ("object", b"{", "body_kind is 'object': the body is announced as an object, but cannot be read as JSON: "),
        ("map", MAP, None),
        ("object", b"null", None),
        (None, None, None),
    ],
)
def test_bytes_that_are_no_body_of_their_kind_are_told_in_one_line(
    kind: str | None, value: bytes | None, told: str | None
) -> None:
    fault = body_fault(kind, None if value is None else bytearray(value))
    assert (fault is None) if told is None else (fault or "").startswith(told)
    assert "\n" not in (fault or "")
