"""`jbm-spark quality`.

jbm-spark quality 'orders.*' --to /data/quality --archive /data/orders
"""

import click

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.core.destination import Destination, Queue
from jbm_spark.errors import SparkJobError
from jbm_spark.jobs.job import Pattern, as_seconds, check_queues, in_session, job_options, many_queues
from jbm_spark.jobs.quality.run_quality import LATE_S, run


@click.command(name="quality", short_help="Keep a table of each hour: counts, times, the oldest open, faults.")
@many_queues
@click.option("--to", "folder", metavar="FOLDER", required=True, help="The table; made if it is missing.")
@click.option("--archive", metavar="FOLDER", help="Also what `jbm-spark archive` keeps there.")
@click.option("--late", "late_s", metavar="TIME", callback=as_seconds,
              help="The hours of so long before now are told anew, for what came late. [24h]")  # fmt: skip
@job_options
def quality(
    destination: Destination | str | Pattern, folder: str, archive: str | None, late_s: float | None, cluster: Cluster,
    master: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Keep a table of each hour of a queue, or of many: sent, acknowledged, returned, given up, expired, how long it
    took, the oldest message that was open, and what an audit finds. Nothing is acknowledged."""
    if isinstance(destination, Destination) and not isinstance(destination, Queue):
        raise SparkJobError(f"{destination}: hours are told of queues; name one, or a pattern")
    names = destination if isinstance(destination, Pattern) else Pattern(getattr(destination, "name", str(destination)))
    in_session(
        "quality",
        lambda spark: run(spark, names.text, folder, bootstrap=cluster.bootstrap, archive=archive,
                          late_s=late_s or LATE_S, namespace=cluster.namespace, kafka=cluster.kafka),
        cluster=cluster, master=master, as_json=as_json, check=lambda cluster: check_queues(names, cluster),
    )  # fmt: skip
