"""What the coordinators of transactions have recorded, read from Kafka's own topic of it.

librdkafka has no call that describes producers or transactions. Coordinators keep each transactional id's latest state
in `__transaction_state`, which any client reads that may; its records are those of TransactionLogKey and
TransactionLogValue in Kafka's sources, versions 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from jbm_kafka.kafka.cluster_admin import ConfluentAdmin
from jbm_kafka.kafka.log_reader import ConfluentLogReader
from jbm_kafka.ports import FoundTransactions, KafkaClientError, KafkaRecord, OpenTransaction

TOPIC: Final = "__transaction_state"
RECORDS_AT_ONCE: Final = 50_000
"""Held in memory while a part is read."""
RECORDS_EACH: Final = 20_000
"""Of each partition, the latest: some 15 minutes of one that sees seven transactions a second."""
READ_TIMEOUT_S: Final = 10.0
_OPEN: Final = {1: "Ongoing", 2: "PrepareCommit", 3: "PrepareAbort", 7: "PrepareEpochFence"}
"""States that hold readers back, by their numbers in the records; the others are over."""


class Recorded(NamedTuple):
    """The latest that is recorded of one transactional id."""

    producer_id: int
    timeout_ms: int
    state: int
    partitions: Mapping[str, frozenset[int]]
    """By topic: where the transaction writes; empty without a transaction."""
    began_at_ms: int


class ConfluentTransactionLog:
    """Implements `ports.TransactionLog`."""

    def __init__(self, admin: ConfluentAdmin, reader: ConfluentLogReader) -> None:
        self._admin = admin
        self._reader = reader

    def open_on(self, topic: str, partition: int) -> FoundTransactions:
        described = self._admin.describe([TOPIC]).get(TOPIC)
        if described is None:
            return FoundTransactions((), is_whole=True)  # nobody ever had a transaction
        places = list(range(described.partitions))
        log_begins = self._admin.begin_positions(TOPIC, places)
        ends = self._admin.end_positions(TOPIC, places, stable=False)
        begins = {place: max(log_begins[place], ends[place] - RECORDS_EACH) for place in places}
        latest: dict[str, Recorded | None] = {}
        for part in _parts(places, max(RECORDS_AT_ONCE // RECORDS_EACH, 1), begins, ends):
            for record in self._read(part):
                name = transactional_id_of(record.key())
                if name is not None:
                    latest[name] = recorded(record.value())
        found = [
            OpenTransaction(name, each.producer_id, _OPEN[each.state], each.began_at_ms, each.timeout_ms)
            for name, each in latest.items()
            if each is not None and each.state in _OPEN and partition in each.partitions.get(topic, ())
        ]
        return FoundTransactions(
            tuple(sorted(found, key=lambda each: each.began_at_ms)), is_whole=begins == dict(log_begins)
        )

    def _read(self, ranges: Mapping[int, tuple[int, int]]) -> Sequence[KafkaRecord]:
        return self._reader.read(TOPIC, ranges, timeout_s=READ_TIMEOUT_S, committed_only=False)

    def close(self) -> None:
        self._reader.close()
        self._admin.close()


def _parts(
    places: Sequence[int], least: int, begins: Mapping[int, int], ends: Mapping[int, int]
) -> Iterator[Mapping[int, tuple[int, int]]]:
    """Ranges to be read at once: as many partitions as hold few enough records, and at least some."""
    part: dict[int, tuple[int, int]] = {}
    size = 0
    for place in places:
        count = ends[place] - begins[place]
        if not count:
            continue
        if len(part) >= least and size + count > RECORDS_AT_ONCE:
            yield part
            part, size = {}, 0
        part[place] = (begins[place], ends[place])
        size += count
    if part:
        yield part


def transactional_id_of(key: bytes | None) -> str | None:
    """Whose record it is; None for a record of another kind."""
    if key is None or len(key) < 4 or _int(key[:2]) != 0:
        return None
    return key[4 : 4 + _int(key[2:4])].decode(errors="backslashreplace")


def recorded(value: bytes | None) -> Recorded | None:
    """Return what it says; None where the id is forgotten, and for a record of a version that is not known here.

    Raises:
        KafkaClientError: it is shorter than it says.
    """
    if value is None:
        return None
    fields = _Fields(value)
    version = fields.number(2)
    if version not in (0, 1):
        return None
    is_flexible = version == 1
    producer_id, _epoch, timeout_ms, state = fields.number(8), fields.number(2), fields.number(4), fields.number(1)
    partitions: dict[str, frozenset[int]] = {}
    for _ in range(fields.length(4, is_flexible=is_flexible)):
        topic = fields.text(fields.length(2, is_flexible=is_flexible))
        count = fields.length(4, is_flexible=is_flexible)
        partitions[topic] = frozenset([fields.number(4) for _ in range(count)])
        if is_flexible:
            fields.skip_tags()
    fields.number(8)  # the time of this record
    return Recorded(producer_id, timeout_ms, state, partitions, fields.number(8))


class _Fields:
    """Reads fields of Kafka's own formats, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, size: int) -> int:
        return _int(self._take(size))

    def text(self, size: int) -> str:
        return self._take(size).decode(errors="backslashreplace")

    def length(self, size: int, *, is_flexible: bool) -> int:
        """Return the length of an array or a text; 0 for none. Flexible versions write one more, as a varint."""
        return max(self._varint() - 1 if is_flexible else self.number(size), 0)

    def skip_tags(self) -> None:
        for _ in range(self._varint()):
            self._varint()
            self._take(self._varint())

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise KafkaClientError(f"a record of {TOPIC} ends too early: {self._data.hex()}")
        self._at += size
        return taken


def _int(data: bytes) -> int:
    return int.from_bytes(data, "big", signed=True)
