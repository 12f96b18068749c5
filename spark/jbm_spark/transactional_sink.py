"""The driver's part of writing each batch once: which sink partition a row belongs to, for the life of a checkpoint.

A job without a checkpoint computes its rows anew in each run, so its runs have numbers, which take the checkpoint's
place: of a run that another has taken over from nothing more is written.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.provider import TopicInfo
from jbm_spark.batch_ledger import FENCE_S, PATIENCE_S, LedgerEntry, make_ledger
from jbm_spark.errors import WriteError
from jbm_spark.java_writer import are_packed, write_by_java
from jbm_spark.record_transaction import RESULT, BatchTarget, task_of
from jbm_spark.topic_check import TIMEOUT_S
from jbm_spark.unit_partition import partition_of

_BATCHES_OF_A_RUN = 1 << 32
"""The batches of the first run begin here; below are those of queries with a checkpoint."""
_SINKS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class SinkPartitions:
    """How rows are split, the same for all batches of a checkpoint, whatever becomes of the queue's own partitions.

    Of a batch that a crash interrupted some sink partitions are written, and the others must have the rows they had.
    """

    count: int
    routed_by: int
    """The queue's count of partitions when the checkpoint was new."""

    def column(self, info: TopicInfo) -> Column:
        """The sink partition of a record, from its `partition` and `routed_by`."""
        if info.unit_partitions == self.routed_by:
            return F.col("partition") % self.count
        return partition_of(F.col("routed_by"), self.routed_by) % self.count


@dataclass(slots=True)
class TransactionalSink:
    """Writes the batches of one query at a time."""

    bootstrap: str
    kafka: Mapping[str, object] = field(repr=False)
    namespace: str
    options: Mapping[str, str] = field(repr=False)
    """The options of Spark's sink, for Java's client: the same in its words."""
    _split: dict[str, SinkPartitions] = field(default_factory=dict, init=False)
    """The partitions of a query as its checkpoint's ledger says, by query."""

    def write(
        self,
        placed: DataFrame,
        columns: Sequence[str],
        info: TopicInfo,
        *,
        order: Sequence[str],
        place: Sequence[str],
        query: str,
        batch: int,
    ) -> None:
        """Returns when all records of the batch are committed, now or by an earlier attempt.

        `columns` are those of a record, with `digest`, which tells it from others. `order` sorts the records of a
        sink partition; of it `place` is the same whenever the batch is repeated, whatever partitions the queue has.

        Raises:
            WriteError: Kafka failed; some sink partitions of the batch may be written, which are left out next time.
                Or another run has taken over.
        """
        target = self._target(info, query, batch)
        with _one_line_errors(target):
            if _is_taken_over(target, PATIENCE_S):
                raise _taken_over(target)
        split = self._split_of(target, placed, info)
        sink = split.column(info).cast("int")
        records = placed.withColumn("sink", sink).repartitionById(split.count, "sink")
        in_order = records.sortWithinPartitions(*order)
        sorted_records = in_order.select("sink", *columns, F.xxhash64(*place).alias("place"))
        try:
            if are_packed(placed):
                write_by_java(sorted_records, target, self.options)
            else:
                sorted_records.mapInArrow(task_of(target), RESULT).collect()
        except BaseException as error:
            is_ours = True
            with suppress(KafkaClientError):
                is_ours = not _is_taken_over(target, FENCE_S)
            if is_ours:
                self._abort_what_is_open(target, split)
            elif isinstance(error, Exception):
                raise _taken_over(target) from None
            raise

    def begin_run(self, spark: SparkSession, info: TopicInfo, query: str) -> int:
        """Take over from all earlier runs; the batches of this one have the numbers that follow the returned one.

        What those have committed is in the log by now, and they write nothing more: the producers that they have are
        fenced, and those that they make find the number of a later batch than theirs.

        Raises:
            WriteError: Kafka failed, or yet another run has begun meanwhile.
        """
        target = self._target(info, query, 0)
        split, run = _recorded(target, _wanted(spark, info), begins_run=True)
        self._split[query] = split
        first = run * _BATCHES_OF_A_RUN

        def take_over(sink: int) -> None:
            with closing(target.open(target.sink_name(sink))) as producer:
                if producer.last is not None and producer.last.batch >= first:
                    raise _taken_over(target)
                producer.write([], lambda: LedgerEntry(first))

        with _one_line_errors(target), ThreadPoolExecutor(_SINKS_AT_ONCE) as threads:
            for _ in threads.map(take_over, range(split.count)):
                pass
        return first

    def _target(self, info: TopicInfo, query: str, batch: int) -> BatchTarget:
        return BatchTarget(self.bootstrap, self.kafka, self.namespace, info.topic, info.max_message_bytes, query, batch)

    def _split_of(self, target: BatchTarget, placed: DataFrame, info: TopicInfo) -> SinkPartitions:
        found = self._split.get(target.query)
        if found is None:
            found, _ = _recorded(target, _wanted(placed.sparkSession, info))
            self._split[target.query] = found
        return found

    def _abort_what_is_open(self, target: BatchTarget, split: SinkPartitions) -> None:
        """End what tasks that were killed have left open, which would hold back the queue's receivers until its
        timeout."""

        def take_over(sink: int) -> None:
            with suppress(KafkaClientError):
                target.fence(sink)

        _all_at_once([lambda sink=sink: take_over(sink) for sink in range(split.count)])  # type: ignore[misc]


def _wanted(spark: SparkSession, info: TopicInfo) -> SinkPartitions:
    tasks = int(cast(str, spark.conf.get("spark.sql.shuffle.partitions")))
    return SinkPartitions(min(info.partitions, tasks), info.unit_partitions)


def _recorded(target: BatchTarget, wanted: SinkPartitions, *, begins_run: bool = False) -> tuple[SinkPartitions, int]:
    """How the first batch was split, which is as `wanted` if this is it; and the number of the run, 0 without runs."""
    with _one_line_errors(target):
        with closing(ConfluentKafka(target.bootstrap, target.kafka, admin_timeout_s=TIMEOUT_S).admin()) as admin:
            make_ledger(admin, target.namespace)
        with closing(target.open(target.query_name)) as producer:
            last = producer.last
            split = wanted if last is None else SinkPartitions(**json.loads(last.note))
            run = (0 if last is None else last.number) + begins_run
            if last is None or begins_run:
                note = json.dumps({"count": split.count, "routed_by": split.routed_by})
                producer.write([], lambda: LedgerEntry(run, note))
            return split, run


def _is_taken_over(target: BatchTarget, timeout_s: float) -> bool:
    """Return True if the batch is of a run, and another one has begun behind it. Raises KafkaClientError."""
    run = target.batch // _BATCHES_OF_A_RUN
    latest = target.latest(target.query_name, timeout_s) if run else None
    return latest is not None and latest.number != run


def _taken_over(target: BatchTarget) -> WriteError:
    """The error of a run that another one has taken over from."""
    return WriteError(
        f"write to {target.topic}: another process has taken this job over and sends what is missing; this one sends "
        "nothing more (what is to run side by side needs names of its own: --job NAME)"
    )


@contextmanager
def _one_line_errors(target: BatchTarget) -> Iterator[None]:
    try:
        yield
    except KafkaClientError as error:
        raise WriteError(f"write to {target.topic}: {error}") from None


def _all_at_once(calls: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=call, name="jbm-abort") for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
