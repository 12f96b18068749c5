"""What stands in the place of a session, a frame, a query or names is refused in one line that names it."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from jbm_kafka.core.jms_errors import JMSError
from jbm_spark.messages import message_stream, messages, wait_until_done, write_messages, write_stream

NOWHERE = "127.0.0.1:1"
Call = Callable[[SparkSession], object]


def given(value: object) -> Any:
    """Whatever its type is."""
    return value


def letters(spark: SparkSession) -> DataFrame:
    """Rows that could be written."""
    return spark.createDataFrame([("a",)], "body_text string")


def stream(spark: SparkSession) -> DataFrame:
    """The same without an end."""
    return spark.readStream.format("rate").load().selectExpr("string(value) as body_text")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda _: messages(given("spark"), "orders", bootstrap=NOWHERE), "spark is 'spark': pass a SparkSession"),
        (lambda _: message_stream(given(None), "orders", bootstrap=NOWHERE), "spark is None: pass a SparkSession"),
        (
            lambda _: write_messages(given([("a",)]), "orders", bootstrap=NOWHERE),
            "frame is [('a',)]: it is a DataFrame",
        ),
        (
            lambda _: write_stream(given({}), "orders", bootstrap=NOWHERE, checkpoint="c"),
            "frame is {}: it is a DataFrame of Spark's, one row a message",
        ),
        (
            lambda spark: write_stream(spark.range(1), "orders", bootstrap=NOWHERE, checkpoint="c"),
            "this frame is no stream: use write_messages()",
        ),
        (
            lambda spark: write_messages(spark.range(1), "orders", bootstrap=NOWHERE, order_by=given(5)),
            "order_by is 5: it is the name of a column, or a list of such names",
        ),
        (
            lambda spark: write_messages(spark.range(1), "orders", bootstrap=NOWHERE, order_by=given(["id", 3])),
            "order_by is ['id', 3]: it is the name of a column",
        ),
        (
            lambda spark: messages(spark, "orders", bootstrap=NOWHERE, namespace="a b"),
            "namespace 'a b': use at most",
        ),
        (
            lambda spark: message_stream(spark, "orders", bootstrap=NOWHERE, namespace=given(None)),
            "namespace is None: it is a str, '' for none",
        ),
        (
            lambda spark: write_messages(spark.range(1), "orders", bootstrap=NOWHERE, namespace=given(5)),
            "namespace is 5: it is a str, '' for none",
        ),
        (
            lambda spark: messages(spark, "topic:letters", bootstrap=NOWHERE),
            "queue 'topic:letters': ':' at position 6 is not allowed",
        ),
        (
            lambda spark: write_messages(spark.range(1), "queue:orders", bootstrap=NOWHERE),
            "queue 'queue:orders': ':' at position 6 is not allowed",
        ),
        (
            lambda spark: messages(spark, "orders", bootstrap=NOWHERE, kafka=given("x")),
            "kafka is 'x': it is a dict of librdkafka properties, or None",
        ),
        (
            lambda spark: message_stream(spark, "orders", bootstrap=NOWHERE, kafka=given(["x"])),
            "kafka is ['x']: it is a dict of librdkafka properties, or None",
        ),
        (
            lambda spark: write_messages(letters(spark), "orders", bootstrap=NOWHERE, kafka=given("x")),
            "kafka is 'x': it is a dict of librdkafka properties, or None",
        ),
        (
            lambda spark: write_stream(stream(spark), "orders", bootstrap=NOWHERE, checkpoint="c", kafka=given("x")),
            "kafka is 'x': it is a dict of librdkafka properties, or None",
        ),
        (lambda _: wait_until_done(given(None)), "query is None: pass what write_stream() returned"),
    ],
)
def test_another_thing_in_its_place_is_named(spark: SparkSession, call: Call, told: str) -> None:
    with pytest.raises(JMSError) as raised:
        call(spark)
    assert str(raised.value).startswith(told)


@pytest.mark.parametrize("timeout", [-1, "5", True, float("nan")])
def test_a_timeout_is_seconds(spark: SparkSession, timeout: float) -> None:
    query = spark.readStream.format("rate").load().writeStream.format("noop").start()
    try:
        with pytest.raises(JMSError, match=r"^timeout is .*: it is seconds, 0 or more, or None"):
            wait_until_done(query, timeout=timeout)
    finally:
        query.stop()
