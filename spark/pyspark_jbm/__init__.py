"""Spark's format "jbm": a Python data source, for SQL, Spark Connect and pipelines, where no connector jar is needed.

Spark looks into every package that is named `pyspark_...` for a `DefaultSource`. It reads by the Python codec what
`jbm_spark.messages` reads by Spark expressions, and gives the same columns.
"""

from pyspark_jbm.jbm_format import DefaultSource

__all__ = ["DefaultSource"]
