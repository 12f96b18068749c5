"""The driver's part of writing each batch once: which sink partition a row belongs to, for the life of a checkpoint."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.provider import TopicInfo
from jbm_spark.batch_ledger import LedgerEntry, make_ledger
from jbm_spark.errors import WriteError
from jbm_spark.java_writer import write_by_java, writes_by_java
from jbm_spark.record_transaction import RESULT, BatchTarget, task_of
from jbm_spark.topic_check import TIMEOUT_S
from jbm_spark.unit_partition import partition_of


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
        """
        target = BatchTarget(self.bootstrap, self.kafka, self.namespace, info.topic,
                             info.max_message_bytes, query, batch)  # fmt: skip
        split = self._split_of(target, placed, info)
        sink = split.column(info).cast("int")
        records = placed.withColumn("sink", sink).repartitionById(split.count, "sink")
        in_order = records.sortWithinPartitions(*order)
        sorted_records = in_order.select("sink", *columns, F.xxhash64(*place).alias("place"))
        try:
            if writes_by_java(placed):
                write_by_java(sorted_records, target, self.options)
            else:
                sorted_records.mapInArrow(task_of(target), RESULT).collect()
        except BaseException:
            self._abort_what_is_open(target, split)
            raise

    def _split_of(self, target: BatchTarget, placed: DataFrame, info: TopicInfo) -> SinkPartitions:
        found = self._split.get(target.query)
        if found is None:
            tasks = int(cast(str, placed.sparkSession.conf.get("spark.sql.shuffle.partitions")))
            wanted = SinkPartitions(min(info.partitions, tasks), info.unit_partitions)
            found = self._split[target.query] = _recorded(target, wanted)
        return found

    def _abort_what_is_open(self, target: BatchTarget, split: SinkPartitions) -> None:
        """End what tasks that were killed have left open, which would hold back the queue's receivers until its
        timeout."""

        def take_over(sink: int) -> None:
            with suppress(KafkaClientError):
                target.fence(sink)

        _all_at_once([lambda sink=sink: take_over(sink) for sink in range(split.count)])  # type: ignore[misc]


def _recorded(target: BatchTarget, wanted: SinkPartitions) -> SinkPartitions:
    """How the checkpoint's first batch was split; `wanted`, if this is it."""
    try:
        with closing(ConfluentKafka(target.bootstrap, target.kafka, admin_timeout_s=TIMEOUT_S).admin()) as admin:
            make_ledger(admin, target.namespace)
        with closing(target.open(target.query_name)) as producer:
            if producer.last is not None:
                return SinkPartitions(**json.loads(producer.last.note))
            note = json.dumps({"count": wanted.count, "routed_by": wanted.routed_by})
            producer.write([], lambda: LedgerEntry(0, note))
            return wanted
    except KafkaClientError as error:
        raise WriteError(f"write to {target.topic}: {error}") from None


def _all_at_once(calls: Sequence[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=call, name="jbm-abort") for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
