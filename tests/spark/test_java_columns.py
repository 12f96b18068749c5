"""Our class of Java and Spark's own expressions make the same of every record and row, cell by cell.

Method: odd records, and records with chance headers, are read and written on both ways, and the rows compared in turn.
"""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.codec.headers import OWN_HEADERS
from jbm_kafka.codec.identity import TOLD_BY_PROVIDER
from jbm_kafka.codec.property_header import PROPERTY_TYPES
from jbm_kafka.core.selectors.tokens import KEYWORDS
from jbm_spark.columns import columns_of_expressions, message_columns
from jbm_spark.frame_check import checked_columns
from jbm_spark.java_calls import MESSAGE_COLUMNS, RECORD_HEADERS, has_class
from jbm_spark.outgoing import outgoing_columns
from tests.spark.any_record import VALUES, any_record
from tests.spark.records import Record

CHANCE_RECORDS = 1_000
RECORDS_SCHEMA = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
OUTGOING = ("out_fault", "out_key", "out_value", "out_carried", "out_own")
AT = datetime(2023, 11, 14, tzinfo=UTC)
ODD_NAMES = (
    *sorted(KEYWORDS), *(word.lower() for word in sorted(KEYWORDS)), *TOLD_BY_PROVIDER, "Like", "lıke", "falſe", "ıs",
    "e\u0301te\u0301", "\u0301e", "n\u0663", "\u0663n", "𝒳1", "𝒳𝟙", "😀", "", ".", "jms", "jms.", "jms..a", "JMS",
    "JMS_", "JMSX", "JMSA", "jMSA", "a b", "a\n", "a\x00", "ⅷ", "ª", "a‿b", "$", "_", "\u200d",
)  # fmt: skip


def test_java_and_expressions_read_every_record_alike(spark: SparkSession) -> None:
    """MSG-2, of LOG-1: one meaning of a record, whichever of the two a session has."""
    assert has_class(MESSAGE_COLUMNS), "make setup compiles it"
    chance = random.Random(48)
    records = _frame(spark, [*odd_records(), *(any_record(chance) for _ in range(CHANCE_RECORDS))])
    of_java, of_expressions = message_columns(records), columns_of_expressions(records)
    assert [MESSAGE_COLUMNS in _plan(each) for each in (of_java, of_expressions)] == [True, False]
    _assert_same(of_java, of_expressions)


def test_java_and_expressions_write_every_row_alike(spark: SparkSession) -> None:
    """LOG-1: what a message came with goes on, whichever of the two writes it; so does what was changed."""
    chance = random.Random(49)
    records = _frame(spark, [*odd_records(), *(any_record(chance) for _ in range(CHANCE_RECORDS))])
    read = columns_of_expressions(records).drop("timestamp")
    kept, made = F.col("properties"), F.create_map(F.lit("a"), F.lit("7"), F.lit("n0_1"), F.lit(None).cast("string"))
    odd = [F.create_map(F.lit(name), F.lit("x")) for name in ODD_NAMES]
    changes = [
        kept,
        F.map_filter(kept, lambda name, text: F.length(name) > 1),
        F.transform_values(kept, lambda name, text: F.when(name != "b", F.concat(text, F.lit("1")))),
        F.map_concat(kept, made),
        F.get(F.array(*odd), (F.col("kafka.offset") / 5).cast("int") % len(odd)),
        F.lit(None).cast("map<string,string>"),
    ]
    texts = F.get(F.array(*changes), (F.col("kafka.offset") % len(changes)).cast("int"))
    numbers = F.create_map(F.lit("a"), F.col("priority"), F.lit("z"), F.lit(None).cast("int"))
    fields = F.struct(F.col("priority").alias("a"), F.col("type").alias("z"))
    frames = [read.withColumn("properties", properties) for properties in (texts, numbers, fields)]
    for frame in (*frames, frames[0].drop("kafka"), read.drop("properties")):
        columns = checked_columns(frame)
        ways = [outgoing_columns(frame, columns, by_java=by_java).select(*OUTGOING) for by_java in (True, False)]
        assert [RECORD_HEADERS in _plan(each) for each in ways] == [True, False]
        _assert_same(*ways)


def _frame(spark: SparkSession, records: Sequence[Record]) -> DataFrame:
    rows: list[tuple[object, ...]] = [
        (f"t{number % 3}", number % 7, number, AT, each.key, each.value, each.headers)
        for number, each in enumerate(records)
    ]
    return spark.createDataFrame([*rows, ("t", 0, 0, AT, None, None, None)], RECORDS_SCHEMA)


def _assert_same(one: DataFrame, other: DataFrame) -> None:
    assert one.schema.simpleString() == other.schema.simpleString()
    pairs = list(zip(one.collect(), other.collect(), strict=True))
    assert len(pairs) > CHANCE_RECORDS
    assert [pair for pair in pairs if pair[0] != pair[1]] == []


def odd_records() -> Iterator[Record]:
    for name in (*sorted(OWN_HEADERS), *ODD_NAMES):
        for typed in ("", "jms.string.", "jms.null.", "jms.int.", "jms.decimal.", "jms."):
            yield Record(headers=((typed + name, b"1"),))
    for name in sorted(OWN_HEADERS - {"JBMCodec"}):
        for value in VALUES:
            yield Record(value=value, headers=((name, value),))
            yield Record(value=b"", headers=((name, b"7"), (name, value)))
            yield Record(value=b"\xc3", headers=((name, value), ("a", b"1"), (name, b"text")))
            yield Record(value=None, headers=((name, b"none"), (name, None), (name, value)))
    for kind in sorted(PROPERTY_TYPES):
        for value in VALUES:
            yield Record(headers=((f"jms.{kind}.a", b"first"), ("a", b"plain"), (f"jms.{kind}.a", value), ("a", b"z")))
    for digits in (b"9223372036854775807", b"9223372036854775808", b"9999999999999999999", b"0" * 18 + b"5", b"0" * 20):
        for name in ("JMSExpiration", "JMSDeliveryTime", "JMSTimestamp", "JMSPriority"):
            yield Record(headers=((name, digits),))
    # Names that nobody has seen before, more than are remembered, and one name many times.
    for number in range(12):
        yield Record(headers=tuple((f"jms.int.n{number}_{each}", b"%d" % each) for each in range(1_000)))
    yield Record(headers=tuple((("a", "jms.int.a", "JMSType")[each % 3], b"%d" % each) for each in range(1_000)))
    yield Record(headers=(("a", b"1"), *(("b", b"x"),) * 40))


def _plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().optimizedPlan().toString())
