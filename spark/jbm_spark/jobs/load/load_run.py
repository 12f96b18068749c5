"""Sends the rows of files to a queue, one message each: staged first, then sent place by place.

A load that was killed goes on where it was: its record says which rows are sent, and of the one batch that may be
sent in part the queue's own log says which.
"""

import json
import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from jbm_kafka.codec.reader_record import LOAD
from jbm_kafka.core.destination import Queue
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.provider import TopicInfo
from jbm_spark.errors import ColumnsIgnoredWarning, FrameRefusedError, SparkJobError
from jbm_spark.jobs.load.file_blocks import CutFiles, cut, files_of
from jbm_spark.jobs.load.load_record import JobFolder, LoadRecord, default_state, job_folder
from jbm_spark.log_positions import OF_A_QUEUE_S, whole_ends
from jbm_spark.topic_check import TIMEOUT_S, cluster_id, end_offsets, one_line_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

FORMATS = ("json", "csv", "parquet", "text")
"""json: an object a line; csv: the first line names the columns; text: a line, a message."""
_ENDINGS = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".parquet": "parquet", ".txt": "text"}
UNKNOWN_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The outcome for the rows: `rows` is `sent`, `sent_before` and `rejected` together."""

    queue: str
    job: str
    rows: int
    """Rows of the files."""
    sent: int
    """The number that this run sent; of a dry run, would send."""
    sent_before: int
    """The number that earlier runs of the same job sent."""
    rejected: int
    """Rows that cannot be read, or are no message."""
    rejects: str | None
    """The file with these rows, if there are any."""
    is_dry_run: bool

    @property
    def has_violations(self) -> bool:
        """Return True if rows were rejected."""
        return self.rejected > 0

    def text(self) -> str:
        """One line."""
        noun = "message" if self.sent == 1 else "messages"
        parts = [f"{self.sent} {noun} {'would be sent' if self.is_dry_run else 'sent'} to queue:{self.queue}"]
        if self.sent_before:
            parts.append(f"sent by earlier runs of the job {self.job}: {self.sent_before}")
        if self.rejected:
            parts.append(f"rejected: {self.rejected}" + (f", see {self.rejects}" if self.rejects else ""))
        return "; ".join(parts)


def run(
    spark: "SparkSession",
    path: str | Path,
    queue: str | Queue,
    *,
    bootstrap: str,
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    file_format: str | None = None,
    order_by: Sequence[str] = (),
    job: str | None = None,
    rejects: str | Path | None = None,
    rate: int | None = None,
    state: str | Path | None = None,
    is_glob: bool = False,
    is_dry_run: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Loaded:
    """Send the rows of a file, of a folder's files or of those that a pattern names; in the order of the files.

    A second run of the same job sends what the first one did not. Without `rejects` a bad row ends the load before
    anything is sent.

    Args:
        job: its name; without one it is made of the file's name and content.
        rejects: a file, or a folder for it, of rows that are not sent: one JSON object a line.
        rate: so many messages a second at most.
        state: a folder for what jobs have done, kept between runs; while a job runs it has its rows, too.
        tell: is called with a line of progress after each batch.

    Raises:
        SparkJobError: a file cannot be read, a row is no message, another process runs the job, or its name stands for
            other files.
        The rest as `write_messages`.
    """
    target_queue = queue if isinstance(queue, Queue) else Queue(queue)
    files = files_of(Path(path), is_glob=is_glob)
    chosen = format_of(files[0], file_format)
    if rate is not None and rate < 1:
        raise SparkJobError(f"rate={rate}: it is a number of messages a second, 1 or more")
    work = _Load(spark, target_queue, bootstrap, namespace, kafka, tuple(order_by), chosen, rate, tell)
    files_cut = cut(files, chosen)
    work.check_columns(files_cut)
    name = job or f"load-{Path(path).name}-{files_cut.digest[:8]}"
    with TemporaryDirectory(prefix="jbm-load-") as temporary:
        place = {"cluster": cluster_id(bootstrap, kafka), "topic": work.info.topic, "id": work.info.topic_id}
        folder = Path(state) if state is not None else default_state()
        with job_folder(Path(temporary) if is_dry_run else folder, place=place, job=name) as mine:
            record = work.prepared(mine, files_cut, name, None if rejects is None else Path(rejects))
            before = record.sent
            if record.below < record.end:
                if not is_dry_run:
                    work.keep_log(name)
                before += work.look_for_rows(mine, record, job_id(name, files_cut))
            if not is_dry_run:
                work.send(mine, record)
    return Loaded(
        queue=target_queue.name, job=name, rows=record.total + record.rejected, sent=record.total - before,
        sent_before=before, rejected=record.rejected, rejects=work.rejects, is_dry_run=is_dry_run,
    )  # fmt: skip


def format_of(file: Path, given: str | None) -> str:
    """Return what the file is: as it is said, else by its ending.

    Raises:
        SparkJobError: neither tells.
    """
    found = given or _ENDINGS.get(file.suffix)
    if found not in FORMATS:
        raise SparkJobError(f"{file}: its ending does not say what it is; name it with --format {'|'.join(FORMATS)}")
    return found


def job_id(job: str, files: CutFiles) -> str:
    """Return what the ids of a job's rows are made of, whoever runs it."""
    return f"{job}:{files.digest[:12]}"


