"""Sends messages of an archive, or of a queue's or topic's log, once more to another destination.

    jbm-spark replay --from /data/orders --since 2026-11-01 --until 2026-11-02 --to orders-again --where "priority > 4"

The units keep their order, and each message gets a duplicate id that is the same in every run of the same job. So a run
that was killed is simply started again: what the target's log has already is left out. Each run writes under the same
transactional ids, so that one that stood still and goes on writes nothing more when another has begun.
"""

import hashlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Whole
from jbm_kafka.cli.connect import as_destination
from jbm_kafka.codec.reader_record import REPLAY
from jbm_kafka.core.destination import Destination, Queue
from jbm_spark.errors import OptionRefusedError
from jbm_spark.jobs.job import in_session, job_options
from jbm_spark.topic_check import check_topics, one_line_errors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROWS_MAX = 100_000
"""For one partition at once, from one line of progress to the next."""
_TIMES = ("expiration", "delivery_time")


@dataclass(frozen=True, slots=True)
class Replayed:
    """The outcome of a replay."""

    source: str
    target: str
    matching: int
    """Messages of the source that were meant."""
    already_there: int
    """The number of them that an earlier run of this job had sent."""
    sent: int
    """The number that this run sent; of a dry run, would send."""
    job: str
    """The name from which the duplicate ids are made, beside the place of each message."""
    is_dry_run: bool

    @property
    def has_violations(self) -> bool:
        """It looks for none."""
        return False

    def text(self) -> str:
        """For people."""
        done = "would be sent" if self.is_dry_run else "sent"
        noun = "message" if self.sent == 1 else "messages"
        before = f"; {self.already_there} were there before" if self.already_there else ""
        return f"{self.sent} {noun} of {self.source} {done} to {self.target} (job {self.job}){before}"


