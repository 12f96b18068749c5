"""Spark reads jbm-kafka's topics: messages as typed columns, and the jobs operators want.

Spark only reads and produces messages. It never acknowledges one and never writes a changelog, so a job can run beside
live receivers at any time. Needs the extra `spark`: PySpark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession", queues: str | None = None, **views: Any) -> None:
    """Make format "jbm" known to a session that does not find it by itself, for its Python path came later; and, of the
    queues that a pattern such as `orders.*` names, the views of SQL.

    Args:
        queues: a pattern; None: no views.
        views: the arguments of `jbm_spark.jobs.views_of_queues.create_views_of_queues`, such as `bootstrap`, `prefix`
            and `archive`.

    Raises:
        As that function.
    """
    # By its name, as Spark itself finds it: the format is built on this package, and not the other way round.
    spark.dataSource.register(import_module("pyspark_jbm").DefaultSource)
    if queues is not None:
        import_module("jbm_spark.jobs.views_of_queues").create_views_of_queues(spark, queues, **views)
