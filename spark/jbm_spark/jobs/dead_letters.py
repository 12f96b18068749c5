"""Why messages died: the dead-letter topic by reason and original destination, and what a queue's topic holds.

    jbm-spark dead-letters --bootstrap localhost:9092 [--from DLQ] [--queue orders] [--json]

Reads only committed messages, acknowledges nothing, and can run beside live receivers. The two topics are read one
after the other, each to its end at that moment.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Whole, json_option
from jbm_kafka.cli.connect import as_queue
from jbm_kafka.codec.dead_letter import DEAD_LETTER_REASON, DELIVERY_COUNT, ORIG_DESTINATION, ORIG_MESSAGE_ID
from jbm_kafka.core.destination import Queue
from jbm_spark.jars import installed_pyspark
from jbm_spark.jobs.report import DeadLetterGroup, DeadLetterReport, QueueContent, as_json_line, as_text
from jbm_spark.kafka_properties import kafka_options
from jbm_spark.topic_check import check_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

EXAMPLES_MAX = 3
"""Examples of each group in the report: the first by partition and offset."""

GROUPS_MAX = 1_000
"""Groups in the report; reasons and destinations are few, unless a foreign producer invents them."""


def dead_letter_groups(letters: "DataFrame") -> list[DeadLetterGroup]:
    """Dead letters (rows of `messages`) by reason and original destination, the largest group first."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    from jbm_spark.columns import property_column

    narrow = letters.select(
        property_column(DEAD_LETTER_REASON).alias("reason"),
        property_column(ORIG_DESTINATION).alias("destination"),
        property_column(DELIVERY_COUNT, "int").alias("attempts"),
        F.unix_millis("kafka.timestamp").alias("at_ms"),
        F.coalesce(property_column(ORIG_MESSAGE_ID), "message_id").alias("id"),
        F.col("unit_of_order").alias("unit"),
        F.col("kafka.partition").alias("partition"),
        F.col("kafka.offset").alias("offset"),
    )
    in_log_order = Window.partitionBy("reason", "destination").orderBy("partition", "offset")
    ranked = narrow.withColumn("rank", F.row_number().over(in_log_order))
    example = F.when(F.col("rank") <= EXAMPLES_MAX, F.struct("rank", "id", "unit"))
    rows = (
        ranked.groupBy("reason", "destination")
        .agg(
            F.count("*").alias("letters"),
            F.max("attempts").alias("attempts_max"),
            F.min("at_ms").alias("first_at_ms"),
            F.max("at_ms").alias("last_at_ms"),
            F.sort_array(F.collect_list(example)).alias("examples"),  # collect_list leaves nulls out: bounded
        )
        .orderBy(F.desc("letters"), "reason", "destination")
        .limit(GROUPS_MAX)
        .collect()
    )
    return [
        DeadLetterGroup(
            reason=row["reason"],
            destination=row["destination"],
            count=row["letters"],
            attempts_max=row["attempts_max"],
            first_at_ms=row["first_at_ms"],
            last_at_ms=row["last_at_ms"],
            example_ids=tuple(found["id"] for found in row["examples"]),
            example_units=tuple(dict.fromkeys(found["unit"] for found in row["examples"] if found["unit"] is not None)),
        )
        for row in rows
    ]


def queue_content(name: str, held: "DataFrame", *, top: int) -> QueueContent:
    """Messages of a queue's topic (rows of `messages`) by body kind, and its `top` largest units."""
    from pyspark.sql import functions as F  # noqa: N812

    counted = held.groupBy("body_kind", "unit_of_order").agg(F.count("*").alias("n")).cache()
    try:
        kinds = counted.groupBy("body_kind").agg(F.sum("n").alias("n")).orderBy(F.desc("n"), "body_kind").collect()
        units = counted.where(F.col("unit_of_order").isNotNull()).groupBy("unit_of_order").agg(F.sum("n").alias("n"))
        largest = units.orderBy(F.desc("n"), "unit_of_order").limit(top).collect()
        return QueueContent(
            name=name,
            count=sum(row["n"] for row in kinds),
            unit_count=units.count(),
            by_body_kind=tuple((row["body_kind"], row["n"]) for row in kinds),
            largest_units=tuple((row["unit_of_order"], row["n"]) for row in largest),
        )
    finally:
        counted.unpersist()


def run(
    bootstrap: str,
    *,
    dead_letters: str,
    queue: str | None,
    top: int,
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    is_quiet: bool = True,
) -> DeadLetterReport:
    """The report, from a Spark session of its own that is stopped again. `kafka` are librdkafka's properties.

    Raises:
        SparkJobError: the broker, a topic, Java or the jars are not there, or Spark failed.
        InvalidDestinationError: no legal name.
    """
    installed_pyspark()
    queues = [Queue(name) for name in (dead_letters, queue) if name is not None]
    about = "read " + " and ".join(map(str, queues))
    check_topics(queues, about=about, bootstrap=bootstrap, namespace=namespace, kafka=kafka)
    kafka_options(kafka or {})
    # Only now: a wrong address fails in a moment, not after Spark's start.
    from jbm_spark.messages import messages
    from jbm_spark.session import job_session

    with job_session("jbm dead-letters", is_quiet=is_quiet) as spark:

        def rows(name: str) -> "DataFrame":
            return messages(spark, name, bootstrap=bootstrap, namespace=namespace, kafka=kafka)

        groups = dead_letter_groups(rows(dead_letters))
        content = None if queue is None else queue_content(queue, rows(queue), top=top)
        return DeadLetterReport(dead_letters=dead_letters, groups=tuple(groups), queue=content)


@click.command(name="dead-letters")
@click.option("--from", "source", metavar="DEST", callback=as_queue, default="DLQ", show_default=True,
              help="The dead-letter or expiry queue.")  # fmt: skip
@click.option("--dead-letters", "old_source", hidden=True, callback=as_queue)  # what `--from` was called
@click.option("--queue", metavar="DEST", callback=as_queue, help="Also tell what this queue's topic holds.")
@click.option("--top", metavar="N", type=Whole(1, 1_000), default=5, show_default=True,
              help="So many of the queue's largest units.")  # fmt: skip
@cluster_options
@json_option
def dead_letters(
    source: Queue, old_source: Queue | None, queue: Queue | None, top: int, cluster: Cluster, as_json: bool
) -> None:
    """Tell why messages died: the dead-letter queue by reason and origin. Nothing is received, nothing written."""
    letters, held = old_source or source, None if queue is None else queue.name
    report = run(cluster.bootstrap, dead_letters=letters.name, queue=held, top=top, namespace=cluster.namespace,
                 kafka=cluster.kafka, is_quiet=as_json)  # fmt: skip
    click.echo(as_json_line(report) if as_json else as_text(report))
