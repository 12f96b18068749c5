"""A file of exported messages: an Avro object container, written whole or not at all, and read from its beginning."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jbm_kafka.codec.exported_rows import (
    ExportedDestination,
    ExportedEnd,
    ExportedMessage,
    ExportedPartition,
    ExportedRow,
    read_row,
    row_fields,
)
from jbm_kafka.codec.schemas import read_schema
from jbm_kafka.core.jms_errors import InvalidSettingError, JMSError

SCHEMA = "Exported"
FORMAT = 1
"""Raised when older versions would misread what is written; a reader of another one refuses it."""
_FORMAT_KEY = "jbm.format"


def write_export(path: Path, rows: Iterable[ExportedRow]) -> None:
    """Write all rows; the file appears with its name when it is complete, and is on the disk.

    Raises:
        InvalidSettingError: there is a file of that name.
        OSError: it cannot be written.
    """
    from fastavro import writer

    if path.exists():
        raise InvalidSettingError(f"{path}: there is such a file; name one that is not there", value=str(path))
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            metadata = {_FORMAT_KEY: str(FORMAT)}
            writer(file, read_schema(SCHEMA), map(row_fields, rows), codec="deflate", metadata=metadata)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def read_export(path: Path) -> Iterator[ExportedRow]:
    """The rows in their order, checked as they come: the first is the destination, and the last the end.

    Raises:
        JMSError: it is no such file, a newer version's, damaged or cut off.
        OSError: it cannot be read.
    """
    from fastavro import reader

    with path.open("rb") as file:
        try:
            rows = reader(file, read_schema(SCHEMA), return_record_name=True)
        except Exception as fault:  # fastavro lets through whatever its reading of other bytes runs into
            raise JMSError(f"{path}: it is no file of jbm-kafka export: {fault}") from None
        written = rows.metadata.get(_FORMAT_KEY, "")
        if written != str(FORMAT):
            raise JMSError(
                f"{path}: its format is {written or 'not told'!r}, and this version reads {FORMAT}: use the jbm-kafka "
                f"that wrote it, or a newer one"
            )
        yield from _checked(path, _rows(path, iter(rows)))


def _rows(path: Path, rows: Iterator[object]) -> Iterator[ExportedRow]:
    try:
        for fields in rows:
            assert isinstance(fields, dict), fields
            yield read_row(fields)
    except (JMSError, OSError):
        raise
    except Exception as fault:  # as above
        raise JMSError(f"{path}: it is damaged: {type(fault).__name__} {fault}; take another copy of it") from None


def _checked(path: Path, rows: Iterator[ExportedRow]) -> Iterator[ExportedRow]:
    count, last = 0, None
    for place, row in enumerate(rows):
        if isinstance(row, ExportedDestination) != (place == 0) or isinstance(last, ExportedEnd):
            raise JMSError(f"{path}: it is damaged: its rows are in a wrong order; take another copy of it")
        count += isinstance(row, ExportedMessage)
        last = row
        yield row
    if not isinstance(last, ExportedEnd) or last.messages != count:
        raise JMSError(f"{path}: it is cut off after {count} messages; take another copy of it, or export again")


@dataclass(frozen=True, slots=True)
class CheckedExport:
    """All there is to know of a file before anything is done with it."""

    head: ExportedDestination
    messages: int
    largest: int
    """Bytes of the largest message."""
    identified: frozenset[tuple[int, int, int]]
    """Holder, partition and offset of each message that is held and counts for a duplicate id."""


def check_export(path: Path) -> CheckedExport:
    """Read all of the file.

    Raises as `read_export`.
    """
    rows = read_export(path)
    head = next(rows, None)
    if not isinstance(head, ExportedDestination):
        raise JMSError(f"{path}: it is cut off at its beginning; take another copy of it, or export again")
    count = largest = partition = 0
    identified: set[tuple[int, int, int]] = set()
    ids: dict[int, frozenset[int]] = {}
    for row in rows:
        if isinstance(row, ExportedPartition):
            partition = row.partition
            ids = {channel.holder: frozenset(each.offset for each in channel.ids) for channel in row.channels}
        elif isinstance(row, ExportedMessage):
            if row.partition != partition:
                raise JMSError(f"{path}: it is damaged: its rows are in a wrong order; take another copy of it")
            count += 1
            identified.update(
                (state.holder, partition, row.offset)
                for state in row.states
                if state.is_read and row.offset in ids.get(state.holder, ())
            )
            headers = sum(len(name.encode()) + len(value or b"") + 8 for name, value in row.headers)
            largest = max(largest, len(row.key or b"") + len(row.value or b"") + headers)
    return CheckedExport(head, count, largest, frozenset(identified))
