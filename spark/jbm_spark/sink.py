"""Writes the rows of a frame to a queue so that each unit stays in order, whatever is repeated.

All rows of a partition are written by one Spark task, one after the other, in their order. A task that fails is begun
again from its first row, and a batch from its first task; so of every id the first record in the log stands in the
order of its unit, and what was repeated follows with ids that were there before.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.codec.scan import MESSAGE_ID_HEADER
from jbm_kafka.core.bootstrap import checked_bootstrap
from jbm_kafka.core.destination import Destination
from jbm_kafka.jms.factory import checked_namespace
from jbm_kafka.ports.provider import TopicInfo
from jbm_spark.body_check import NOT_LOOKED_AT
from jbm_spark.call_checks import column_names
from jbm_spark.call_sites import without_call_sites
from jbm_spark.causes import cause_line, is_stop, short_stop
from jbm_spark.checkpoint_lock import local_folder, plain_is_local
from jbm_spark.client_properties import client_properties
from jbm_spark.columns import kinds_are_as_they_came, worked_out_once
from jbm_spark.errors import FrameRefusedError, OptionRefusedError, TopicError, WriteError
from jbm_spark.frame_check import checked_columns
from jbm_spark.java_writer import are_packed, packed_headers, write_plainly_by_java, writes_by_java
from jbm_spark.kafka_properties import checked_kafka_options
from jbm_spark.message_ids import with_message_ids
from jbm_spark.outgoing import header, outgoing_columns
from jbm_spark.record_bytes import (
    batch_bytes,
    batch_bytes_at_most,
    batch_bytes_of_record,
    packed_record_bytes,
    with_lz4_frame,
)
from jbm_spark.rejects import save_rejects
from jbm_spark.sink_options import all_sink_options, checked_sink_options, is_compressing
from jbm_spark.target import Target, target
from jbm_spark.transactional_sink import TransactionalSink
from jbm_spark.unit_partition import partition_of
from jbm_spark.written_slices import rows_by_id, slice_rows, write_slices

PATIENCE_S = 120.0
LOOK_AGAIN_S = 1.0
PLACED = ("partition", "key", "value", "headers")
"""The columns of a record that is ready to be written: where it goes, and what it is."""
_ORDER = "out_order_{}"


_Found = TypeVar("_Found")


def patiently(look: Callable[[], _Found]) -> _Found:
    """Return what is found; a stream outlives a broker that is started again, as our connections do."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return look()
        except TopicError:
            if time.monotonic() > deadline:
                raise
        time.sleep(LOOK_AGAIN_S)


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One of a stream's batches, or of a run's."""

    number: int
    """Spark keeps it when it repeats the batch."""
    checkpoint: str = ""
    """The folder; of a run: none, for it has none."""


@dataclass(frozen=True, slots=True)
class Sink:
    """A queue, and how frames of one shape are written to it; checked when it is made."""

    destination: Destination
    bootstrap: str
    namespace: str
    kafka: Mapping[str, object] = field(repr=False)
    """librdkafka's properties, for the look at the queue; they may be secrets."""
    options: Mapping[str, str] = field(repr=False)
    """The options of Spark's sink; checked."""
    columns: frozenset[str]
    order_by: Sequence[str]
    rejects: str | None = None
    """The folder of rows that are no messages; None: such a row ends its batch."""
    once: TransactionalSink | None = None
    """Writes the batches of a stream, each once; None: as Spark's own sink, which may repeat them."""
    kinds_are_as_they_came: bool = False
    """As `columns.kinds_are_as_they_came`: no body has to be looked at, nearly always."""
    _must_look: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)
    """Set by a row that needed a look: its batch was begun twice, and those that follow are not."""

    def look(self) -> Target:
        """The queue as it is now; raises as `target` does."""
        return target(self.destination, bootstrap=self.bootstrap, namespace=self.namespace, kafka=self.kafka)

    def begin_run(self, spark: SparkSession, *, job: str) -> int:
        """Take a job without a checkpoint over from all earlier runs, which write nothing more; what they have
        committed is in the log now. Return the number behind which those of this run's batches follow.

        Raises as `write`.
        """
        assert self.once is not None
        return self.once.begin_run(spark, self.look().info, job)

    @without_call_sites()
    def write(self, frame: DataFrame, *, job: str, batch: StreamBatch | None = None) -> None:
        """All rows of the frame; returns when Kafka has them.

        Raises:
            InvalidDestinationError, OrderError, TopicError: the queue is not as it must be; nothing is written.
            WriteError: a row is no message, and nothing is written; or Spark or Kafka failed, and some rows may be.
        """
        queue = self.look() if batch is None else patiently(self.look)
        try:
            may_skip = self.kinds_are_as_they_came and not self._must_look.is_set()
            if not may_skip or not self._is_saved_without_look(frame, queue, job=job, batch=batch):
                self._save(frame, queue, job=job, batch=batch, looks=True)
        except (PySparkException, Py4JError) as error:
            if is_stop(error):
                raise short_stop(error) from None  # the query has then ended without a failure
            # Not `from error`, whose hundred lines of Java would stand above the one that matters.
            raise WriteError(f"write to {self.destination}: {cause_line(error)}") from None

    def _is_saved_without_look(self, frame: DataFrame, queue: Target, *, job: str, batch: StreamBatch | None) -> bool:
        """Return False if a row needs a look at its body; then nothing is written."""
        try:
            self._save(frame, queue, job=job, batch=batch, looks=False)
        except (PySparkException, Py4JError) as error:
            if is_stop(error) or NOT_LOOKED_AT not in str(error):
                raise
            self._must_look.set()
            return False
        return True

    def _save(self, frame: DataFrame, queue: Target, *, job: str, batch: StreamBatch | None, looks: bool) -> None:
        number = None if batch is None else batch.number
        placed = self._placed(frame, queue.info, job=job, batch=number, looks=looks)
        if self.rejects is None:
            good = F.when(F.col("out_fault").isNull(), F.col("value")).otherwise(F.raise_error(F.col("out_fault")))
            self._save_in_order(placed.withColumn("value", good), queue, job, batch)
            return
        placed.persist()
        try:
            rejected = placed.where("out_fault is not null").select(F.col("out_fault").alias("reason"), "row")
            save_rejects(rejected, self.rejects, job=job, batch=number or 0)
            self._save_in_order(placed.where("out_fault is null"), queue, job, batch)
        finally:
            placed.unpersist()

    def _save_in_order(self, placed: DataFrame, queue: Target, job: str, batch: StreamBatch | None) -> None:
        """A stream's rows once; else, where they have duplicate ids, in slices that the duplicate window holds."""
        sparks = int(cast(str, placed.sparkSession.conf.get("spark.sql.shuffle.partitions")))
        order = [name for name in placed.columns if name.startswith(_ORDER.format(""))]
        if self.once is not None and batch is not None:
            # Rows that come of one message keep the order of the frame, and of others only the id is the same again.
            is_placed = F.col(order[-1]).isNotNull() if "kafka" in self.columns else F.lit(False)
            more = {"routed_by": _routed_by(), "out_tie": F.when(~is_placed, F.col("out_id")),
                    "digest": F.xxhash64("out_id", "key")}  # fmt: skip
            routed, place = placed.withColumns(more), [*order, "out_tie"]
            self.once.write(routed, (*PLACED, "digest"), queue.info,
                            order=[*place, "out_row"], place=place, query=job, batch=batch.number)  # fmt: skip
            return
        # Not by partition first: rows come in runs, which are merged by fewer comparisons than others are sorted by.
        whole_order, tasks = [*order, "out_row"], min(queue.info.partitions, sparks)

        def save(records: DataFrame) -> None:
            self._save_placed(records.select(*PLACED), queue.info)

        if batch is None or queue.duplicate_window is None or "duplicate_id" not in self.columns:
            # By their numbers, for by hashes one task would have most of a few partitions.
            split = placed.repartitionById(tasks, F.col("partition") % tasks)
            save(split.sortWithinPartitions(*whole_order))
            return
        rows = slice_rows(queue.duplicate_window)
        in_order = placed.repartition(tasks, "partition").sortWithinPartitions(*whole_order)
        in_order.persist()
        try:
            if rows_by_id(in_order) <= rows:
                save(in_order)
            else:
                by = [F.col(name) for name in order or ["out_id"]]
                write_slices(in_order, save, rows=rows, order=by, checkpoint=batch.checkpoint, batch=batch.number)
        finally:
            in_order.unpersist()

    def _save_placed(self, records: DataFrame, info: TopicInfo) -> None:
        """Returns when Kafka has the records, whose columns are PLACED. All those of a partition are in one task, in
        the order that they shall have there."""
        options = all_sink_options(
            self.options, bootstrap=self.bootstrap, topic=info.topic, max_message_bytes=info.max_message_bytes
        )
        if are_packed(records):
            write_plainly_by_java(records, options, max_message_bytes=info.max_message_bytes)
        else:
            records.write.format("kafka").options(**options).save()

    def _placed(self, frame: DataFrame, info: TopicInfo, *, job: str, batch: int | None, looks: bool) -> DataFrame:
        """Records with their partition and their order, and why a row is none (`out_fault`), with the row itself where
        rejects are kept. What is made of a fault before the next shuffle comes before the first record is written."""
        ordered = frame.withColumns(
            {
                **{_ORDER.format(place): column for place, column in enumerate(self._order())},
                # The place of a row in the frame, as collect() would give it.
                "out_row": F.monotonically_increasing_id(),
            }
        )
        outgoing = outgoing_columns(ordered, self.columns, looks=looks)
        identified = with_message_ids(outgoing, self.columns, job=job, batch=batch)
        ours = [header(MESSAGE_ID_HEADER, F.col("out_id"))]
        if info.is_log_append_time:
            ours.append(header("JMSTimestamp", F.unix_millis(F.current_timestamp())))
        headers = F.concat("out_carried", *ours, "out_own")
        given = [] if self.rejects is None else [F.struct(*map(_quoted, frame.columns)).alias("row")]
        records = identified.select(
            *[name for name in ordered.columns if name.startswith(_ORDER.format(""))],
            "out_row",
            "out_id",
            self._duplicate_id().alias("out_duplicate"),
            "out_fault",
            F.col("out_key").alias("key"),
            (packed_headers(headers) if writes_by_java(frame) else headers).alias("headers"),
            F.col("out_value").alias("value"),
            batch_bytes_at_most(self.columns).alias("out_bytes_at_most"),
            *given,
        )
        judged = self._measured(records, info)
        placed = judged.withColumn("partition", partition_of(_routed_by(), info.unit_partitions))
        if self.rejects is None:
            return placed
        return placed.withColumn("row", F.when(F.col("out_fault").isNotNull(), F.col("row")))

    def _order(self) -> list[Column]:
        named = [F.col(name) for name in self.order_by]
        # Rows that a stream's order leaves open need one that is the same when the batch is repeated.
        if "kafka" in self.columns and (self.once is not None or not named):
            return named + [F.col(f"kafka.{name}") for name in ("topic", "partition", "offset")]
        return named

    def _duplicate_id(self) -> Column:
        if "duplicate_id" not in self.columns:
            return F.lit(None).cast("string")
        return F.nullif(F.col("duplicate_id"), F.lit(""))

    def _measured(self, records: DataFrame, info: TopicInfo) -> DataFrame:
        """Also a record that is too large for its topic has a fault. It would fail alone at the broker, and what is
        behind it goes through."""
        if is_compressing(self.options):
            return records.drop("out_bytes_at_most")

        # By `_order`: behind the named columns, of a row that was a record, its topic, partition and offset.
        place = [F.col(name) for name in records.columns if name.startswith(_ORDER.format(""))][len(self.order_by) :]
        came_from = F.lit("")
        if place:
            told_place = F.concat(F.lit("; it came from "), F.concat_ws(":", *place))
            came_from = F.when(place[0].isNotNull(), told_place).otherwise(came_from)
        others_go_on = "" if self.rejects else ", or name a folder for rejects, and all others are written"

        def told(size: Column) -> Column:
            text = F.concat(
                F.lit("a message takes "), size.cast("string"),
                F.lit(f" bytes, and {self.destination} takes {info.max_message_bytes}: write less, or raise "
                      f"max.message.bytes of the topic{others_go_on}; its id: "), F.col("out_id"), came_from,
                F.lit("; its key: "), F.coalesce(F.col("key").cast("string"), F.lit("none")),
            )  # fmt: skip
            return F.when(size > info.max_message_bytes, text)

        key, value, headers = F.col("key"), F.col("value"), F.col("headers")
        if are_packed(records):
            records = records.withColumn("out_bytes", packed_record_bytes(key, value, headers))
            size = batch_bytes_of_record(F.col("out_bytes"))
            # Java's client compresses for `once`, and sends also what has become larger; librdkafka does not.
            too_large = told(size if self.once is None else with_lz4_frame(size))
        else:
            # Most are far from the limit, and to measure each exactly would cost as much as to make it.
            is_near = F.col("out_bytes_at_most") > info.max_message_bytes
            too_large = F.when(is_near, worked_out_once(batch_bytes(key, value, headers), told))
        fault = F.coalesce("out_fault", too_large)
        return records.withColumn("out_fault", fault).drop("out_bytes", "out_bytes_at_most")


