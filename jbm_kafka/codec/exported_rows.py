"""The rows of an exported file (decision 97): values, and what Avro writes of them. schemas/Exported.avsc says more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jbm_kafka.core.channel.entries import SeenId
from jbm_kafka.core.jms_errors import CorruptRecordError
from jbm_kafka.ports.record_to_send import Headers

QUEUE_KIND = "queue"


@dataclass(frozen=True, slots=True)
class ExportedHolder:
    """Who holds messages: the queue itself, or a durable subscription."""

    kind: str
    client_id: str = ""
    name: str = ""
    selector: str = ""
    no_local: bool = False
    owner: str = ""


@dataclass(frozen=True, slots=True)
class ExportedDestination:
    """The first row."""

    export_id: str
    made_at_ms: int
    cluster_id: str
    namespace: str
    kind: str
    name: str
    topic_id: str
    partitions: int
    unit_partitions: int
    paths: tuple[tuple[bytes, int], ...]
    """Units that keep a partition, whatever their hash says, with that partition."""
    holders: tuple[ExportedHolder, ...]


@dataclass(frozen=True, slots=True)
class ExportedChannel:
    """One holder's part of a partition."""

    holder: int
    fetched: int
    ids: tuple[SeenId, ...]
    """Duplicate ids, the oldest first."""


@dataclass(frozen=True, slots=True)
class ExportedPartition:
    """Comes before the messages of a partition."""

    partition: int
    channels: tuple[ExportedChannel, ...]


@dataclass(frozen=True, slots=True)
class ExportedState:
    """One holder's knowledge of a message that it holds."""

    holder: int
    is_read: bool
    """An owner has read it from the log."""
    is_seen: bool
    """It may have been handed over: it comes with JMSRedelivered."""
    attempts: int = 0
    due_at_ms: int = 0
    delay_ms: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ExportedMessage:
    """A message that somebody holds."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_type: int
    timestamp_ms: int
    message_id: str
    states: tuple[ExportedState, ...]


@dataclass(frozen=True, slots=True)
class ExportedEnd:
    """The last row."""

    messages: int


ExportedRow = ExportedDestination | ExportedPartition | ExportedMessage | ExportedEnd


def row_fields(row: ExportedRow) -> dict[str, Any]:
    """The row as Avro writes it."""
    return {"row": (f"jbm.{type(row).__name__}", _FIELDS[type(row)](row))}


def read_row(fields: Mapping[str, Any]) -> ExportedRow:
    """The row of what Avro read, with the names of records.

    Raises:
        CorruptRecordError: it is none of ours.
    """
    name, values = fields["row"]
    reader = _READERS.get(name)
    if reader is None:
        raise CorruptRecordError(f"a row of the kind {name!r} is not known")
    return reader(values)


def _plain(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__slots__}


def _destination_fields(row: Any) -> dict[str, Any]:
    paths = [{"unit": unit, "partition": partition} for unit, partition in row.paths]
    return {**_plain(row), "paths": paths, "holders": [_plain(each) for each in row.holders]}


def _partition_fields(row: Any) -> dict[str, Any]:
    channels = [{**_plain(each), "ids": [_plain(found) for found in each.ids]} for each in row.channels]
    return {"partition": row.partition, "channels": channels}


def _message_fields(row: Any) -> dict[str, Any]:
    headers = [{"name": name, "value": value} for name, value in row.headers]
    return {**_plain(row), "headers": headers, "states": [_plain(each) for each in row.states]}


def _read_destination(values: Mapping[str, Any]) -> ExportedDestination:
    paths = tuple((each["unit"], each["partition"]) for each in values["paths"])
    holders = tuple(ExportedHolder(**each) for each in values["holders"])
    return ExportedDestination(**{**values, "paths": paths, "holders": holders})


def _read_partition(values: Mapping[str, Any]) -> ExportedPartition:
    channels = (
        ExportedChannel(each["holder"], each["fetched"], tuple(SeenId(**row) for row in each["ids"]))
        for each in values["channels"]
    )
    return ExportedPartition(values["partition"], tuple(channels))


def _read_message(values: Mapping[str, Any]) -> ExportedMessage:
    headers = tuple((each["name"], each["value"]) for each in values["headers"])
    states = tuple(ExportedState(**each) for each in values["states"])
    return ExportedMessage(**{**values, "headers": headers, "states": states})


_FIELDS: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    ExportedDestination: _destination_fields,
    ExportedPartition: _partition_fields,
    ExportedMessage: _message_fields,
    ExportedEnd: _plain,
}
_READERS: Mapping[str, Callable[[Mapping[str, Any]], ExportedRow]] = {
    "jbm.ExportedDestination": _read_destination,
    "jbm.ExportedPartition": _read_partition,
    "jbm.ExportedMessage": _read_message,
    "jbm.ExportedEnd": lambda values: ExportedEnd(**values),
}
