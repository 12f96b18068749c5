"""Archives one topic, batch by batch, into one folder of an archive.

There is no checkpoint of Spark's: the manifests of the published batches say where to go on. A batch that a crash
interrupted was never seen, and is read again from Kafka.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.ports import KafkaAdmin
from jbm_spark.archiving.archive_files import ROWS_A_FILE, count_back, read_rows, write_rows
from jbm_spark.archiving.manifest import Manifest, Span
from jbm_spark.archiving.next_span import TopicState, next_span, topic_state
from jbm_spark.archiving.table_folder import SEGMENT_BYTES, Fragments, TableFolder, position
from jbm_spark.causes import cause_line
from jbm_spark.errors import ArchiveError, SparkJobError

OFFSETS_MAX = 1_000_000
"""Of one batch: what a crash makes us read again at most."""


@dataclass(frozen=True, slots=True)
class TopicArchiver:
    """Brings what a topic has into its folder."""

    spark: SparkSession
    admin: KafkaAdmin
    topic: str
    folder: TableFolder
    schema: str
    """Of the rows, in the words of Spark's DDL."""
    rows_of: Callable[[Span], DataFrame] = field(repr=False)
    """What is archived of these offsets, with the column `timestamp`."""
    key: tuple[str, ...] = ("partition", "offset")
    """The columns that tell a row from all others, the record's partition and offset first."""
    accept_loss: bool = False
    only: AbstractSet[int] | None = None
    """These partitions alone have rows for the archive; None: all."""

    def state(self) -> TopicState:
        """Of the topic now; raises as `topic_state`."""
        return topic_state(self.admin, self.topic)

    def archive_next(self, until: TopicState) -> Manifest | None:
        """Archive one batch of what was there at that moment; None: all of it is archived.

        Raises:
            ArchiveError: what comes next is gone, or the files are not as they must be; nothing was published.
            SparkJobError: Spark failed.
            KafkaClientError: no answer.
        """
        span = self._next_span(until)
        if span is None:
            return None
        staged = self.folder.staged()
        written = Observation()
        offsets = sum(end - span.begin[partition] for partition, end in span.end.items())
        try:
            rows = self.rows_of(span).observe(written, F.count(F.lit(1)).alias("rows"))
            write_rows(rows, staged, key=self.key, files=-(-offsets // ROWS_A_FILE))
            read_back = count_back(read_rows(self.spark, [staged], self.schema), span, key=self.key)
        except (PySparkException, Py4JError) as error:
            # Where the log was cut meanwhile this names the range; Spark says it in fifty lines.
            now = self._next_span(self.state())
            if now is not None and now.lost != span.lost:
                return self.archive_next(until)
            raise SparkJobError(
                f"archive of {self.topic}: {cause_line(error)}; nothing of this batch was published"
            ) from None
        if self.state().topic_id != span.topic_id:
            raise ArchiveError(
                f"topic {self.topic} was made anew meanwhile; nothing of this batch was published: run again"
            )
        if read_back != written.get["rows"]:
            raise ArchiveError(
                f"archive {self.folder.path}: {written.get['rows']} rows were read from Kafka, and {read_back} read "
                "back from the files: nothing was published; see that all executors write to this folder"
            )
        return self.folder.publish(rows=read_back, span=span)

    def _next_span(self, until: TopicState) -> Span | None:
        last = position(self.folder)
        return next_span(until, last, offsets_max=OFFSETS_MAX, accept_loss=self.accept_loss, only=self.only)

    def compact(self) -> bool:
        """Whether many small files are one now, or one a day.

        Raises:
            ArchiveError: the rows that its files have are not those that were written; nothing has changed.
        """
        fragments = self.folder.to_compact()
        if fragments is None:
            return False
        staged = self.folder.staged()
        rows = read_rows(self.spark, fragments.paths, self.schema)
        write_rows(rows, staged, key=self.key, files=fragments.data_bytes // (SEGMENT_BYTES // 2))
        self._check_compacted(read_rows(self.spark, [staged], self.schema), fragments)
        self.folder.replace(fragments)
        return True

    def _check_compacted(self, rows: DataFrame, fragments: Fragments) -> None:
        found = rows.count()
        if fragments.rows != found:
            raise ArchiveError(
                f"archive {self.folder.path}: {fragments.rows} rows were written to files that are to be compacted, "
                f"and {found} can be read: files are missing or were added; nothing was compacted, restore them"
            )
