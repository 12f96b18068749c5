"""Rows to Parquet files and back, as every reader of such files understands them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_spark.archiving.archive_folder import ArchivePath
from jbm_spark.archiving.manifest import Erasure, Span
from jbm_spark.archiving.table_folder import SEGMENT_BYTES, Fragments, TableFolder
from jbm_spark.errors import ArchiveError
from jbm_spark.known_values import known_rows
from jbm_spark.session_setting import session_setting

DAY_MS = 86_400_000
_READABLE_TIMESTAMPS = "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"
"""Spark's own form of 96 bits overflows in other readers, for years after 2262."""
ROWS_A_FILE = 250_000


def write_rows(rows: DataFrame, path: ArchivePath, *, key: Sequence[str], files: int, by: Sequence[str] = ()) -> None:
    """Into a new folder, by these columns and by day (UTC) of the column `timestamp`; each file is in the order of the
    key, as is the log."""
    days = F.floor(F.unix_millis("timestamp") / DAY_MS).cast("int")
    dated = rows.withColumn("day", F.date_add(F.lit("1970-01-01").cast("date"), days))
    with session_setting(rows.sparkSession, *_READABLE_TIMESTAMPS):
        (
            dated.coalesce(max(1, files))
            .sortWithinPartitions(*by, "day", *key)
            .write.partitionBy(*by, "day")
            .option("compression", "zstd")
            .parquet(str(path))
        )


def read_rows(
    spark: SparkSession, paths: Iterable[ArchivePath], schema: str, *, base: "ArchivePath | None" = None
) -> DataFrame:
    """The rows of these files, and of all files in these folders; names of folders below `base` tell columns, too."""
    named = [str(path) for path in paths]
    if not named:
        return known_rows(spark, [], schema)
    reader = spark.read.schema(schema)
    return (reader if base is None else reader.option("basePath", str(base))).parquet(*named)


@dataclass(frozen=True, slots=True)
class RowShape:
    """The rows of an archive's table."""

    schema: str
    """Of the files, in the words of Spark's DDL."""
    key: tuple[str, ...]
    """The columns that tell a row from all others: the topic's id, the record's partition and offset first."""
    by: tuple[str, ...] = ()
    """Columns by which the folders are divided, above the days."""


def rewrite(
    spark: SparkSession, folder: TableFolder, fragments: Fragments, shape: RowShape, *,
    without: DataFrame | None = None, erasure: Erasure | None = None, staged: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Write the rows of these files anew, in their place, without those that have a key of `without`, which the
    erasure counts. `staged` is called before readers see anything of it.

    Raises:
        ArchiveError: the rows that the files have are not those that were written; nothing has changed.
    """
    place = folder.staged()
    # Folders of segments and batches name them, and no file.
    rows = read_rows(spark, fragments.paths, shape.schema, base=folder.path).drop("segment", "batch")
    if without is not None:
        rows = rows.join(without, [rows[name].eqNullSafe(without[name]) for name in shape.key], "left_anti")
    files = fragments.data_bytes // (SEGMENT_BYTES // 2)
    write_rows(rows, place, key=shape.key, files=files, by=shape.by)
    found = read_rows(spark, [place], shape.schema).count() + (0 if erasure is None else erasure.rows)
    if fragments.rows != found:
        done = "compacted" if erasure is None else "erased"
        raise ArchiveError(
            f"archive {folder.path}: {fragments.rows} rows were written to files that are to be written anew, and "
            f"{found} can be read: files are missing or were added; nothing was {done}, restore them"
        )
    staged()
    folder.replace(fragments, erasure)


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
