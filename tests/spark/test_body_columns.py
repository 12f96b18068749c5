"""Maps, streams and objects as columns, and what cannot be read."""

import json
import math
from collections.abc import Callable

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.codec.bodies import decode_body
from jbm_kafka.codec.schemas import codec
from jbm_kafka.codec.typed_values import TypedValue, encode_map, encode_stream
from jbm_spark.body_columns import body_error, body_list, body_map
from jbm_spark.messages import messages
from tests.spark.records import Record

Written = Callable[..., str]

VALUES = {
    "int": TypedValue("int", 5), "long": TypedValue("long", 2**63 - 1), "float": TypedValue("float", 1.100000023841858),
    "nan": TypedValue("double", math.nan), "text": TypedValue("string", 'grü"ß'), "data": TypedValue("bytes", b"\xff"),
    "nothing": TypedValue("null", None), "truth": TypedValue("boolean", True), "char": TypedValue("char", "ü"),
}  # fmt: skip
SHOWN = [5, 2**63 - 1, 1.1, "NaN", 'grü"ß', "/w==", None, True, "ü"]
A_MAP, A_STREAM = encode_map(VALUES), encode_stream(list(VALUES.values()))
LENGTH_OF_2_GB = b"\x02\x80\xcc\xfd\x93\x0e"  # one entry, whose name claims 1,900,000,000 bytes


def announced(kind: bytes, value: bytes | None) -> Record:
    return Record(value=value, headers=(("JBMBody", kind),))


def read(spark: SparkSession, bootstrap: str, topic: str) -> list[Row]:
    rows = messages(spark, topic, bootstrap=bootstrap).orderBy("kafka.offset")
    return rows.select(body_map().alias("map"), body_list().alias("list"), body_error().alias("error")).collect()


def test_maps_and_streams_are_json_with_the_names_and_types_of_their_values(
    spark: SparkSession, bootstrap: str, written: Written
) -> None:
    topic = written(announced(b"map", A_MAP), announced(b"stream", A_STREAM), Record(value=A_MAP))
    a_map, a_stream, some_bytes = read(spark, bootstrap, topic)
    assert json.loads(a_map["map"]) == dict(zip(VALUES, SHOWN, strict=True))
    assert (a_map["list"], a_map["error"]) == (None, None)
    assert (a_stream["map"], json.loads(a_stream["list"]), a_stream["error"]) == (None, SHOWN, None)
    assert some_bytes == (None, None, None)
    typed = messages(spark, topic, bootstrap=bootstrap).select(F.from_json(body_map(), "long bigint, char string"))
    assert typed.first() == ((2**63 - 1, "ü"),)


def test_a_body_that_cannot_be_read_ends_no_query_and_tells_why(
    spark: SparkSession, bootstrap: str, written: Written
) -> None:
    """MSG-2: one damaged byte, which `from_avro` took for a length, ended the executor; any other ended the query."""
    misfit = codec("MapBody").encode({"entries": {"q": {"type": "int", "value": 2**40}}})
    records = [
        announced(b"map", A_MAP[:10] + LENGTH_OF_2_GB), announced(b"map", A_MAP[:-1]), announced(b"map", A_MAP + b"x"),
        announced(b"map", b"\xc3\x01 unknown"), announced(b"map", misfit), announced(b"stream", A_MAP),
        announced(b"text", b"a\xff"), announced(b"object", b'{"a": '), announced(b"object", b'{"a": 1}'),
        announced(b"map", None), announced(b"surprise", b"x"), announced(b"map", A_MAP),
        Record(value=b"x", headers=(("JBMBody", b"object"), ("JBMCodec", b"order-v1"))),
    ]  # fmt: skip
    rows = read(spark, bootstrap, written(*records))
    faults = [decode_body(record.headers, record.value)[2] for record in records]
    assert [row["error"] for row in rows] == [*faults[:-1], None]  # only its application knows order-v1
    assert [bool(fault) for fault in faults] == [True] * 8 + [False, False, True, False, True]
    assert [row["map"] is not None for row in rows] == [False] * 11 + [True, False]


def test_columns_of_bodies_cost_nothing_where_they_are_not_taken(
    spark: SparkSession, bootstrap: str, written: Written
) -> None:
    """Nor do the headers, for a query of the unit and the bytes."""
    rows = messages(spark, written(Record()), bootstrap=bootstrap).withColumns(
        {"body_map": body_map(), "body_error": body_error()}
    )

    def plan(*columns: str) -> str:
        text: str = rows.select(*columns)._jdf.queryExecution().optimizedPlan().toString()
        return text

    assert "read_body" in plan("body_map")
    assert "read_body" not in plan("unit_of_order", "body_text", "priority")
    assert "shown_properties" not in plan("unit_of_order", "body_text", "priority")
    assert "map_from_entries" not in plan("unit_of_order", "body_bytes")
