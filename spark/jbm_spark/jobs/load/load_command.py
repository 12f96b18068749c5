"""`jbm-spark load FILE QUEUE`: the rows of a file as messages."""

import warnings
from pathlib import Path

import click

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Whole
from jbm_kafka.cli.connect import as_queue
from jbm_kafka.core.destination import Queue
from jbm_spark.errors import ColumnsIgnoredWarning
from jbm_spark.jobs.job import in_session, job_options
from jbm_spark.jobs.load.file_blocks import files_of
from jbm_spark.jobs.load.load_run import FORMATS, format_of, run
from jbm_spark.topic_check import check_topics


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.argument("queue", metavar="DEST", callback=as_queue)
@click.option("--format", "file_format", type=click.Choice(FORMATS), help="What the file is. [by its ending]")
@click.option("--glob", "is_glob", is_flag=True, help="FILE is a pattern: all files whose names fit.")
@click.option("--order-by", metavar="COLUMN", multiple=True, help="Order within a unit. [as the file has the rows]")
@click.option("--job", metavar="NAME", help="A second run of a job sends only what the first did not. [made of the "
              "file's name and content]")  # fmt: skip
@click.option("--rejects", metavar="FILE|FOLDER", type=click.Path(path_type=Path),
              help="Rows that are no message go there, and the others are sent. [a bad row ends the load]")  # fmt: skip
@click.option("--rate", metavar="N", type=Whole(1), help="At most N messages a second.")
@click.option("--state", metavar="FOLDER", type=click.Path(path_type=Path, file_okay=False),
              help="What jobs have done is kept there. [~/.local/state/jbm-kafka/loads]")  # fmt: skip
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Read and check all rows, count, and send nothing.")
@job_options
def load(
    path: Path, queue: Queue, file_format: str | None, is_glob: bool, order_by: tuple[str, ...], job: str | None,
    rejects: Path | None, rate: int | None, state: Path | None, is_dry_run: bool, cluster: Cluster,
    master: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Send the rows of a file to a queue: a row, a message. Columns: body_text, unit_of_order, properties, ..."""
    if not is_glob and not path.exists():
        raise click.BadParameter(f"{str(path)!r} does not exist", param_hint="FILE")

    def check(cluster: Cluster) -> None:
        format_of(files_of(path, is_glob=is_glob)[0], file_format)
        check_topics([queue], about=f"write to {queue}", bootstrap=cluster.bootstrap, namespace=cluster.namespace,
                     kafka=cluster.kafka)  # fmt: skip

    def tell(text: str) -> None:
        if not as_json:
            click.echo(f"jbm-spark: {text}", err=True)

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ColumnsIgnoredWarning)
        try:
            in_session(
                "load",
                lambda spark: run(
                    spark, path, queue, bootstrap=cluster.bootstrap, namespace=cluster.namespace, kafka=cluster.kafka,
                    file_format=file_format, order_by=order_by, job=job, rejects=rejects, rate=rate, state=state,
                    is_glob=is_glob, is_dry_run=is_dry_run, tell=tell,
                ),
                cluster=cluster, master=master, as_json=as_json, check=check,
            )  # fmt: skip
        finally:
            for each in warned:
                if each.category is ColumnsIgnoredWarning:
                    click.echo(f"jbm-spark: warning: {each.message}", err=True)
