"""Writes rows as messages: each Spark task in one transaction, which is done once however often the task is tried.

A data source cannot sort, nor say which rows a task gets. So a task's rows are sent in the order in which it has them,
and there is no order between the rows of two tasks.
"""

import logging
import time
import uuid
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from jbm_kafka.codec.record_size import batch_bytes
from jbm_kafka.codec.scan import MESSAGE_ID_HEADER
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.ports import KafkaClientError, Outgoing
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.registry.own_topics import ledger_topic
from jbm_spark.batch_ledger import (
    TRANSACTION_TIMEOUT_MS,
    UNBOUNDED_TIMEOUT_MS,
    LedgerEntry,
    LedgerProducer,
    ledger_end,
    make_ledger,
    query_name,
    retire,
)
from jbm_spark.errors import WriteError
from jbm_spark.frame_check import checked_fields
from jbm_spark.target import target
from jbm_spark.topic_check import one_line_errors
from pyspark_jbm.format_options import FormatOptions
from pyspark_jbm.row_records import RowEncoder

log = logging.getLogger(__name__)

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"


@dataclass(frozen=True, slots=True)
class Sent(WriterCommitMessage):
    """The work that a task has done."""

    messages: int


class _Writer:
    """The part that a batch and a stream have in common; made in the driver, and used in each task."""

    def __init__(self, options: FormatOptions, schema: StructType) -> None:
        checked_fields(schema)
        self._options = options
        self._schema = schema
        self._look()  # a missing queue is an error now, not of a task
        with one_line_errors(f"write to {options.destination}"), closing(options.client().admin()) as admin:
            make_ledger(admin, options.namespace)
            self._ledger_end = ledger_end(admin, options.namespace)

    def _look(self) -> TopicInfo:
        options = self._options
        return target(
            options.destination, bootstrap=options.bootstrap, namespace=options.namespace, kafka=options.kafka
        ).info

    def _task_name(self, run: str, task: int) -> str:
        return f"{query_name(run, self._options.namespace)}-{task}"

    def _send(
        self, batches: Iterator[pa.RecordBatch], *, run: str, task: int, batch: int, ids: str, since: int | None = None
    ) -> Sent:
        ledger, name = ledger_topic(self._options.namespace), self._task_name(run, task)
        timeout_ms = TRANSACTION_TIMEOUT_MS if since is None else UNBOUNDED_TIMEOUT_MS
        try:
            info = self._look()
            client = self._options.client(info.max_message_bytes)
            with closing(LedgerProducer(client, name, ledger=ledger, timeout_ms=timeout_ms, since=since)) as producer:
                task_rows = _TaskRows(self._schema, info, ids)
                records = task_rows.records(batches)
                if not producer.has_written(batch):
                    return Sent(producer.write(records, lambda: LedgerEntry(batch, task_rows.checksum())))
                for _ in records:
                    pass
                if producer.last is None or producer.last.note != task_rows.checksum():
                    raise WriteError(
                        f"write to {self._options.destination}: batch {batch} was begun with its rows in other tasks: "
                        "split the stream as it was split before (repartition), and start it again"
                    )
                return Sent(0)
        except KafkaClientError as error:
            raise WriteError(f"write to {self._options.destination}: {error}") from None


class MessageWriter(_Writer, DataSourceArrowWriter):
    """A batch: a task that fails has sent nothing, and others may have sent theirs.

    Nothing of its run is in the ledger before it, and nothing stays there.
    """

    def __init__(self, options: FormatOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._run = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task."""
        task = TaskContext.get().partitionId()  # type: ignore[union-attr]  # of this task
        ids = f"ID:spark:{self._run}:{task}"
        return self._send(iterator, run=self._run, task=task, batch=0, ids=ids, since=self._ledger_end)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Each task has committed its own."""
        self._retire(len(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Leave what was committed as it is."""
        self._retire(len(messages))

    def _retire(self, tasks: int) -> None:
        options = self._options
        names = [self._task_name(self._run, task) for task in range(tasks)]
        try:
            retire(options.client(), names, ledger=ledger_topic(options.namespace))
        except KafkaClientError as error:  # the messages are written, whatever becomes of what is noted of them
            log.warning("%d entries of a run that has ended stay in the ledger: %s", tasks, error)


class MessageStreamWriter(_Writer, DataSourceStreamArrowWriter):
    """A stream: each task of each batch is written once, as long as a batch that is repeated is split as before."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """One task of a batch."""
        context = TaskContext.get()
        assert context is not None, "a task has a context"
        query, batch = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        assert query is not None, f"Spark tells a task of a stream {_QUERY}"
        assert batch is not None, f"Spark tells a task of a stream {_BATCH}"
        task = context.partitionId()
        ids = f"ID:spark:{query}:{batch}:{task}"
        return self._send(iterator, run=query, task=task, batch=int(batch), ids=ids)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Each task has committed its own."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Leave what was committed as it is; the batch that is repeated leaves it out."""


class _TaskRows:
    """The rows of one task, as records."""

    def __init__(self, schema: StructType, info: TopicInfo, ids: str) -> None:
        self._encoder = RowEncoder(schema)
        self._info = info
        self._ids = ids
        self._checksum = 0
        self._count = 0

    def records(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Outgoing]:
        info = self._info
        sent_at_ms = time.time_ns() // 1_000_000 if info.is_log_append_time else 0
        for batch in batches:
            for row in batch.to_pylist():
                made = self._encoder.encode(row, made_id=f"{self._ids}:{self._count}", sent_at_ms=sent_at_ms)
                size = batch_bytes(made.key, made.value, made.headers)
                if size > info.max_message_bytes:
                    message_id = next(value for name, value in made.headers if name == MESSAGE_ID_HEADER)
                    raise WriteError(
                        f"a message takes {size} bytes, and {info.topic} takes {info.max_message_bytes}: write less, "
                        f"leave the row out, or raise max.message.bytes of the topic; its id: "
                        f"{(message_id or b'').decode()}; its key: {made.key!r}"
                    )
                self._count += 1
                self._checksum = zlib.crc32(made.routed_by, self._checksum)
                partition = partition_for(made.routed_by, info.unit_partitions)
                yield Outgoing(info.topic, partition, made.key, made.value, made.headers,
                               batch_bytes_max=info.max_message_bytes)  # fmt: skip

    def checksum(self) -> str:
        """Which rows were asked for until now, whatever their bodies are: those may be made anew."""
        return f"{self._count} rows, {self._checksum:08x}"


__all__ = ["MessageStreamWriter", "MessageWriter", "Sent"]
