"""Bodies that are kept beside Kafka, in Spark: read with their store, and named in what is written on."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.client.bodies.large_bodies import LargeBodies
from jbm_kafka.codec.bodies import decode_body
from jbm_kafka.codec.large_body import named_body
from jbm_kafka.codec.scan import Header
from jbm_kafka.codec.typed_values import TypedValue, encode_map
from jbm_kafka.errors import InvalidSettingError
from jbm_spark.archiving.archive_rows import archived_rows, message_rows
from jbm_spark.body_columns import body_map
from jbm_spark.columns import columns_of_expressions, message_columns
from jbm_spark.frame_check import checked_columns
from jbm_spark.large_body_columns import large_body_names, with_large_bodies
from jbm_spark.outgoing import outgoing_columns
from jbm_spark.raw_columns import shown
from pyspark_jbm.row_records import RowEncoder

RECORDS_SCHEMA = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key:string,value:binary>>"
)
AT = datetime(2023, 11, 14, tzinfo=UTC)
TEXT, A_MAP = "ü" * 1_000, encode_map({"a": TypedValue("int", 5)})
KINDS: tuple[tuple[bytes | None, bytes], ...] = (
    (b"text", TEXT.encode()), (b"map", A_MAP), (b"object", b'{"a": 1}'), (None, b"\xff"), (b"text", b"\xff"),
)  # fmt: skip


@pytest.fixture
def bodies(tmp_path: Path) -> LargeBodies:
    (tmp_path / "bodies").mkdir()
    return LargeBodies(f"file:{tmp_path}/bodies")


def announced(kind: bytes | None) -> list[Header]:
    return [] if kind is None else [("JBMBody", kind)]


def frame(spark: SparkSession, *rows: tuple[bytes | None, Sequence[Header]]) -> DataFrame:
    """The records of these values and headers, as Spark's Kafka source gives them."""
    records = [("t", 0, offset, AT, None, value, list(headers)) for offset, (value, headers) in enumerate(rows)]
    return spark.createDataFrame(records, RECORDS_SCHEMA)


def kept(bodies: LargeBodies) -> list[tuple[bytes | None, Sequence[Header]]]:
    """A record for each kind, whose body is kept elsewhere."""
    return [(None, [*announced(kind), *bodies.keep(body, 1_700_000_000_000)]) for kind, body in KINDS]


def test_large_bodies_are_in_the_columns_that_others_are_in(spark: SparkSession, bodies: LargeBodies) -> None:
    """BODY-2: as if the records had them; a record with a body, or without one, is as it was."""
    others: list[tuple[bytes | None, Sequence[Header]]] = [(b"small", announced(b"text")), (None, [])]
    plain = [(body, announced(kind)) for kind, body in KINDS]
    wanted = message_columns(frame(spark, *plain, *others))
    read = with_large_bodies(message_columns(frame(spark, *kept(bodies), *others)), str(bodies))
    names = ("body_kind", "body_text", "body_bytes")
    assert read.select(*names).collect() == wanted.select(*names).collect()
    assert [row["large_body_error"] for row in read.select("large_body_error").collect()] == [None] * 7


def test_the_frame_of_messages_hides_what_it_needs(spark: SparkSession, bodies: LargeBodies) -> None:
    """BODY-2: its headers are not shown, and maps are columns behind it too."""
    read = with_large_bodies(shown(message_columns(frame(spark, *kept(bodies))), raw=False), str(bodies))
    assert "headers" not in read.schema["kafka"].dataType.fieldNames()  # type: ignore[attr-defined]
    assert [row["map"] for row in read.select(body_map().alias("map")).collect()] == [
        None,
        '{"a": 5}',
        None,
        None,
        None,
    ]


def test_a_body_that_cannot_be_had_ends_no_query_and_tells_why(spark: SparkSession, bodies: LargeBodies) -> None:
    """BODY-3: the others are read."""
    gone, there = bodies.keep(b"gone", 1_700_000_000_000), bodies.keep(b"there", 1_700_000_000_000)
    bodies.store.remove(named_body(gone) or "")
    first, second = with_large_bodies(message_columns(frame(spark, (None, gone), (None, there))), str(bodies)).collect()
    assert (first["body_bytes"], "is not in" in first["large_body_error"]) == (None, True)
    assert (bytes(second["body_bytes"]), second["large_body_error"]) == (b"there", None)
    with pytest.raises(InvalidSettingError, match="large_bodies"):
        with_large_bodies(message_columns(frame(spark, (None, gone))), "nowhere")


def test_archived_rows_keep_their_references(spark: SparkSession, bodies: LargeBodies) -> None:
    """BODY-4: read back they have their bodies, and tell the names that clean-up must keep."""
    records = kept(bodies)
    rows = message_rows(archived_rows(message_columns(frame(spark, *records)), {}))
    assert [row["large_body_error"] for row in with_large_bodies(rows, str(bodies)).collect()] == [None] * len(KINDS)
    found = {row["name"] for row in large_body_names(rows.union(rows)).collect()}
    assert found == {named_body(headers) for _, headers in records}


def test_what_is_written_on_names_the_same_body_and_says_what_it_is(spark: SparkSession, bodies: LargeBodies) -> None:
    """BODY-4: by expressions, by Java and by the Python codec: also where the columns cannot tell the kind."""
    records = kept(bodies)
    read = columns_of_expressions(frame(spark, *records))
    columns = checked_columns(read)
    for by_java in (True, False):
        written = outgoing_columns(read, columns, by_java=by_java).select("out_value", "out_carried", "out_own")
        ways = [
            (row["out_value"], [(each["key"], bytes(each["value"])) for each in [*row["out_carried"], *row["out_own"]]])
            for row in written.collect()
        ]
        _check(ways, records, bodies)
    encoder = RowEncoder(read.schema)
    rows = [row.asDict(recursive=True) for row in read.collect()]
    for row in rows:
        row["properties"] = list((row["properties"] or {}).items())  # as Arrow gives them
    by_python = [encoder.encode(row, made_id="ID:1") for row in rows]
    _check([(each.value, each.headers) for each in by_python], records, bodies)


def _check(
    written: Sequence[tuple[bytes | None, Sequence[Header]]],
    records: Sequence[tuple[bytes | None, Sequence[Header]]],
    bodies: LargeBodies,
) -> None:
    for (value, headers), (_, came), (kind, body) in zip(written, records, KINDS, strict=True):
        assert value is None
        assert named_body(headers) == named_body(came)
        assert dict(headers).get("JBMBody") == kind
        assert decode_body(headers, bodies.fetch(headers))[:2] == decode_body(announced(kind), body)[:2]


def test_a_row_with_another_body_has_that(spark: SparkSession, bodies: LargeBodies) -> None:
    """BODY-4: whatever the record that it came from names."""
    read = columns_of_expressions(frame(spark, *kept(bodies)[:1])).withColumn("body_text", F.lit("small"))
    (row,) = outgoing_columns(read, checked_columns(read)).select("out_value").collect()
    assert bytes(row["out_value"]) == b"small"
