"""Finishes the batch that a crash interrupted, where Spark's Kafka source then ends the query (SPARK-55271).

That source reports how far behind it is before it has looked, when a query begins with a batch that it repeats: the
batch is written and recorded, and the query dies of a NullPointerException; the next start finds nothing wrong. So the
first of the two starts is made here.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pyspark
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jbm_spark.causes import cause_line
from jbm_spark.errors import QueryError

FAULTY = ("4.1.0", "4.1.1")
"""Seen in 4.1.1, and in the source of 4.1.0."""

_FAULT = ("scala.collection.IterableOps.map", "scala.Option.get()")


def finish_batch(spark: SparkSession, checkpoint: str, start: Callable[[Mapping[str, Any]], StreamingQuery]) -> None:
    """Nothing, if the checkpoint has no batch that was begun and not finished.

    Raises:
        QueryError: it cannot be finished.
    """
    if pyspark.__version__ not in FAULTY or not _is_begun(spark, checkpoint):
        return
    try:
        start({"availableNow": True}).awaitTermination()
    except StreamingQueryException as error:
        if not all(part in str(error) for part in _FAULT):
            raise QueryError(f"the query's last batch cannot be finished: {cause_line(error)}") from None


def _is_begun(spark: SparkSession, checkpoint: str) -> bool:
    return _last_batch(spark, f"{checkpoint}/offsets") > _last_batch(spark, f"{checkpoint}/commits")


def _last_batch(spark: SparkSession, folder: str) -> int:
    """The number of the last one noted; -1: none. By Spark, for the folder may be in any of its file systems."""
    try:
        found = spark.read.format("binaryFile").load(folder).select("path").collect()
    except AnalysisException:  # the query is new
        return -1
    names = [row["path"].rpartition("/")[2] for row in found]
    return max((int(name) for name in names if name.isdigit()), default=-1)
