"""Sends the rows of a file to a queue, one message each.

    jbm-spark load orders.json orders [--format json|csv|parquet|text] [--order-by COLUMN] [--job NAME] [--dry-run]

Columns are those of a message (docs/spark.md). Run again after a failure, the same rows have the same ids.
"""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import emit, json_option
from jbm_kafka.cli.connect import as_queue
from jbm_kafka.core.destination import Queue
from jbm_spark.causes import cause_line
from jbm_spark.errors import ColumnsIgnoredWarning, FrameRefusedError, SparkJobError, WriteError
from jbm_spark.jars import installed_pyspark
from jbm_spark.jobs.file_lines import files_of, json_fault, place_of
from jbm_spark.topic_check import check_topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("json", "csv", "parquet", "text")
"""json: an object a line; csv: the first line names the columns; text: a line, a message."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What was done."""

    queue: str
    rows: int
    job: str
    """What the ids are made of, beside the rows."""
    is_dry_run: bool


def rows_of(spark: "SparkSession", path: Path, file_format: str) -> "DataFrame":
    """The rows of a file or of a folder of files; what cannot be read ends the job and is not left out.

    Raises:
        SparkJobError: it names the file, and of JSON the line.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return _rows(spark, path, file_format)
    except (PySparkException, Py4JError) as error:
        fault = json_fault(path) if file_format == "json" else None
        raise SparkJobError(fault or f"{path} cannot be read as {file_format}: {cause_line(error)}") from None


def _rows(spark: "SparkSession", path: Path, file_format: str) -> "DataFrame":
    if file_format == "text":
        return spark.read.text(str(path)).withColumnRenamed("value", "body_text")
    reader = spark.read.option("mode", "FAILFAST")
    if file_format == "csv":
        return reader.option("header", "true").option("inferSchema", "true").csv(str(path))
    return reader.format(file_format).load(str(path))


def check_content(path: Path) -> None:
    """Raises SparkJobError when there is nothing to read, which Spark takes for a frame without columns."""
    files = files_of(path)
    if not files:
        raise SparkJobError(f"{path}: the folder has no files")
    if all(file.is_file() and file.stat().st_size == 0 for file in files):
        what = f"the files in it ({len(files)}) are empty" if path.is_dir() else "the file is empty"
        raise SparkJobError(f"{path}: {what}; a row of it is a message (docs/spark.md names the columns)")


def run(
    cluster: Cluster,
    path: Path,
    queue: Queue,
    *,
    file_format: str,
    order_by: Sequence[str],
    job: str,
    is_dry_run: bool,
    is_quiet: bool,
) -> Loaded:
    """Sent, from a Spark session of its own that is stopped again.

    Raises:
        SparkJobError: the broker, the queue, Java or the jars are not there, a row is no message, or Spark failed.
        OrderError: the queue's units are routed by another count of partitions.
    """
    installed_pyspark()
    check_content(path)
    check_topics([queue], about=f"write to {queue}", bootstrap=cluster.bootstrap, namespace=cluster.namespace,
                 kafka=cluster.kafka)  # fmt: skip
    from jbm_spark.frame_check import checked_columns
    from jbm_spark.messages import write_messages
    from jbm_spark.session import job_session

    with job_session("jbm load", is_quiet=is_quiet) as spark:
        frame = rows_of(spark, path, file_format)
        try:
            if is_dry_run:
                checked_columns(frame, order_by)
            else:
                write_messages(frame, queue, bootstrap=cluster.bootstrap, namespace=cluster.namespace,
                               kafka=cluster.kafka, order_by=order_by, job=job)  # fmt: skip
        except (FrameRefusedError, WriteError) as error:
            fault = str(error).partition("; write F.col(")[0]  # what a program would write
            raise type(error)(f"{place_of(path, file_format, fault)}: {fault}") from None
        return Loaded(queue.name, frame.count(), job, is_dry_run)


@click.command()
@click.argument("path", metavar="FILE", type=click.Path(exists=True, path_type=Path))
@click.argument("queue", metavar="DEST", callback=as_queue)
@click.option("--format", "file_format", type=click.Choice(FORMATS), help="What the file is. [by its ending]")
@click.option("--order-by", metavar="COLUMN", multiple=True, help="Order within a unit. [as the file has the rows]")
@click.option("--job", metavar="NAME", help="The same rows of the same job have the same ids. [load-FILE]")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Look at the columns, count, and send nothing.")
@cluster_options
@json_option
def load(
    path: Path, queue: Queue, file_format: str | None, order_by: tuple[str, ...], job: str | None, is_dry_run: bool,
    cluster: Cluster, as_json: bool,
) -> None:  # fmt: skip
    """Send the rows of a file to a queue: a row, a message. Columns: body_text, unit_of_order, properties, ..."""
    ending = {".jsonl": "json", ".ndjson": "json", ".txt": "text"}.get(path.suffix, path.suffix.removeprefix("."))
    chosen = file_format or ending
    if chosen not in FORMATS:
        raise SparkJobError(f"{path}: its ending does not say what it is; name it with --format {'|'.join(FORMATS)}")
    with warnings.catch_warnings(record=True) as warned:
        done = run(cluster, path, queue, file_format=chosen, order_by=order_by, job=job or f"load-{path.name}",
                   is_dry_run=is_dry_run, is_quiet=as_json)  # fmt: skip
    for each in warned:
        if each.category is ColumnsIgnoredWarning:
            click.echo(f"jbm-spark: warning: {each.message}", err=True)
    word = "would be sent" if is_dry_run else "sent"
    noun = "message" if done.rows == 1 else "messages"
    emit(asdict(done), f"{done.rows} {noun} {word} to {queue}", as_json=as_json)
