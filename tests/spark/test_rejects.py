"""Rows that are no messages are kept aside, and the others are written."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_spark.errors import OptionRefusedError
from jbm_spark.messages import message_stream, wait_until_done, write_messages, write_stream
from tests.spark.conftest import Topics
from tests.spark.records import Record

END_S = 300


def with_bad_rows(frame: DataFrame) -> DataFrame:
    """Number 3 has no priority that a message can have, and 17 is too large."""
    number = F.decode("body_bytes", "UTF-8").cast("int")
    return frame.withColumns(
        {
            "priority": F.when(number == 3, 10).otherwise(4),
            "body_bytes": F.when(number == 17, F.repeat(F.lit("x"), F.lit(1_100_000)).cast("binary")).otherwise(
                F.col("body_bytes")
            ),
        }
    )


def reasons(spark: SparkSession, folder: Path) -> list[tuple[int, str, int]]:
    """Batch, reason and source offset of all that are kept."""
    rows = spark.read.json(str(folder)).select("batch", "reason", "row.kafka.offset").collect()
    return sorted((row.batch, row.reason.partition(":")[0].partition(" bytes")[0], row.offset) for row in rows)


def test_what_comes_after_a_reject_goes_on_and_a_repeated_batch_keeps_each_row_once(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    """SPARK-3: one bad row blocked a stream for good. Batches are taken back by hand, which exactly once refuses."""
    source, queue, folder = topics.create(1), topics.create(2), tmp_path / "rejects"
    topics.write(source, [Record(key=b"u%d" % (n % 3), value=b"%d" % n) for n in range(40)])

    def run(change: bool = True) -> None:
        frame = message_stream(spark, source, bootstrap=topics.bootstrap, options={"maxOffsetsPerTrigger": "20"})
        rows = with_bad_rows(frame) if change else frame
        query = write_stream(rows, queue, bootstrap=topics.bootstrap, checkpoint=tmp_path / "checkpoint",
                             rejects=folder, exactly_once=False)  # fmt: skip
        assert wait_until_done(query, timeout=END_S)

    def written() -> list[int]:
        return [int(record.value() or b"") for record in topics.read(queue)]

    run()
    assert sorted(written()) == sorted({*range(40)} - {3, 17})
    for unit in range(3):
        assert [n for n in written() if n % 3 == unit] == [n for n in range(unit, 40, 3) if n not in (3, 17)]
    kept = [(0, "a message takes 1100133", 17), (0, "priority is '10'", 3)]
    found = reasons(spark, folder)
    assert [each[0::2] for each in found] == [each[0::2] for each in kept]
    assert found[1][1] == kept[1][1]

    for name in ("0", ".0.crc", "1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    offsets = tmp_path / "checkpoint" / "offsets"
    for name in ("1", ".1.crc"):
        (offsets / name).unlink()
    run()
    assert reasons(spark, folder) == found

    for name in ("0", ".0.crc", "1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink()
    for name in ("1", ".1.crc"):
        (offsets / name).unlink()
    run(change=False)
    assert not list(folder.rglob("*.json")), "a row was mended and written, and is still among the rejects"
    assert {3, 17} <= set(written())


def test_rejects_of_a_batch_frame_can_be_mended_and_sent(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """SPARK-3: the rows are there as they were given."""
    queue = topics.create()
    frame = spark.createDataFrame([("u", "a", 4), ("u", "b", 11), ("", "c", 4)],
                                  "unit_of_order string, body_text string, priority int")  # fmt: skip
    folder = str(tmp_path / "rejects")
    write_messages(frame, queue, bootstrap=topics.bootstrap, job="of May/1", rejects=folder)
    kept = spark.read.json(folder)
    assert sorted(row.reason.partition(":")[0] for row in kept.collect()) == ["priority is '11'", "unit_of_order is ''"]
    row = kept.select("row.*").where("body_text = 'b'")
    write_messages(row.withColumn("priority", F.lit(9)), queue, bootstrap=topics.bootstrap)
    assert [record.value() for record in topics.read(queue)] == [b"a", b"b"]


def test_a_folder_of_rejects_has_a_name(spark: SparkSession) -> None:
    with pytest.raises(OptionRefusedError, match=r"^rejects='': name a folder"):
        write_messages(spark.range(1).selectExpr("'x' body_text"), "q", bootstrap="127.0.0.1:1", rejects="")