def run(
    spark: "SparkSession",
    source: str | os.PathLike[str] | Destination,
    to: str | Destination,
    *,
    bootstrap: str,
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    where: str | None = None,
    shift_times: bool = False,
    job: str | None = None,
    force: bool = False,
    dry_run: bool = False,
    rate: int | None = None,
    queue: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> Replayed:
    """Send what was sent from `since_ms` on and before `until_ms` (ms since 1970), and what `where` chooses.

    Args:
        source: the folder of an archive, or a queue or topic.
        where: an expression of SQL over the columns of `messages`.
        shift_times: expirations and delivery times are as far ahead as they were when the message was sent; else the
            messages have none, for those of an old message would have it expire at once.
        job: another name sends the messages again that the same job had sent; without it the name is made of the
            arguments.
        force: also to the destination that the messages came from.
        rate: at most so many a second, over seconds.
        queue: of an archive of many queues, the one whose messages are sent.
        tell: is called with a line for each portion.

    Raises:
        OptionRefusedError: `to` is where the messages came from; or `where` is no such expression.
        ArchiveError, InvalidDestinationError: there is no such archive, or no such queue or topic.
        WriteError: Spark or Kafka failed, and some messages may be sent: run it again. Or another run of the job has
            begun meanwhile, and sends the rest.
    """
    from pyspark.sql import functions as F  # noqa: N812

    from jbm_spark.call_checks import check_session
    from jbm_spark.jobs.replay_source import log_of_now, replay_source
    from jbm_spark.reader_registration import ReaderRegistration
    from jbm_spark.sink import StreamBatch, sink_for
    from jbm_spark.target import target as target_now

    check_session(spark)
    if job is not None and (not job or not job.isprintable()):
        raise OptionRefusedError(f"job is {job!r}: it is a name, printable and not empty")
    target = to if isinstance(to, Destination) else Queue(to)
    check_topics([target], about=f"replay to {target}", bootstrap=bootstrap, namespace=namespace, kafka=kafka)
    given = source if isinstance(source, Destination) or is_folder(source) else Queue(str(source))
    found = replay_source(spark, given, bootstrap=bootstrap, namespace=namespace, kafka=kafka, queue=queue)
    if found.destination == target.name and not force:
        raise OptionRefusedError(
            f"{target} is where these messages came from, and its receivers would get them again: name another "
            "destination, or give --force (force=True)"
        )
    wanted = (found.identity, str(target), since_ms, until_ms, where, shift_times)
    named = job or hashlib.sha256(repr(wanted).encode()).hexdigest()[:12]
    prefix = f"replay:{named}:"
    place = F.concat_ws(":", "topic_id", "kafka.partition", "kafka.offset")
    rows = _chosen(found.rows, since_ms, until_ms, where).where(~F.coalesce(_begins(prefix), F.lit(False)))
    rows = rows.withColumn("duplicate_id", F.concat(F.lit(prefix), place))
    outgoing = _with_times(_placed(rows, found.topic_ids), shift_times).drop("topic_id", "timestamp")
    sink = sink_for(outgoing, target, bootstrap=bootstrap, namespace=namespace, kafka=kafka, options=None,
                    order_by=["replay_order"], exactly_once=True)  # fmt: skip
    topic, before = target.kafka_topic(namespace), 0
    query = f"replay-{hashlib.sha256(f'{named} {topic}'.encode()).hexdigest()[:24]}"
    if not dry_run:
        # The log tells what was sent; without this it would forget what is settled within a minute.
        with (
            one_line_errors(f"replay to {target}"),
            ReaderRegistration(bootstrap=bootstrap, namespace=namespace, kafka=kafka) as registration,
        ):
            registration.renew_first(f"{REPLAY}{named}/{topic}", topic)
        before = sink.begin_run(spark, job=query)
    # Only now: what earlier runs have sent is there, and nothing more of theirs will be.
    log, _ = log_of_now(spark, target, bootstrap=bootstrap, namespace=namespace, kafka=kafka, is_whole=True)
    there = log.where(_begins(prefix)).select("duplicate_id").distinct()
    left = outgoing.join(there, "duplicate_id", "left_anti")
    partitions = target_now(target, bootstrap=bootstrap, namespace=namespace, kafka=kafka).info.partitions
    portion = ROWS_MAX if rate is None else max(1, min(ROWS_MAX, rate * 5 // partitions))
    cut = _cut(left, partitions, portion).persist()
    try:
        sizes = {row["portion"]: row["count"] for row in cut.groupBy("portion").count().collect()}
        sent = sum(sizes.values())
        matching = rows.count()
        begun_s, done = time.monotonic(), 0
        for number in [] if dry_run else sorted(sizes):
            sink.write(cut.where(F.col("portion") == number).drop("portion"), job=query,
                       batch=StreamBatch(before + 1 + number))  # fmt: skip
            done += sizes[number]
            if tell is not None:
                tell(f"{done} of {sent} messages sent to {target}")
            if rate is not None:
                time.sleep(max(0.0, begun_s + done / rate - time.monotonic()))
    finally:
        cut.unpersist()
    return Replayed(found.name, str(target), matching, matching - sent, sent, named, dry_run)


def is_folder(source: str | os.PathLike[str]) -> bool:
    """Return True if an archive is meant, and no queue: a path, or a folder that is one."""
    from jbm_spark.archiving.archive_folder import IDENTITY_FILE

    text = os.fspath(source)
    return not isinstance(source, str) or os.sep in text or (Path(text) / IDENTITY_FILE).exists()


def _chosen(rows: "DataFrame", since_ms: int | None, until_ms: int | None, where: str | None) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    from jbm_spark.chosen_rows import chosen_rows

    sent_ms = F.unix_millis("timestamp")
    if since_ms is not None:
        rows = rows.where(sent_ms >= since_ms)
    if until_ms is not None:
        rows = rows.where(sent_ms < until_ms)
    return rows if where is None else chosen_rows(rows, where)


def _begins(prefix: str) -> "Column":
    from pyspark.sql import functions as F  # noqa: N812

    return F.col("duplicate_id").startswith(prefix)


def _with_times(rows: "DataFrame", shift: bool) -> "DataFrame":
    """Without expiration and delivery time; or with both as far from now as they were from the time of sending."""
    from pyspark.sql import functions as F  # noqa: N812

    if not shift:
        return rows.drop(*_TIMES)
    now_ms = F.lit(int(time.time() * 1000)) - F.unix_millis("timestamp")
    return rows.withColumns({name: F.timestamp_millis(F.unix_millis(name) + now_ms) for name in _TIMES})


def _placed(rows: "DataFrame", topic_ids: tuple[str, ...]) -> "DataFrame":
    """With `replay_order`, in which they are sent."""
    from pyspark.sql import functions as F  # noqa: N812

    order = F.struct(
        F.array_position(F.array(*[F.lit(each) for each in topic_ids]), F.col("topic_id")).alias("incarnation"),
        F.col("kafka.partition").alias("partition"),
        F.col("kafka.offset").alias("offset"),
    )
    return rows.withColumn("replay_order", order)


def _cut(rows: "DataFrame", partitions: int, portion: int) -> "DataFrame":
    """With `portion` 0, 1, ...: none has more messages for one partition than that, and they follow each other in the
    order of the units."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    from jbm_spark.unit_partition import partition_of

    routed_by = F.coalesce(F.when(F.length("kafka.key") > 0, F.col("kafka.key")), F.col("duplicate_id").cast("binary"))
    placed = rows.withColumn("replay_to", partition_of(routed_by, partitions))
    number = F.row_number().over(Window.partitionBy("replay_to").orderBy("replay_order"))
    return placed.withColumn("portion", F.floor((number - 1) / portion)).drop("replay_to")


def _as_instant(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(
            f"{value!r}: write a day or a time (UTC), as in 2026-11-27 or 2026-11-27T10:30:00", context, parameter
        ) from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def _as_source(context: click.Context, parameter: click.Parameter, value: str) -> str | Destination | None:
    return value if is_folder(value) else as_destination(context, parameter, value)


@click.command(short_help="Send archived messages, or those of a log, once more.")
@click.option("--from", "source", metavar="ARCHIVE|DEST", required=True, callback=_as_source,
              help="A folder of jbm-spark archive, or a queue or topic.")  # fmt: skip
@click.option("--to", "target", metavar="DEST", required=True, callback=as_destination, help="Where they are sent.")
@click.option("--since", "since_ms", metavar="TIME", callback=_as_instant, help="Sent at this time (UTC) or later.")
@click.option("--until", "until_ms", metavar="TIME", callback=_as_instant, help="Sent before this time.")
@click.option("--where", metavar="SQL", help='Only what this chooses: "priority > 4".')
@click.option("--shift-times", is_flag=True, help="Keep expirations, counted from now. [the messages have none]")
@click.option("--job", metavar="NAME", help="Another name sends them again. [made of these options]")
@click.option("--rate", metavar="N", type=Whole(1), help="At most so many a second.")
@click.option("--queue", metavar="NAME", help="Of an archive of many queues: this one's.")
@click.option("--force", is_flag=True, help="Also to where they came from.")
@click.option("--dry-run", is_flag=True, help="Count what would be sent, and send nothing.")
@job_options
def replay(
    source: str | Destination, target: Destination, since_ms: int | None, until_ms: int | None, where: str | None,
    shift_times: bool, job: str | None, rate: int | None, queue: str | None, force: bool, dry_run: bool,
    cluster: Cluster, master: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Send messages once more, in the order of their units. Run again after a failure, it sends what is missing."""

    def check(cluster: Cluster) -> None:
        named = [each for each in (source, target) if isinstance(each, Destination)]
        check_topics(named, about=f"replay to {target}", bootstrap=cluster.bootstrap, namespace=cluster.namespace,
                     kafka=cluster.kafka)  # fmt: skip
        from jbm_spark.archiving.archive_folder import archive_path, is_here, read_identity

        if not isinstance(source, Destination) and is_here(source):
            from jbm_spark.jobs.replay_source import check_queue

            check_queue(source, read_identity(archive_path(source)), queue)

    def tell(line: str) -> None:
        print(f"jbm-spark: {line}", file=sys.stderr, flush=True)

    in_session(
        "replay",
        lambda spark: run(
            spark, source, target, bootstrap=cluster.bootstrap, namespace=cluster.namespace, kafka=cluster.kafka,
            since_ms=since_ms, until_ms=until_ms, where=where, shift_times=shift_times, job=job, force=force,
            dry_run=dry_run, rate=rate, queue=queue, tell=None if as_json else tell,
        ),
        cluster=cluster, master=master, as_json=as_json, check=check,
    )  # fmt: skip
