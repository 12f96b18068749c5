"""Reads what is committed to a topic, partition by partition: for a batch, and batch by batch for a stream."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from jbm_kafka.kafka.cluster_admin import ConfluentAdmin
from jbm_kafka.ports import KafkaClientError, PositionOutOfRange, TopicDescription
from jbm_kafka.registry.topics import Topics
from jbm_spark.errors import QueryError, TopicError
from jbm_spark.options import check_ends, check_partitions, check_span
from jbm_spark.topic_check import one_line_errors
from pyspark_jbm.format_options import Place, ReadOptions
from pyspark_jbm.message_batches import message_batch

RECORDS_AT_ONCE = 5_000
_POLL_S = 1.0
_STALLED_POLLS = 120
"""So many polls without a record or news of the end, and the brokers have not answered."""
_GONE = (
    "messages that were not read yet are gone (retention, or the topic was made anew): to go on without them, begin "
    "with a new checkpoint, and with `starting` where there are some"
)


class LogRange(InputPartition):
    """Offsets of one partition, the end left out."""

    def __init__(self, partition: int, begin: int, end: int) -> None:
        self.partition = partition
        self.begin = begin
        self.end = end


@dataclass(frozen=True, slots=True)
class LogEnds:
    """A topic's partitions, from the first offset to the stable end."""

    topic_id: str
    begins: Mapping[int, int]
    ends: Mapping[int, int]


class MessageReader(DataSourceReader):
    """A batch: from `starting` to `ending`, both looked up once."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        check_span(options.starting, options.ending)

    def partitions(self) -> Sequence[InputPartition]:
        """One range a partition that holds something."""
        there = _look(self._options)
        begins, ends = dict(there.begins), dict(there.ends)
        for which, place in (("starting", self._options.starting), ("ending", self._options.ending)):
            _check_place(which, place, there)
        if isinstance(self._options.starting, Mapping):
            begins = dict(self._options.starting)
            _check_there(begins, there)
        if isinstance(self._options.ending, Mapping):
            ends = dict(self._options.ending)
        return [LogRange(each, begins[each], ends[each]) for each in sorted(ends) if begins[each] < ends[each]] or [
            LogRange(0, 0, 0)  # Spark makes one of None where there are none
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In the order of the log."""
        return _read(self._options, partition)


class MessageStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream: Spark keeps offsets as JSON, by partition, with the topic's id in Kafka."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._target: Mapping[int, int] | None = None
        """Where a run that ends by itself ends."""
        self._begins: dict[str, Any] = {}

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offsets at which a new query begins."""
        there = _look(self._options)
        starting = self._options.starting
        _check_place("starting", starting, there)
        if isinstance(starting, Mapping):
            _check_there(starting, there)
            return _offset(there.topic_id, starting)
        return _offset(there.topic_id, there.ends if starting == "latest" else there.begins)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.offsets_a_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = _look(self._options).ends

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Some way towards the end in each partition; fails when what lies before it is gone."""
        there = _look(self._options)
        begins = _positions(start, there)
        ends = there.ends if self._target is None else self._target
        left = {each: end - begins.get(each, 0) for each, end in ends.items() if end > begins.get(each, 0)}
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else sum(left.values())
        positions = dict(begins)
        for number, each in enumerate(sorted(left, key=lambda each: left[each])):
            share = max(most // (len(left) - number), 1)  # what a small one leaves, the others get
            taken = min(left[each], share)
            positions[each] = begins.get(each, 0) + taken
            most -= taken
        return _offset(there.topic_id, positions)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One range a partition with something new."""
        begins = _positions(start, _look(self._options))
        ends = {int(each): offset for each, offset in end["offsets"].items()}
        return [
            LogRange(each, begins.get(each, 0), ends[each]) for each in sorted(ends) if begins.get(each, 0) < ends[each]
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In the order of the log."""
        return _read(self._options, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Reading acknowledges nothing."""

    def stop(self) -> None:
        """Nothing is held."""


def _offset(topic_id: str, positions: Mapping[int, int]) -> dict[str, Any]:
    return {"topic_id": topic_id, "offsets": {str(each): positions[each] for each in sorted(positions)}}


def _positions(start: Mapping[str, Any], there: LogEnds) -> dict[int, int]:
    """Raises QueryError: they are of a topic that was made anew, or lie before what it still holds."""
    positions = {int(each): offset for each, offset in start["offsets"].items()}
    if start["topic_id"] != there.topic_id:
        raise QueryError(_GONE)
    _check_there(positions, there)
    return positions


def _check_there(begins: Mapping[int, int], there: LogEnds) -> None:
    for each, begin in begins.items():
        if begin < there.begins.get(each, 0):
            raise QueryError(f"partition {each}, offsets {begin} to {there.begins[each]}: {_GONE}")


def _check_place(which: str, place: Place, there: LogEnds) -> None:
    check_partitions(which, place, len(there.ends))
    check_ends(which, place, there.ends)


def _look(options: ReadOptions) -> LogEnds:
    about = f"read {options.destination}"
    with one_line_errors(about), closing(options.client().admin()) as admin:
        admin.cluster_id()  # tells at once what can be known at once
        partitions = range(Topics(admin, namespace=options.namespace).partitions_of(options.destination))
        described = _described(admin, options.topic)
        return LogEnds(
            described.topic_id,
            admin.begin_positions(options.topic, partitions),
            admin.end_positions(options.topic, partitions, stable=True),
        )


def _described(admin: ConfluentAdmin, topic: str) -> TopicDescription:
    return admin.describe([topic])[topic]


def _read(options: ReadOptions, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, LogRange), partition
    number, end = partition.partition, partition.end
    if partition.begin >= end:
        return
    try:
        with closing(options.client().tail_reader()) as reader:
            reader.assign(options.topic, {number: partition.begin})
            stalled = 0
            while (position := reader.positions()[number]) < end:
                records = reader.poll(RECORDS_AT_ONCE, _POLL_S)
                wanted = [record for record in records if (record.offset() or 0) < end]
                if wanted:
                    yield message_batch(wanted)
                stalled = stalled + 1 if reader.positions()[number] == position else 0
                if stalled > _STALLED_POLLS:
                    raise TopicError(
                        f"read {options.topic}[{number}]: nothing came from offset {position} to {end}: see that the "
                        "brokers run, and start again"
                    )
    except PositionOutOfRange:
        raise QueryError(f"{options.topic}[{number}] from offset {partition.begin}: {_GONE}") from None
    except KafkaClientError as error:
        raise TopicError(f"read {options.destination}: {error}") from None
