"""A fetched record as bytes in the held store, and back as a `KafkaRecord`.

The bytes are `marshal`'s: it is in C, makes plain values only, and cannot run anything when it reads. Its format
changes with Python versions, which does not matter here: nothing outlives the process that wrote it.
"""

from __future__ import annotations

import marshal

from jbm_kafka.core.channel.entries import Parked
from jbm_kafka.ports import Headers, KafkaRecord

_FORMAT = 2
"""The last one without references between objects: a quarter faster than the newest, and the same bytes every time."""

Fields = tuple[int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]
"""Origin number, timestamp kind, timestamp ms, key, value, headers."""


class StoredRecord:
    """A record that was held; equal in all that a `KafkaRecord` tells."""

    __slots__ = ("_fields", "_offset", "_origin")

    def __init__(self, origin: tuple[str | None, int | None], offset: int, fields: Fields) -> None:
        self._origin = origin
        self._offset = offset
        self._fields = fields

    def topic(self) -> str | None:
        return self._origin[0]

    def partition(self) -> int | None:
        return self._origin[1]

    def offset(self) -> int | None:
        return self._offset

    def key(self) -> bytes | None:
        return self._fields[3]

    def value(self) -> bytes | None:
        return self._fields[4]

    def headers(self) -> Headers | None:
        return self._fields[5]

    def timestamp(self) -> tuple[int, int]:
        return self._fields[1], self._fields[2]


def parked_record(topic: str, partition: int, row: Parked) -> StoredRecord:
    """The record that a changelog keeps, as the log had it."""
    fields = 0, row.timestamp_type, row.timestamp_ms, row.key, row.value, list(row.headers)
    return StoredRecord((topic, partition), row.offset, fields)


class RecordPacker:
    """Packs records; topics and partitions are numbered instead of being repeated in every record."""

    __slots__ = ("_numbers", "_origins")

    def __init__(self) -> None:
        self._origins: list[tuple[str | None, int | None]] = []
        self._numbers: dict[tuple[str | None, int | None], int] = {}

    def pack(self, record: KafkaRecord) -> bytes:
        """All of the record but its offset, which is in its key."""
        origin = (record.topic(), record.partition())
        number = self._numbers.get(origin)
        if number is None:
            number = self._numbers[origin] = len(self._origins)
            self._origins.append(origin)
        kind, at_ms = record.timestamp()
        headers = record.headers()
        if headers is not None and type(headers) is not list:
            headers = [(name, value) for name, value in headers]
        return marshal.dumps((number, kind, at_ms, record.key(), record.value(), headers), _FORMAT)

    def unpack(self, offset: int, data: bytes) -> StoredRecord:
        """The record that was packed by this packer."""
        fields: Fields = marshal.loads(data)
        return StoredRecord(self._origins[fields[0]], offset, fields)
