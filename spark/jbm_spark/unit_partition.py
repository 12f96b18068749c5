"""The partition of a key, as our senders find it, for Spark.

Spark's sink would hash a key alike, but by the count of partitions that the topic has at that moment. Units are routed
by the count that is recorded for their queue (docs/decisions/0013-the-count-that-routes.md), so this
module gives every record its partition and the sink does not choose.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.core.murmur2 import partition_for


def partition_of(key: Column, partition_count: int) -> Column:
    """The partition of a binary key that is not empty, as an int; 0 of null, for a row that is not written.

    In Python, on the executors: the same in Spark's own expressions was measured to be three times as slow.
    """

    def partition(found: bytearray | None) -> int:
        return 0 if found is None else partition_for(bytes(found), partition_count)

    # Without Arrow: nothing else here needs it.
    return F.udf(partition, "int", useArrow=False)(key)