class _Load:
    """One run of a job."""

    def __init__(
        self, spark: "SparkSession", queue: Queue, bootstrap: str, namespace: str,
        kafka: Mapping[str, object] | None, order_by: Sequence[str], file_format: str, rate: int | None,
        tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        from jbm_spark.target import target

        self._spark, self._queue, self._order_by, self._format = spark, queue, order_by, file_format
        self._rate, self._tell = rate, tell
        self._bootstrap, self._namespace, self._kafka = bootstrap, namespace, kafka
        now = target(queue, bootstrap=bootstrap, namespace=namespace, kafka=kafka)
        self.info: TopicInfo = now.info
        self._window = now.duplicate_window
        self.rejects: str | None = None
        self._job_id = ""
        self._there: DataFrame | None = None
        """Rows that the queue's log has, though no record here says so; None: no such."""

    def check_columns(self, files: CutFiles) -> None:
        """Check the columns of CSV files, whose first lines name them."""
        for names in {tuple(block.names) for block in files.blocks if self._format == "csv"}:
            if "body_text" not in names:
                raise FrameRefusedError(
                    f"the frame has no body among its columns ({', '.join(names)}): name the column with the body "
                    "`body_text`"
                )
            missing = [name for name in self._order_by if name not in names]
            if missing:
                raise FrameRefusedError(f"order_by: no column {missing[0]!r} is there; there are {', '.join(names)}")

    def prepared(self, folder: JobFolder, files: CutFiles, job: str, rejects: Path | None) -> LoadRecord:
        """Return what is to be sent: as an earlier run has left it, or staged now."""
        from jbm_spark.jobs.load.staged_rows import parquet_rows, stage, text_rows

        digest = "|".join([files.digest, self._format, *self._order_by])
        record = folder.read()
        if record is not None:
            if record.digest != digest:
                raise SparkJobError(
                    f"the job {job!r} has sent other files, or in another format or order, to {self._queue}: name "
                    "another --job"
                )
            return record
        folder.drop_rows()  # of a run that was killed while it staged
        if self._format == "parquet":
            rows = parquet_rows(self._spark, files, self._order_by)
        else:
            rows = text_rows(self._spark, files, self._format, self._order_by, self.info.max_message_bytes)
        stage(rows, folder.rows, job_id=job_id(job, files), info=self.info, order_by=self._order_by)
        files.check_unchanged()
        record = self._counted(folder, LoadRecord(job, digest))
        try:
            self._reject(folder, record, job, rejects)
        except SparkJobError:
            folder.drop_rows()
            raise
        folder.write(record)
        return record

    def _counted(self, folder: JobFolder, record: LoadRecord) -> LoadRecord:
        from pyspark.sql import functions as F  # noqa: N812

        from jbm_spark.jobs.load.staged_rows import REJECTED

        if not folder.has_rows:
            return record  # Spark reads no folder without files
        staged = self._spark.read.parquet(str(folder.rows))
        counts = {row["target"]: row["count"] for row in staged.groupBy("target").count().collect()}
        record.rejected = counts.pop(REJECTED, 0)
        record.targets = {str(target): count for target, count in counts.items()}
        unknown = staged.select(F.explode("unknown").alias("name")).distinct().orderBy("name").limit(UNKNOWN_NAMED)
        names = [row["name"] for row in unknown.collect()]
        if names:
            warnings.warn(
                f"not written, for no message has such a column: {', '.join(names)}; what receivers shall see goes "
                "into the body or into `properties`; jbm-kafka docs spark-load has the columns of a message",
                ColumnsIgnoredWarning,
                stacklevel=2,
            )
        return record

    def _reject(self, folder: JobFolder, record: LoadRecord, job: str, rejects: Path | None) -> None:
        """Write the rejected rows to their file.

        Raises:
            SparkJobError: there are some, and no file for them.
        """
        if not record.rejected:
            return
        from pyspark.sql import functions as F  # noqa: N812

        from jbm_spark.jobs.load.staged_rows import REJECTED

        staged = self._spark.read.parquet(str(folder.rows)).where(F.col("chunk") == REJECTED)
        found = staged.orderBy("number", "line").select("file", "line", "fault", "text").toLocalIterator()
        if rejects is None:
            first = next(found)
            more = f" (and {record.rejected - 1} more such rows)" if record.rejected > 1 else ""
            raise SparkJobError(
                f"{first['file']}, line {first['line']}: {first['fault']}{more}; nothing was sent. With --rejects FILE "
                "such rows go there, and the others are sent"
            )
        file = rejects / f"{job}.rejects.jsonl" if rejects.is_dir() else rejects
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("w", encoding="utf-8") as stream:
                for row in found:
                    told = {"file": row["file"], "line": row["line"], "reason": row["fault"], "row": row["text"]}
                    stream.write(json.dumps(told, ensure_ascii=False) + "\n")
        except OSError as error:
            raise SparkJobError(f"{file}: {error.strerror or error}; name another --rejects") from None
        self.rejects = str(file)

    def keep_log(self, job: str) -> None:
        """The log tells what was sent; without this it would forget what is settled within a minute."""
        from jbm_spark.reader_registration import ReaderRegistration

        topic = self.info.topic
        try:
            with ReaderRegistration(
                bootstrap=self._bootstrap, namespace=self._namespace, kafka=self._kafka
            ) as registration:
                registration.renew_first(f"{LOAD}{job}/{topic}", topic, self._ends())
        except (KafkaClientError, KeyError) as error:
            log.warning("nothing of %s is kept for the job %r, which would send again what is deleted there: %s",
                        self._queue, job, error)  # fmt: skip

    def look_for_rows(self, folder: JobFolder, record: LoadRecord, job_id: str) -> int:
        """How many of the rows that are to be sent the queue's log has: an earlier run had another state folder.

        Raises:
            SparkJobError: the log cannot be read.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as F  # noqa: N812

        from jbm_spark.causes import cause_line
        from jbm_spark.jobs.load.staged_rows import REJECTED, ids_there, row_id
        from jbm_spark.jobs.replay_source import log_of_now

        log_now, _ = log_of_now(self._spark, self._queue, bootstrap=self._bootstrap, namespace=self._namespace,
                                kafka=self._kafka, about="load to", is_whole=True)  # fmt: skip
        there = ids_there(log_now, job_id).persist()
        left = self._spark.read.parquet(str(folder.rows)).where(F.col("chunk") != REJECTED)
        left = left.where(F.col("place") >= record.below).withColumn("there", row_id(job_id))
        try:
            found = left.join(there, "there", "left_semi").count()
        except (PySparkException, Py4JError) as error:
            if "TopicAuthorizationException" not in str(error):
                raise SparkJobError(f"load to {self._queue}: its log cannot be read: {cause_line(error)}") from None
            log.warning("the log of %s may not be read: what a run with another state sent is sent again", self._queue)
            found = 0
        if found:
            self._there = there
            self._job_id = job_id
        else:
            there.unpersist()
        return found

    def send(self, folder: JobFolder, record: LoadRecord) -> None:
        """Send what is not sent yet, and take the staged rows away."""
        from jbm_spark.jobs.load.staged_rows import CHUNK

        most = CHUNK if self._window is None else max(min(CHUNK, self._window // 2), 1)
        step = most if self._rate is None else min(max(self._rate // self.info.partitions, 1), most)
        begun_at, already = time.monotonic(), record.sent
        while record.below < record.end:
            in_doubt = record.begun > record.below
            if not in_doubt:
                record.begun = min((record.below // step + 1) * step, record.end)
                record.offsets = {str(at): offset for at, offset in self._ends().items()}
                folder.write(record)
            self._send_batch(folder, record, is_in_doubt=in_doubt)
            record.below = record.begun
            folder.write(record)
            self._tell(f"{record.sent} of {record.total} sent")
            if self._rate is not None and record.below < record.end:
                ahead_s = (record.sent - already) / self._rate - (time.monotonic() - begun_at)
                time.sleep(max(ahead_s, 0.0))
        folder.drop_rows()

    def _send_batch(self, folder: JobFolder, record: LoadRecord, *, is_in_doubt: bool) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        from jbm_spark.frame_check import WRITTEN
        from jbm_spark.jobs.load.staged_rows import CHUNK, row_id
        from jbm_spark.messages import write_messages

        staged = self._spark.read.parquet(str(folder.rows))
        chunks = F.col("chunk").between(record.below // CHUNK, (record.begun - 1) // CHUNK)
        batch = staged.where(chunks & F.col("place").between(record.below, record.begun - 1))
        if is_in_doubt:
            batch = batch.join(self._ids_since(record), "message_id", "left_anti")
        if self._there is not None:
            batch = batch.withColumn("there", row_id(self._job_id)).join(self._there, "there", "left_anti")
        columns = [name for name in batch.columns if name in WRITTEN]
        write_messages(batch.select(*columns, "place"), self._queue, bootstrap=self._bootstrap,
                       namespace=self._namespace, kafka=self._kafka, order_by="place", job=record.job)  # fmt: skip

    def _ids_since(self, record: LoadRecord) -> "DataFrame":
        """The ids of what the queue's log has since the batch was begun, when transactions that are open there have
        ended.

        Raises:
            SparkJobError: one of them goes on and on.
        """
        from jbm_spark.messages import messages

        topic, parts = self.info.topic, list(range(self.info.partitions))
        client = ConfluentKafka(self._bootstrap, self._kafka, namespace=self._namespace, admin_timeout_s=TIMEOUT_S)
        with one_line_errors(f"read {self._queue}"), closing(client.admin()) as admin:
            ends = whole_ends(admin, topic, parts, patience_s=OF_A_QUEUE_S)
            begins = admin.begin_positions(topic, parts)
        starting = {at: max(record.offsets.get(str(at), 0), begin) for at, begin in begins.items()}
        ending = {at: max(end, starting[at]) for at, end in ends.items()}
        found = messages(self._spark, self._queue, bootstrap=self._bootstrap, namespace=self._namespace,
                         kafka=self._kafka, starting=starting, ending=ending)  # fmt: skip
        return found.select("message_id")

    def _ends(self) -> Mapping[int, int]:
        partitions = range(self.info.partitions)
        return end_offsets(self.info.topic, partitions, about=f"write to {self._queue}", bootstrap=self._bootstrap,
                           kafka=self._kafka)  # fmt: skip
