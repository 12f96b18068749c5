"""The partition of a key, as our senders find it, for Spark.

Spark's sink would hash a key alike, but by the count of partitions that the topic has at that moment. Units are routed
by the count that is recorded for their queue (decision 13), so this
module gives every record its partition and the sink does not choose.
"""

from pyspark.sql import Column, is_remote
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.core.murmur2 import partition_for
from jbm_spark.java_calls import called

_NOT_NEGATIVE = 0x7FFFFFFF


def partition_of(key: Column, partition_count: int) -> Column:
    """The partition of a binary key that is not empty, as an int; 0 of null, for a row that is not written.

    By the hash of Kafka's own client, which every session has in its jars: compiled with the rest of the query. Over
    Connect, where there is no JVM to name it to, in Python on the executors.
    """
    if not is_remote():
        kafkas = called("org.apache.kafka.common.utils.Utils", "murmur2", "int", [key], takes_null=False)
        return F.coalesce(kafkas.bitwiseAND(_NOT_NEGATIVE) % partition_count, F.lit(0))

    def partition(found: bytearray | None) -> int:
        return 0 if found is None else partition_for(bytes(found), partition_count)

    return F.udf(partition, "int", useArrow=False)(key)
