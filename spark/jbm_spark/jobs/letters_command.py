"""`jbm-spark dead-letters`: why messages died; and `retry`, which sends some of them again."""

import click

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Seconds, Text, Whole
from jbm_kafka.cli.connect import LETTERS_SHOWN, as_destination, as_queue
from jbm_kafka.cli.lazy import CommandGroup
from jbm_kafka.core.destination import Queue, Topic
from jbm_spark.dead_letter_queue import dead_letter_queue
from jbm_spark.jobs import dead_letters as report
from jbm_spark.jobs import letter_retry
from jbm_spark.jobs.job import in_session, job_options
from jbm_spark.kafka_properties import kafka_options
from jbm_spark.topic_check import check_topics


@click.group(name="dead-letters", cls=CommandGroup, invoke_without_command=True)
@click.option("--from", "source", metavar="DEST", callback=as_queue, show_default=LETTERS_SHOWN,
              help="The dead-letter or expiry queue.")  # fmt: skip
@click.option("--dead-letters", "old_source", hidden=True, callback=as_queue)  # what `--from` was called
@click.option("--queue", metavar="DEST", callback=as_queue, help="Also tell what this queue's topic holds.")
@click.option("--top", metavar="N", type=Whole(1, 1_000), default=5, show_default=True,
              help="So many of the queue's largest units.")  # fmt: skip
@job_options
@click.pass_context
def dead_letters(
    context: click.Context, source: Queue | None, old_source: Queue | None, queue: Queue | None, top: int,
    cluster: Cluster, master: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Tell why messages died: the dead-letter queue by reason, error and age. Nothing is received, nothing written."""
    if context.invoked_subcommand is not None:
        return
    letters = old_source or source
    in_session(
        "dead-letters",
        lambda spark: report.run(
            spark, _name(letters), bootstrap=cluster.bootstrap, namespace=cluster.namespace,
            kafka=cluster.kafka, queue=None if queue is None else queue.name, top=top,
        ),
        cluster=cluster, master=master, as_json=as_json,
        check=lambda cluster: _check(cluster, letters, *([] if queue is None else [queue])),
    )  # fmt: skip


@dead_letters.command(short_help="Send dead letters that SQL chooses to where they came from.")
@click.option("--from", "source", metavar="DEST", callback=as_queue, show_default=LETTERS_SHOWN,
              help="The dead-letter or expiry queue.")  # fmt: skip
@click.option("--queue", metavar="DEST", callback=as_destination, help="Only those from this queue, or topic:NAME.")
@click.option("--where", metavar="SQL", type=Text("a condition is not empty; leave it out for all"),
              help="Only those of which it is so, as in \"last_error LIKE 'LookupError%'\".")  # fmt: skip
@click.option("--limit", metavar="N", type=Whole(1), help="Only the N that died first. [all]")
@click.option("--rate", metavar="N", type=Seconds(0.001), help="At most N a second.")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Tell what would be sent, and what has overtaken it.")
@job_options
def retry(
    source: Queue | None, queue: Queue | Topic | None, where: str | None, limit: int | None, rate: float | None,
    is_dry_run: bool, cluster: Cluster, master: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Send dead letters to where they came from, in order, each exactly once. With exit code 3 some had to stay."""
    in_session(
        "dead-letters retry",
        lambda spark: letter_retry.run(
            spark, _name(source), bootstrap=cluster.bootstrap, namespace=cluster.namespace,
            kafka=cluster.kafka, queue=None if queue is None else str(queue), where=where, limit=limit, rate=rate,
            is_dry_run=is_dry_run,
        ),
        cluster=cluster, master=master, as_json=as_json, check=lambda cluster: _check(cluster, source),
    )  # fmt: skip


def _name(queue: Queue | None) -> str | None:
    return None if queue is None else queue.name


def _check(cluster: Cluster, letters: Queue | None, *others: Queue) -> None:
    """A wrong address fails in a moment, not after Spark's start."""
    letters = letters or Queue(dead_letter_queue(cluster.bootstrap, cluster.namespace, cluster.kafka))
    queues = (letters, *others)
    check_topics(queues, about="read " + " and ".join(map(str, queues)), bootstrap=cluster.bootstrap,
                 namespace=cluster.namespace, kafka=cluster.kafka)  # fmt: skip
    kafka_options(cluster.kafka)
