"""`python -m jbm_spark.archive_classes`: writes the archive of Spark's classes, if PySpark has none here. A minute.

It goes through what most programs do: files, an aggregation, Python on the executors, a stream.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_spark.causes import cause_line
from jbm_spark.errors import SparkJobError
from jbm_spark.session import build_session
from jbm_spark.shared_classes import class_archive, writing_options

_END_S = 300.0
"""For the JVM to write it."""


def archive_classes() -> bool:
    """Write it if there is none; False: it could not be written.

    Raises:
        SessionError, JarsError: there is no session.
    """
    archive = class_archive()
    if archive.exists() and archive.stat().st_mtime > Path(pyspark.__file__).stat().st_mtime:
        return True
    archive.unlink(missing_ok=True)
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_suffix(f".{os.getpid()}")
    options = " ".join(writing_options(partial))
    session = build_session("classes", starts_fast=True, settings={"spark.driver.extraJavaOptions": options})
    with tempfile.TemporaryDirectory(prefix="jbm-spark-") as folder:
        _work(session, Path(folder))
    session.stop()
    _end_java()
    if partial.exists():
        partial.replace(archive)
    return archive.exists()


def _work(spark: SparkSession, folder: Path) -> None:
    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    rows = spark.range(100).select("id", F.col("id").cast("string").alias("text"), F.array("id").alias("several"))
    rows.write.parquet(str(folder / "rows"))
    found = spark.read.parquet(str(folder / "rows"))
    found.groupBy("text").agg(F.count("*"), F.max("id")).orderBy("text").collect()
    found.join(found.select("id"), "id").select("id", F.explode("several")).toPandas()
    found.mapInArrow(same, found.schema).collect()
    query = spark.readStream.schema(found.schema).parquet(str(folder / "rows")).writeStream.format("parquet")
    query = query.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query.start(str(folder / "copies")).awaitTermination()


def _end_java() -> None:
    """It writes the archive as its last act."""
    process = SparkContext._gateway.proc  # type: ignore[union-attr]
    process.stdin.close()
    process.wait(_END_S)


if __name__ == "__main__":
    try:
        archive_classes()
    except (SparkJobError, PySparkException, Py4JError, OSError, subprocess.TimeoutExpired) as error:
        print(f"Spark's classes are not archived, so sessions start as before: {cause_line(error)}", file=sys.stderr)