def _routed_by() -> Column:
    """Return what tells a record's partition: its unit, else an id that a repeated record has again."""
    return F.coalesce("key", F.coalesce("out_duplicate", "out_id").cast("binary"))


def _quoted(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")


def sink_for(
    frame: DataFrame,
    destination: Destination,
    *,
    bootstrap: str,
    namespace: str,
    kafka: Mapping[str, object] | None,
    options: Mapping[str, str] | None,
    order_by: str | Sequence[str] | None,
    rejects: str | os.PathLike[str] | None = None,
    exactly_once: bool = False,
) -> Sink:
    """Return the sink for frames with the columns of this one; the cluster is not asked yet.

    Raises:
        FrameRefusedError: the columns are no message's, or a stream's units have no order.
        OptionRefusedError: an option that would break order or safety.
    """
    namespace = checked_namespace(namespace)
    names = column_names(order_by)
    columns = checked_columns(frame, names)
    if frame.isStreaming and "unit_of_order" in columns and "kafka" not in columns and not names:
        raise FrameRefusedError(
            "the rows of a stream have no order of their own: keep the column `kafka` of message_stream(), or name a "
            "column to order each unit by with order_by="
        )
    all_options = {**checked_kafka_options(kafka), **checked_sink_options(options)}
    address = checked_bootstrap("bootstrap", bootstrap)
    folder = None if rejects is None else _checked_folder(frame, rejects)
    once = None
    if exactly_once:
        writes_by_java(frame)  # what its setting says must be one of two
        once = TransactionalSink(address, client_properties(kafka, options), namespace, all_options)
    return Sink(destination, address, namespace, dict(kafka or {}), all_options, columns, tuple(names), folder, once,
                "kafka" in columns and kinds_are_as_they_came(frame.schema))  # fmt: skip


def _checked_folder(frame: DataFrame, rejects: object) -> str:
    if not isinstance(rejects, str | os.PathLike) or not os.fspath(rejects):
        raise OptionRefusedError(f"rejects={rejects!r}: name a folder for the rows that are no messages")
    path = str(os.fspath(rejects))
    # Absolute, for a JVM stays in the folder that it was started in.
    return str(local_folder(path, plain_is_local=plain_is_local(frame.sparkSession)) or path)
