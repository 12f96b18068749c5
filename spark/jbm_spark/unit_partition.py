"""The partition of a key, as our senders find it, for Spark.

Spark's sink would hash a key alike, but by the count of partitions that the topic has at that moment. Units are routed
by the count that is recorded for their queue (docs/decisions/0013-the-count-that-routes.md), so this
module gives every record its partition and the sink does not choose.
"""

from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column, is_remote
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.core.murmur2 import partition_for

_NOT_NEGATIVE = 0x7FFFFFFF


def partition_of(key: Column, partition_count: int) -> Column:
    """The partition of a binary key that is not empty, as an int; 0 of null, for a row that is not written.

    By the hash of Kafka's own client, which every session has in its jars: compiled with the rest of the query. Over
    Connect, where there is no JVM to name it to, in Python on the executors.
    """
    if not is_remote():
        return F.coalesce(_kafkas_murmur2(key).bitwiseAND(_NOT_NEGATIVE) % partition_count, F.lit(0))

    def partition(found: bytearray | None) -> int:
        return 0 if found is None else partition_for(bytes(found), partition_count)

    return F.udf(partition, "int", useArrow=False)(key)


def _kafkas_murmur2(key: Column) -> Column:
    """Calls a static method of Java by an expression for which PySpark has no function."""
    context = SparkContext._active_spark_context
    assert context is not None
    jvm: Any = context._jvm

    def of_java(name: str) -> Any:
        return getattr(jvm, name)  # the name whole, or Java looks for a class of each part of it in all jars

    columns, sequence = of_java("org.apache.spark.sql.classic.ExpressionUtils"), jvm.PythonUtils.toSeq
    of_kafka = of_java("org.apache.spark.util.Utils").classForName("org.apache.kafka.common.utils.Utils", True, True)
    arguments, nothing = of_java("java.util.ArrayList")(), of_java("java.util.ArrayList")()
    arguments.add(columns.expression(key._jc))
    call = of_java("org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke")(
        of_kafka, of_java("org.apache.spark.sql.types.DataTypes").IntegerType, "murmur2", sequence(arguments),
        sequence(nothing), True, True, True, of_java("scala.Option").empty(),
    )  # fmt: skip
    return Column(columns.column(call))
