"""Rows to Parquet files and back, as every reader of such files understands them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_spark.archiving.manifest import Span
from jbm_spark.errors import ArchiveError

DAY_MS = 86_400_000
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"
ROWS_A_FILE = 250_000


def write_rows(rows: DataFrame, path: Path, *, key: Sequence[str], files: int, by: Sequence[str] = ()) -> None:
    """Into a new folder, by these columns and by day (UTC) of the column `timestamp`; each file is in the order of the
    key, as is the log."""
    days = F.floor(F.unix_millis("timestamp") / DAY_MS).cast("int")
    dated = rows.withColumn("day", F.date_add(F.lit("1970-01-01").cast("date"), days))
    with _readable_timestamps(rows.sparkSession):
        (
            dated.coalesce(max(1, files))
            .sortWithinPartitions(*by, "day", *key)
            .write.partitionBy(*by, "day")
            .option("compression", "zstd")
            .parquet(str(path))
        )


def read_rows(spark: SparkSession, paths: Iterable[Path], schema: str, *, base: Path | None = None) -> DataFrame:
    """The rows of these files, and of all files in these folders; names of folders below `base` tell columns, too."""
    named = [str(path) for path in paths]
    if not named:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema)
    return (reader if base is None else reader.option("basePath", str(base))).parquet(*named)


def count_back(rows: DataFrame, spans: Iterable[Span], *, key: Sequence[str]) -> Mapping[str, int]:
    """How many rows there are of each topic id, each in its span and none twice: read from the files. The key begins
    with topic id, partition and offset.

    Raises:
        ArchiveError: they are not as they must be.
    """
    topic_id, partition, offset, *_ = key
    found = rows.groupBy(F.col(topic_id).alias("topic_id"), F.col(partition).alias("partition")).agg(
        F.count("*").alias("rows"),
        F.count_distinct(*key[2:]).alias("keys"),
        F.min(offset).alias("first"),
        F.max(offset).alias("last"),
    )
    written = {span.topic_id: span for span in spans}
    total = dict.fromkeys(written, 0)
    for row in found.collect():
        span, part = written.get(row["topic_id"]), row["partition"]
        begin, end = (span.begin.get(part, 0), span.end.get(part, 0)) if span is not None else (0, 0)
        if row["rows"] != row["keys"] or row["first"] < begin or row["last"] >= end:
            raise ArchiveError(
                f"partition {part}: read back were {row['rows']} rows of {row['keys']} places from "
                f"{row['first']} to {row['last']}, and written was what is from {begin} up to {end}: nothing was "
                "published; see that the disk is sound, and run the job again"
            )
        total[row["topic_id"]] += row["rows"]
    return total


@contextmanager
def _readable_timestamps(spark: SparkSession) -> Iterator[None]:
    """Spark's own form of 96 bits overflows in other readers, for years after 2262."""
    before = spark.conf.get(_TIMESTAMPS)
    spark.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        spark.conf.set(_TIMESTAMPS, str(before))
