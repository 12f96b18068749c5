"""The frames of many queues as views in SQL, by one call."""

import os
from collections.abc import Mapping
from contextlib import closing

from jbm_spark.cluster_in_use import cluster_in_use
from jbm_spark.extra import pyspark_missing

try:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F  # noqa: N812
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.settings.address_pattern import checked_pattern
from jbm_spark.archiving.archive_folder import DESTINATION
from jbm_spark.archiving.archive_reading import read_archive
from jbm_spark.archiving.quality_table import checked_table
from jbm_spark.call_checks import check_session
from jbm_spark.call_sites import without_call_sites
from jbm_spark.changelog import held_of
from jbm_spark.columns import message_columns
from jbm_spark.committed import committed_records
from jbm_spark.events import events
from jbm_spark.queue_pattern import queues_named
from jbm_spark.raw_columns import shown
from jbm_spark.topic_check import TIMEOUT_S
from jbm_spark.views import letters_there


@without_call_sites()
def create_views_of_queues(
    spark: SparkSession,
    pattern: str,
    *,
    bootstrap: str | None = None,
    dead_letters: str | Destination | None = None,
    archive: str | os.PathLike[str] | None = None,
    quality: str | os.PathLike[str] | None = None,
    prefix: str = "",
    is_global: bool = False,
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> None:
    """Make the views of all queues whose names are as the pattern, such as `orders.*`, or `#` for all: one of each
    kind, with the column `destination`, as in `queue:orders.eu`, that tells whose a row is.

    They are `messages`, `held`, `events` and `letters`, and `archive`, the messages of an archive of many queues, where
    its folder is given, and `quality`, the hours that `jbm-spark quality` told in that folder. Make them anew for
    queues that came later.

    Args:
        is_global: the views are Spark's global temporary ones, `global_temp.messages`, for all sessions of the program,
            as those of a thrift server's clients are.

    Raises:
        InvalidSettingError: it is no pattern.
        ArchiveError: there is no such archive.
        SparkJobError: no queue has such a name; there are no hours in that folder.
        The rest as `messages` and `held`.
    """
    check_session(spark)
    bootstrap, namespace, kafka = cluster_in_use(bootstrap, namespace, kafka)
    pattern = checked_pattern(pattern)
    core = AdminCore(bootstrap, kafka, namespace, TIMEOUT_S)
    with closing(core), core.asking(f"read {pattern}"):
        groups = [core.group(queue) for queue in queues_named(core.catalog, pattern)]
        still = held_of(spark, core.admin, groups, bootstrap=bootstrap, kafka=kafka, options=options)
    names = sorted(group.topic for group in groups)
    records = committed_records(spark, ",".join(names), bootstrap=bootstrap, kafka=kafka, options=options)
    fates = events(spark, bootstrap=bootstrap, namespace=namespace, kafka=kafka, options=options)
    given_up = letters_there(spark, dead_letters, bootstrap, namespace, kafka, options)
    of_record, of_event = F.concat(F.lit("queue:"), "kafka.topic"), F.concat(F.lit("queue:"), "topic")
    frames = {
        "messages": shown(message_columns(records), raw=False).withColumn(DESTINATION, of_record),
        "held": shown(still, raw=False).withColumn(DESTINATION, of_record),
        "events": fates.where(F.col("group").isin(*(group.group_id for group in groups))).withColumn(
            DESTINATION, of_event
        ),
        "letters": given_up.withColumn(DESTINATION, F.col("origin_destination")).where(
            F.col(DESTINATION).isin(*(f"queue:{name}" for name in names))
        ),
    }
    if archive is not None:
        kept = read_archive(spark, archive).withColumn(DESTINATION, of_record)
        frames["archive"] = kept.where(F.col("kafka.topic").isin(*names))
    if quality is not None:
        path = checked_table(quality)
        kind = "GLOBAL TEMPORARY" if is_global else "TEMPORARY"
        # As text: so each query lists the files anew, which runs of the job replace.
        spark.sql(f"""
            CREATE OR REPLACE {kind} VIEW {_quoted(f"{prefix}quality")} AS
            SELECT * FROM parquet.{_quoted(str(path))}
            WHERE destination IN ({", ".join(f"'queue:{name}'" for name in names)})
        """)
    for name, frame in frames.items():
        if is_global:
            frame.createOrReplaceGlobalTempView(prefix + name)
        else:
            frame.createOrReplaceTempView(prefix + name)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
