"""Key and headers of the records that messages came in: hidden, for their columns say the same, until something asks.

A frame's column `kafka` is the record's place. Writing on needs the rest of the record, so a frame carries it along as
a column that `*` does not show and no file gets, as Spark carries `_metadata` of files; where nothing asks for it, it
is not read. Spark Connect has no such columns: there `raw=True` shows them.
"""

from typing import Any, cast

from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, is_remote
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

HIDDEN = "kafka_raw"
"""The name of the hidden column: a struct of `key` and `headers`."""
_PLACE = ("topic", "partition", "offset", "timestamp")
_RAW = ("key", "headers")
_MARK = "__metadata_col"
"""Spark's name for them in the metadata of a column."""


def shown(frame: DataFrame, *more: str, raw: bool) -> DataFrame:
    """The frame of `message_columns` as users get it: `kafka` with key and headers only where it is to be `raw`. `more`
    are columns that are hidden as well."""
    record = F.col("kafka") if raw else F.struct(*(F.col("kafka")[name].alias(name) for name in _PLACE)).alias("kafka")
    columns = [record if name == "kafka" else F.col(name) for name in frame.columns if name not in more]
    if is_remote():
        return frame.select(*columns)
    hidden = {
        HIDDEN: F.struct(*(F.col("kafka")[name].alias(name) for name in _RAW)),
        **{each: F.col(each) for each in more},
    }
    marked = [column.alias(name, metadata={_MARK: True}) for name, column in hidden.items()]
    carrying = frame.select(*[F.col(name) for name in frame.columns if name not in more], *marked)
    showing = carrying.select(*columns)
    jvm = cast(Any, SparkContext._active_spark_context)._jvm
    project = getattr(jvm, "org.apache.spark.sql.catalyst.plans.logical.Project")
    output = carrying._jdf.logicalPlan().output()
    attributes = jvm.PythonUtils.toSeq([output.apply(output.size() - each) for each in range(len(hidden), 0, -1)])
    showing._jdf.logicalPlan().setTagValue(project.hiddenOutputTag(), attributes)
    return showing


def with_raw(frame: DataFrame) -> DataFrame:
    """The frame with all of the record in `kafka`, for writing on; as it is where that is not known."""
    held = frame.schema["kafka"].dataType if "kafka" in frame.columns else None
    if not isinstance(held, StructType) or {*_PLACE[:3]} - {*held.names} or {*_RAW} & {*held.names} or is_remote():
        return frame
    raw = [F.col(HIDDEN)[name].alias(name) for name in _RAW]
    record = F.struct(*(F.col("kafka")[name].alias(name) for name in held.names), *raw)
    try:
        return frame.withColumn("kafka", F.when(F.col("kafka").isNotNull(), record))
    except AnalysisException:
        return frame


def raw_headers() -> Column:
    """Return those of a frame that `shown` gave."""
    return F.col("kafka.headers") if is_remote() else F.col(f"{HIDDEN}.headers")


def headers_of(frame: DataFrame) -> Column:
    """The headers of the frame's records, shown or hidden."""
    held = frame.schema["kafka"].dataType if "kafka" in frame.columns else None
    if isinstance(held, StructType) and "headers" in held.names:
        return F.col("kafka.headers")
    return raw_headers()
