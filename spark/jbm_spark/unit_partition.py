"""The partition of a key, as our senders find it, for Spark.

Spark's sink would hash a key alike, but by the count of partitions that the topic has at that moment. Units are routed
by the count that is recorded for their queue (docs/decisions/0013-the-count-that-routes.md), so this
module gives every record its partition and the sink does not choose.
"""

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.core.murmur2 import partition_for


def partition_of(key: Column, partition_count: int) -> Column:
    """The partition of a binary key that is not empty, as an int; 0 of null, for a row that is not written.

    In Python, on the executors, each key of an Arrow batch once: row by row it was measured to take three times as
    long, and so it was in Spark's own expressions.
    """

    def partitions(keys: pa.Array) -> pa.Array:
        found = keys.dictionary_encode()
        known = [partition_for(key, partition_count) for key in found.dictionary.to_pylist()]
        return pa.array(known, pa.int32()).take(found.indices).fill_null(0)

    found: Column = F.arrow_udf(partitions, "int")(key)  # type: ignore[attr-defined]  # not in PySpark's stubs
    return found
