"""A body is what its kind says before it is written; what another producer wrote goes on as it came."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.codec.typed_values import TypedValue, encode_map
from jbm_spark.body_check import body_fault
from jbm_spark.columns import kinds_are_as_they_came
from jbm_spark.errors import QueryError
from jbm_spark.frame_check import checked_columns
from jbm_spark.messages import message_stream, messages, wait_until_done, write_messages, write_stream
from jbm_spark.outgoing import outgoing_columns
from jbm_spark.raw_columns import with_raw
from tests.spark.conftest import PATIENCE_S, Topics
from tests.spark.records import Record, headers
from tests.spark.test_java_writer import WRITERS, written_by

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


@pytest.mark.parametrize("writer", WRITERS)
def test_bodies_are_looked_at_where_one_has_to_be_and_else_no_row_goes_to_python(
    spark: SparkSession, topics: Topics, tmp_path: Path, writer: str
) -> None:
    """SPARK-3: each writer refuses the same row with the same words, and nothing of its batch is there."""
    source, queue = topics.create(), topics.create()
    topics.write(source, [Record(value=b"junk", headers=(("JBMBody", b"map"),)), Record(value=b"2")])
    stream = message_stream(spark, source, bootstrap=topics.bootstrap)
    changed = stream.withColumn("body_kind", F.when(F.col("kafka.offset") == 0, "object").otherwise(F.col("body_kind")))

    def plan(frame: DataFrame, *, looks: bool) -> str:
        whole = with_raw(frame)
        made = outgoing_columns(whole, checked_columns(whole), looks=looks)
        text: str = made._jdf.queryExecution().optimizedPlan().toString()
        return text

    assert kinds_are_as_they_came(stream.schema)
    assert not kinds_are_as_they_came(changed.schema)
    held = messages(spark, source, bootstrap=topics.bootstrap)
    assert ["ArrowEvalPython" in plan(held, looks=looks) for looks in (True, False)] == [True, False]
    # Taken for one that nobody has changed, as a union may be.
    mistaken = changed.withMetadata("body_kind", stream.schema["body_kind"].metadata)
    as_json = F.when(F.col("body_text") == "2", "object").otherwise(F.col("body_kind"))
    odd = stream.withColumn("body_kind", as_json).withMetadata("body_kind", stream.schema["body_kind"].metadata)
    had = 0
    for number, frame in enumerate((changed, mistaken, stream, odd)):
        is_good = number >= 2
        with written_by(spark, writer):
            query = write_stream(frame, queue, bootstrap=topics.bootstrap, checkpoint=tmp_path / f"{writer}-{number}")
        with nullcontext() if is_good else pytest.raises(QueryError, match=r"body_kind is 'object': .* read as JSON"):
            wait_until_done(query, timeout=PATIENCE_S)
        query.stop()
        had += 2 if is_good else 0
        assert len(topics.read(queue)) == had
