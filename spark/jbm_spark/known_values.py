"""A process's knowledge as columns and frames, which Spark has in its plans: no task, and no worker in Python."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def looked_up(key: Column, known: Mapping[str, object], kind: str = "string") -> Column:
    """The value of the key, of that type; null of one that is not named. No join, and no expression for each."""
    return F.try_element_at(F.from_json(F.lit(json.dumps(known)), f"map<string,{kind}>"), key)


def known_rows(spark: SparkSession, rows: Iterable[Sequence[object]], schema: str) -> DataFrame:
    """The rows, with a schema in the words of Spark's DDL. `createDataFrame` of a list starts workers to copy it."""
    struct: Any = StructType.fromDDL(schema)
    fields = to_arrow_schema(struct, timezone="UTC")
    columns = [*zip(*rows, strict=True)] or [()] * len(fields)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    table: Any = pa.Table.from_arrays(arrays, schema=fields)  # which PySpark takes, and its types do not say so
    frame: DataFrame = spark.createDataFrame(table, struct)
    return frame
