"""`jbm-spark archive`.

jbm-spark archive orders --to /data/orders [--every 5m] [--format delta]
jbm-spark archive 'orders.*' --to /data/all-orders
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.core.destination import Destination, Queue
from jbm_spark.jobs.archive.run_archive import run, run_queues
from jbm_spark.jobs.job import Pattern, as_seconds, check_queues, in_session, job_options, many_queues
from jbm_spark.topic_check import check_topics, cluster_id


@contextmanager
def _stopped_by_signal() -> Iterator[threading.Event]:
    """An event that SIGTERM sets: the batch in hand is published before the end."""
    stop = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: stop.set())
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)


@click.command(short_help="Keep messages, and what became of them, as Parquet files or tables.")
@many_queues
@click.option("--to", "folder", metavar="FOLDER", required=True,
              help="The archive, also s3a://bucket/path; made if it is missing.")  # fmt: skip
@click.option("--every", "every_s", metavar="TIME", callback=as_seconds, help="Again after 5m, 1h, ..., until ended.")
@click.option(
    "--format", "file_format", metavar="FORMAT", help="parquet, delta or iceberg. [what it has; else parquet]"
)
@click.option("--accept-loss", is_flag=True, help="Go on without messages that were deleted before they were archived.")
@job_options
def archive(
    destination: Destination | str | Pattern, folder: str, every_s: float | None, file_format: str | None,
    accept_loss: bool, cluster: Cluster, master: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Keep what a queue or topic, or many queues, have had since the last run in a folder. Nothing is acknowledged,
    nothing deleted."""
    source = Queue(destination) if isinstance(destination, str) else destination

    def check(cluster: Cluster) -> None:
        from jbm_spark.archiving.archive_folder import EVENTS, MANY, MESSAGES, archive_path, is_here, locked_archive
        from jbm_spark.archiving.archive_tables import archive_table

        path = archive_path(folder)
        if isinstance(source, Pattern):
            check_queues(source, cluster)
        else:
            check_topics([source], about=f"archive {source}", bootstrap=cluster.bootstrap, namespace=cluster.namespace,
                         kafka=cluster.kafka)  # fmt: skip
        if not is_here(folder):  # a session has to look there
            return
        at = cluster_id(cluster.bootstrap, cluster.kafka)
        name = f"{MANY}:{source.text}" if isinstance(source, Pattern) else str(source)
        with locked_archive(path, destination=name, cluster_id=at, file_format=file_format) as whose:
            for table in (MESSAGES, EVENTS):  # what cannot be used is told before Spark has started
                archive_table(path, table, whose).manifests()

    def tell(line: str) -> None:
        print(f"jbm-spark: {line}", file=sys.stderr, flush=True)

    told = None if as_json else tell
    about = {"bootstrap": cluster.bootstrap, "namespace": cluster.namespace, "kafka": cluster.kafka}
    with _stopped_by_signal() as stop:
        if isinstance(source, Pattern):
            text = source.text
            in_session(
                "archive",
                lambda spark: run_queues(spark, text, folder, **about, every_s=every_s, stop=stop,  # type: ignore[arg-type]
                                         file_format=file_format, accept_loss=accept_loss, tell=told),
                cluster=cluster, master=master, as_json=as_json, check=check,
            )  # fmt: skip
        else:
            in_session(
                "archive",
                lambda spark: run(spark, source, folder, **about, every_s=every_s, file_format=file_format, stop=stop,  # type: ignore[arg-type]
                                  accept_loss=accept_loss, tell=told),
                cluster=cluster, master=master, as_json=as_json, check=check,
            )  # fmt: skip
