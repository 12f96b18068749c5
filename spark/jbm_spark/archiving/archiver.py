"""Archives topics, batch by batch, into one folder of an archive.

There is no checkpoint of Spark's: the manifests of the published batches say where each topic is to go on. A batch that
a crash interrupted was never seen, and is read again from Kafka.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.ports import KafkaAdmin
from jbm_spark.archiving.archive_files import ROWS_A_FILE, RowShape, count_back, read_rows, rewrite, write_rows
from jbm_spark.archiving.manifest import Manifest, Span
from jbm_spark.archiving.next_span import TopicState, next_span, shared_out, topic_gone, topic_state
from jbm_spark.archiving.table_folder import TableFolder, positions
from jbm_spark.causes import cause_line
from jbm_spark.errors import ArchiveError, SparkJobError

OFFSETS_MAX = 1_000_000
"""The offsets of one batch: a crash makes us read so many again at most."""


@dataclass(frozen=True, slots=True)
class Batch:
    """One that was published."""

    manifest: Manifest
    rows: Mapping[str, int]
    """The rows by topic id."""


@dataclass(frozen=True, slots=True)
class TopicArchiver:
    """Brings what topics have into their folder."""

    spark: SparkSession
    admin: KafkaAdmin
    folder: TableFolder
    shape: RowShape
    rows_of: Callable[[Sequence[Span]], DataFrame] = field(repr=False)
    """Gives what is archived of these offsets, with the column `timestamp`."""
    accept_loss: bool = False
    only: AbstractSet[int] | None = None
    """These partitions alone have rows for the archive; None: all."""

    def next_spans(self, until: Mapping[str, TopicState]) -> tuple[Sequence[Span], Mapping[str, ArchiveError]]:
        """Return what comes next of these topics, up to those moments, and no more than a batch may have; and of those
        topics that cannot go on why."""
        known = positions(self.folder)
        spans: dict[str, Span] = {}
        refused: dict[str, ArchiveError] = {}
        for topic, state in until.items():
            try:
                span = self._span(state, known, OFFSETS_MAX)
            except ArchiveError as error:
                refused[topic] = error
            else:
                if span is not None:
                    spans[topic] = span
        if sum(map(_offsets, spans.values())) <= OFFSETS_MAX:
            return [*spans.values()], refused
        shares = shared_out({topic: _offsets(span) for topic, span in spans.items()}, OFFSETS_MAX)
        cut = (self._span(until[topic], known, share) for topic, share in shares.items())
        return [span for span in cut if span is not None], refused

    def _span(self, state: TopicState, known: Mapping[str, Span], offsets_max: int) -> Span | None:
        return next_span(state, known.get(state.topic_id), offsets_max=offsets_max, accept_loss=self.accept_loss,
                         only=self.only)  # fmt: skip

    def archive_next(self, until: TopicState) -> Batch | None:
        """Archive one batch of what one topic had at that moment; None: all of it is archived.

        Raises:
            ArchiveError: what comes next is gone, or as `archive`.
            SparkJobError, KafkaClientError: as `archive`.
        """
        while True:
            spans, refused = self.next_spans({until.topic: until})
            for error in refused.values():
                raise error
            if not spans:
                return None
            try:
                return self.archive(spans)
            except SparkJobError:
                # Where the log was cut meanwhile this names the range; Spark says it in fifty lines.
                until = replace(until, begin=topic_state(self.admin, until.topic).begin)
                if [span.lost for span in self.next_spans({until.topic: until})[0]] == [span.lost for span in spans]:
                    raise

    def archive(self, spans: Sequence[Span]) -> Batch:
        """Publish these as one batch.

        Raises:
            ArchiveError: the files are not as they must be, or a topic was made anew; nothing was published.
            SparkJobError: Spark failed.
            KafkaClientError: no answer.
        """
        staged = self.folder.staged()
        written = Observation()
        offsets = sum(map(_offsets, spans))
        names = ", ".join(sorted({span.topic or "" for span in spans})[:3])
        # Many small topics are read by as many tasks as there are cores, each of which writes files of its own.
        files = max(-(-offsets // ROWS_A_FILE), min(len(spans), self.spark.sparkContext.defaultParallelism))
        try:
            rows = self.rows_of(spans).observe(written, F.count(F.lit(1)).alias("rows"))
            write_rows(rows, staged, key=self.shape.key, files=files, by=self.shape.by)
            read_back = count_back(read_rows(self.spark, [staged], self.shape.schema), spans, key=self.shape.key)
        except (PySparkException, Py4JError) as error:
            raise SparkJobError(
                f"archive of {names}: {cause_line(error)}; nothing of this batch was published"
            ) from None
        now = self.admin.describe([span.topic for span in spans if span.topic is not None])
        for span in spans:
            found = now.get(span.topic or "")
            if found is None:
                raise topic_gone(span.topic or "")
            if found.topic_id != span.topic_id:
                raise ArchiveError(
                    f"topic {span.topic} was made anew meanwhile; nothing of this batch was published: run again"
                )
        total = sum(read_back.values())
        if total != written.get["rows"]:
            raise ArchiveError(
                f"archive {self.folder.path}: {written.get['rows']} rows were read from Kafka, and {total} read "
                "back from the files: nothing was published; see that all executors write to this folder"
            )
        return Batch(self.folder.publish(rows=total, spans=spans), read_back)

    def compact(self) -> bool:
        """Return True if many small files are one now, or one a day.

        Raises:
            ArchiveError: the rows that its files have are not those that were written; nothing has changed.
        """
        fragments = self.folder.to_compact()
        if fragments is None:
            return False
        rewrite(self.spark, self.folder, fragments, self.shape)
        return True


def _offsets(span: Span) -> int:
    return sum(end - span.begin[partition] for partition, end in span.end.items())
