"""Writes the records of one sink partition of a batch, in a Spark task, each once: what runs in Python workers."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain

import pyarrow as pa

from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import KafkaClientError, Outgoing
from jbm_kafka.registry.own_topics import ledger_topic
from jbm_spark.batch_ledger import LedgerEntry, LedgerProducer, group_entry, query_name
from jbm_spark.batch_parts import BatchParts, PlacedRow
from jbm_spark.errors import WriteError
from jbm_spark.sink_options import queue_bytes

RESULT = "sink int, records bigint"
"""The columns of what a task says it has written; a sink partition that was written before has 0 records."""
_RESULT = pa.schema([("sink", pa.int32()), ("records", pa.int64())])


@dataclass(frozen=True, slots=True)
class BatchTarget:
    """Which batch it is, and where it goes."""

    bootstrap: str
    kafka: Mapping[str, object] = field(repr=False)
    """librdkafka's properties; they may be secrets."""
    namespace: str
    topic: str
    max_message_bytes: int
    query: str
    """The checkpoint's identity."""
    batch: int

    def open(self, name: str) -> LedgerProducer:
        """The producer of one of the query's transactional ids. Raises KafkaClientError."""
        room_bytes = queue_bytes(self.max_message_bytes)
        kafka = ConfluentKafka(self.bootstrap, self.kafka, namespace=self.namespace, memory_bytes=room_bytes)
        return LedgerProducer(kafka, name, ledger=ledger_topic(self.namespace))

    def latest(self, name: str, timeout_s: float) -> LedgerEntry | None:
        """What one of the query's transactional ids has written last, as its group knows it: nobody is fenced.

        Raises KafkaClientError.
        """
        kafka = ConfluentKafka(self.bootstrap, self.kafka, namespace=self.namespace)
        with closing(kafka.admin()) as admin:
            return group_entry(admin, name, ledger_topic(self.namespace), timeout_s)

    def fence(self, sink: int) -> None:
        """End what tasks of the sink partition have open. Raises KafkaClientError."""
        kafka = ConfluentKafka(self.bootstrap, self.kafka, namespace=self.namespace)
        LedgerProducer.fence(kafka, self.sink_name(sink), ledger=ledger_topic(self.namespace))

    def sink_name(self, sink: int) -> str:
        """The transactional id of a sink partition."""
        return f"{self.query_name}-{sink}"

    @property
    def query_name(self) -> str:
        """The transactional id that says how the query's batches are split."""
        return query_name(self.query, self.namespace)


def task_of(target: BatchTarget) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`, over sink, partition, key, value, headers, digest, place, in order; all rows have one sink."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return
        sink = first.column("sink")[0].as_py()
        try:
            count = _write(target, sink, chain([first], batches))
        except KafkaClientError as error:
            raise WriteError(str(error)) from None
        yield pa.RecordBatch.from_pydict({"sink": [sink], "records": [count]}, schema=_RESULT)

    return write


def _write(target: BatchTarget, sink: int, batches: Iterator[pa.RecordBatch]) -> int:
    with closing(target.open(target.sink_name(sink))) as producer:
        if producer.has_written(target.batch):
            return 0
        return producer.write_parts(
            target.batch, BatchParts(row for batch in batches for row in _rows(batch, target, sink))
        )


def _rows(batch: pa.RecordBatch, target: BatchTarget, sink: int) -> Iterator[PlacedRow]:
    sinks = batch.column("sink").unique().to_pylist()
    assert sinks in ([], [sink]), f"a task has rows of sink partitions {sinks}, and began with {sink}"
    headers = batch.column("headers")
    # Flat, for Arrow makes Python's values of a list of structs one by one.
    fields = headers.flatten()
    pairs = list(zip(fields.field("key").to_pylist(), fields.field("value").to_pylist(), strict=True))
    sizes = headers.value_lengths().to_pylist()
    columns = (batch.column(name).to_pylist() for name in ("partition", "key", "value", "digest", "place"))
    begin = 0
    for partition, key, value, digest, place, size in zip(*columns, sizes, strict=True):
        end = begin + (size or 0)
        record = Outgoing(target.topic, partition, key, value, pairs[begin:end],
                          batch_bytes_max=target.max_message_bytes)  # fmt: skip
        yield record, digest, place
        begin = end
