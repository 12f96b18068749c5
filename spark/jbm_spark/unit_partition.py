"""The partition of a key, as our senders find it, for Spark.

Spark's sink would hash a key alike, but by the count of partitions that the topic has at that moment. Units are routed
by the count that is recorded for their queue (docs/decisions/0013-the-count-that-routes.md), so this
module gives every record its partition and the sink does not choose.
"""

from pyspark.sql import Column, is_remote
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.core.murmur2 import partition_for


def partition_of(key: Column, partition_count: int) -> Column:
    """The partition of a binary key that is not empty, as an int; 0 of null, for a row that is not written.

    In Python, on the executors: row by row, and in Spark's own expressions, it was measured to take three times as long
    as by Arrow's batches.
    """
    if not is_remote():
        from jbm_spark.arrow_batches import partitions

        return partitions(key, partition_count)

    def partition(found: bytearray | None) -> int:
        return 0 if found is None else partition_for(bytes(found), partition_count)

    return F.udf(partition, "int", useArrow=False)(key)
