"""Topics and partitions of the in-memory Kafka: records, transaction markers, the last stable offset, compaction."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from jbm_kafka.codec.record_size import TRUSTED_COMPRESSION, batch_bytes, compressed_bytes_max
from jbm_kafka.ports import CommittedOffset, Headers, Outgoing

_RECORD_OVERHEAD_BYTES = 70
"""The size of a lone record besides its parts: the header of its batch and its own."""

DEFAULT_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": "3600000",
    "retention.ms": "604800000",
}


class MemoryRecord:
    """One record as fetched; implements `ports.KafkaRecord`."""

    __slots__ = ("_headers", "_key", "_offset", "_partition", "_timestamp", "_topic", "_value")

    def __init__(self, outgoing: Outgoing, offset: int, timestamp: tuple[int, int]) -> None:
        self._topic = outgoing.topic
        self._partition = outgoing.partition
        self._offset = offset
        self._key = outgoing.key
        self._value = outgoing.value
        self._headers = list(outgoing.headers) or None
        self._timestamp = timestamp

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> Headers | None:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp

    def __repr__(self) -> str:
        return f"MemoryRecord({self._topic}[{self._partition}]@{self._offset} {self._key!r}: {self._value!r})"


class TransactionOutcome(Enum):
    """How a transaction stands."""

    OPEN = "OPEN"
    COMMITTED = "COMMITTED"
    """Final."""
    ABORTED = "ABORTED"
    """Final."""


@dataclass(slots=True, eq=False)
class MemoryTransaction:
    """One transaction: where it wrote, and the group offsets it would commit."""

    began_at_ms: int
    """Monotonic."""
    outcome: TransactionOutcome = TransactionOutcome.OPEN
    logs: list["PartitionLog"] = field(default_factory=list)
    offsets: dict[tuple[str, str, int], CommittedOffset] = field(default_factory=dict)
    """The offsets by group, topic, partition."""
    offset_numbers: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """When each was written: marks may come in another order than that, and the later one stays."""
    marks_due_ms: int = 0
    """Monotonic; when the brokers have written its marks."""

    def forget_offsets(self, group: str) -> None:
        """The group is deleted: what the transaction would commit of it comes to nothing."""
        for place in [place for place in self.offsets if place[0] == group]:
            del self.offsets[place], self.offset_numbers[place]


@dataclass(slots=True)
class _Entry:
    record: MemoryRecord | None
    """None: a marker, or what compaction removed."""
    transaction: MemoryTransaction | None


class PartitionLog:
    """The log of one partition."""

    def __init__(self) -> None:
        self.begin = 0
        """Offset of the first entry that was not deleted."""
        self._entries: list[_Entry] = []
        self._open: dict[MemoryTransaction, int] = {}
        """Open transactions with their first offset here."""

    @property
    def end(self) -> int:
        """The high watermark."""
        return self.begin + len(self._entries)

    @property
    def stable_end(self) -> int:
        """The last stable offset: nothing at or after it is decided for read_committed readers."""
        return min(self._open.values(), default=self.end)

    def append(self, record: Outgoing, timestamp: tuple[int, int], transaction: MemoryTransaction | None) -> int:
        offset = self.end
        self._entries.append(_Entry(MemoryRecord(record, offset, timestamp), transaction))
        if transaction is not None and transaction not in self._open:
            self._open[transaction] = offset
            transaction.logs.append(self)
        return offset

    def mark(self, transaction: MemoryTransaction) -> None:
        """Write the marker of a decided transaction; it takes an offset."""
        assert transaction.outcome is not TransactionOutcome.OPEN, "a marker tells an outcome"
        del self._open[transaction]
        self._entries.append(_Entry(None, transaction))

    def read(self, position: int, count_max: int, *, committed_only: bool) -> tuple[list[MemoryRecord], int]:
        """Visible records from `position` on, and the position after them and after what is not shown."""
        assert self.begin <= position <= self.end, (self.begin, position, self.end)
        limit = self.stable_end if committed_only else self.end
        records: list[MemoryRecord] = []
        while position < limit and len(records) < count_max:
            entry = self._entries[position - self.begin]
            position += 1
            if entry.record is not None and (not committed_only or _is_visible(entry)):
                records.append(entry.record)
        return records, position

    def position_since(self, since_ms: int) -> int:
        """That of the first record that is stamped then or later, whoever may see it; the end where none is."""
        for place, entry in enumerate(self._entries):
            if entry.record is not None and entry.record.timestamp()[1] >= since_ms:
                return self.begin + place
        return self.end

    def entry(self, offset: int) -> tuple[MemoryRecord | None, TransactionOutcome]:
        """Return what stands at an offset, and whether that is decided, readers aside; no record: a marker or a
        hole."""
        entry = self._entries[offset - self.begin]
        return entry.record, TransactionOutcome.COMMITTED if entry.transaction is None else entry.transaction.outcome

    def delete_before(self, offset: int) -> None:
        """Move the beginning up, as retention and delete_records do."""
        assert offset <= self.end, (offset, self.end)
        if offset > self.begin:
            del self._entries[: offset - self.begin]
            self.begin = offset

    def compact(self, *, keeps_deletions: bool = False) -> None:
        """Keep the last record of each key below the last stable offset; offsets stay, holes are left.

        `keeps_deletions`: as while `delete.retention.ms` is not over.
        """
        latest: dict[bytes | None, int] = {}
        for index, record in self._decided():
            latest[record.key()] = index
        for index, record in self._decided():
            if latest[record.key()] != index or (record.value() is None and not keeps_deletions):
                self._entries[index].record = None

    def _decided(self) -> Iterator[tuple[int, MemoryRecord]]:
        for index in range(self.stable_end - self.begin):
            entry = self._entries[index]
            if entry.record is not None and _is_visible(entry):
                yield index, entry.record


def _is_visible(entry: _Entry) -> bool:
    return entry.transaction is None or entry.transaction.outcome is TransactionOutcome.COMMITTED


@dataclass(slots=True)
class MemoryTopic:
    """A topic with its partitions."""

    name: str
    topic_id: str
    config: Mapping[str, str]
    logs: list[PartitionLog]

    def refusal(self, record: Outgoing, now_ms: int) -> str | None:
        """Why the broker does not take the record; None when it does."""
        limit = int(self.config["max.message.bytes"])
        is_compressed = self.config["compression.type"] in ("producer", *TRUSTED_COMPRESSION)
        takes = compressed_bytes_max if is_compressed else batch_bytes
        if size(record) > limit and takes(record.key, record.value, record.headers) > limit:
            return "Message size too large"
        if "compact" in self.config["cleanup.policy"] and record.key is None:
            return "Broker failed to validate record: a compacted topic needs keys"
        ahead_ms = (record.timestamp_ms or now_ms) - now_ms
        if ahead_ms > int(self.config["message.timestamp.after.max.ms"]):
            return "Invalid timestamp: too far in the future"
        return None

    def timestamp(self, record: Outgoing, now_ms: int) -> tuple[int, int]:
        if self.config["message.timestamp.type"] == "LogAppendTime":
            return 2, now_ms
        return 1, record.timestamp_ms or now_ms


def size(record: Outgoing) -> int:
    """Bytes of the record as a batch of its own, near enough."""
    parts: Sequence[bytes | None] = (record.key, record.value, *(value for _, value in record.headers))
    names = sum(len(name.encode()) for name, _ in record.headers)
    return _RECORD_OVERHEAD_BYTES + names + sum(len(part) for part in parts if part is not None)


AppendGuard = Callable[[Outgoing], str | None]
"""A fault: the reason to refuse a record, or None."""
