"""The latest position of every channel in one changelog, read on from look to look: what others have settled."""

from __future__ import annotations

from collections.abc import Sequence

from jbm_kafka.codec.changelog import decode_entry
from jbm_kafka.core.channel.entries import PREPARED, Position, Prepared
from jbm_kafka.core.jms_errors import CorruptRecordError, NewerRecordError
from jbm_kafka.ports import KafkaAdmin, LogReader

OFFSETS_PER_READ = 20_000
"""Per partition; bounds the records in memory at one time."""
READ_TIMEOUT_S = 20.0
_POSITION = b"|position|0"
_PREPARED = f"|{PREPARED}|".encode()


class ChangelogPositions:
    """The positions of the channels of all groups. One thread."""

    def __init__(self, changelog_topic: str) -> None:
        self._topic = changelog_topic
        self._topic_id = ""
        self._read_to: dict[int, int] = {}
        self._positions: dict[int, dict[str, Position]] = {}
        self._prepared: dict[int, dict[bytes, Prepared]] = {}
        self._unreadable: dict[int, set[str]] = {}

    def read_on(self, partitions: Sequence[int], *, admin: KafkaAdmin, reader: LogReader) -> None:
        """Know what is committed of these partitions by now.

        Raises:
            KafkaClientError: it cannot be read.
        """
        found = admin.describe([self._topic]).get(self._topic)
        topic_id = "" if found is None else found.topic_id
        if topic_id != self._topic_id:
            self._topic_id = topic_id
            self._read_to, self._positions, self._unreadable, self._prepared = {}, {}, {}, {}
        there = [p for p in partitions if found is not None and p < found.partitions]
        ends = admin.end_positions(self._topic, there, stable=True)
        while ranges := {p: self._next(p, end) for p, end in ends.items() if self._read_to.get(p, 0) < end}:
            for record in reader.read(self._topic, ranges, timeout_s=READ_TIMEOUT_S):
                self._take(record.partition() or 0, record.key() or b"", record.value())
            self._read_to |= {partition: end for partition, (_, end) in ranges.items()}

    def of(self, partition: int, group: str) -> Position | None:
        """The channel's; None: it has none.

        Raises:
            CorruptRecordError: it has one that cannot be read here.
        """
        if group in self._unreadable.get(partition, ()):
            raise CorruptRecordError(f"{self._topic}[{partition}]: the position of {group} cannot be read here")
        return self._positions.get(partition, {}).get(group)

    def branch_with(self, partition: int, group: str, offset: int) -> str:
        """The id of the prepared branch that has this message of a group; empty: none has."""
        found = self._prepared.get(partition, {}).items()
        begin = group.encode() + _PREPARED
        branches = [row.branch for key, row in found if key.startswith(begin) and offset in (row.offsets or ())]
        return branches[0] if branches else ""

    def _next(self, partition: int, end: int) -> tuple[int, int]:
        begin = self._read_to.get(partition, 0)
        return begin, min(begin + OFFSETS_PER_READ, end)

    def _take(self, partition: int, key: bytes, value: bytes | None) -> None:
        if _PREPARED in key:
            self._take_prepared(self._prepared.setdefault(partition, {}), key, value)
        if not key.endswith(_POSITION):
            return
        group = key.removesuffix(_POSITION).decode(errors="replace")
        unreadable = self._unreadable.setdefault(partition, set())
        unreadable.discard(group)
        positions = self._positions.setdefault(partition, {})
        if value is None:
            positions.pop(group, None)
            return
        try:
            entry = decode_entry(key, value)[1]
        except (CorruptRecordError, NewerRecordError):
            unreadable.add(group)
            return
        assert isinstance(entry, Position), entry
        positions[group] = entry

    def _take_prepared(self, known: dict[bytes, Prepared], key: bytes, value: bytes | None) -> None:
        """For people only: what cannot be read here is left out."""
        known.pop(key, None)
        try:
            entry = decode_entry(key, value)[1]
        except (CorruptRecordError, NewerRecordError):
            return
        if isinstance(entry, Prepared) and entry.offsets is not None:
            known[key] = entry
