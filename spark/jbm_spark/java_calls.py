"""Static methods of Java as columns, where this process has a JVM and the class is there."""

from collections.abc import Sequence
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column, is_remote

MESSAGE_COLUMNS = "jbm.spark.MessageColumns"
AVRO_BODIES = "jbm.spark.AvroBodies"
RECORD_HEADERS = "jbm.spark.RecordHeaders"
TEXTS = "jbm.spark.Texts"


def has_class(name: str) -> bool:
    """Return True if queries of this process may call it."""
    if is_remote():
        return False
    return bool(of_java("org.apache.spark.util.Utils").classIsLoadable(name))


def called(class_name: str, method: str, result: str, arguments: Sequence[Column], *, takes_null: bool) -> Column:
    """Return what a static method of Java gives: an expression for which PySpark has no function.

    `result` is its type, as Spark writes it. With a null among its arguments that is null, unless it `takes_null`.
    """
    jvm = _jvm()
    columns, sequence = of_java("org.apache.spark.sql.classic.ExpressionUtils"), jvm.PythonUtils.toSeq
    owner = of_java("org.apache.spark.util.Utils").classForName(class_name, True, True)
    given, nothing = of_java("java.util.ArrayList")(), of_java("java.util.ArrayList")()
    for each in arguments:
        given.add(columns.expression(each._jc))
    call = of_java("org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke")(
        owner, of_java("org.apache.spark.sql.types.DataType").fromDDL(result), method, sequence(given),
        sequence(nothing), not takes_null, True, True, of_java("scala.Option").empty(),
    )  # fmt: skip
    return Column(columns.column(call))


def _jvm() -> Any:
    context = SparkContext._active_spark_context
    assert context is not None
    return context._jvm


def of_java(name: str) -> Any:
    """The class of this process's JVM."""
    return getattr(_jvm(), name)  # the name whole, or Java looks for a class of each part of it in all jars
