"""What a schema registry has of a subject: the schemas that wrote bodies, and the one that they are read by.

The driver asks, when a frame is made; executors ask nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from fastavro.repository import AbstractSchemaRepository
from fastavro.schema import load_schema

from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.wrong_values import shown
from jbm_spark.errors import RegistryError

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

AVRO, JSON = "AVRO", "JSON"
_ROOT = " "
"""No name of Avro's."""


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """One of a subject's schemas."""

    id: int
    kind: str
    text: str
    """The schema whole, as JSON; empty where it cannot be used."""
    fault: str | None
    """Why it cannot be used, in one line."""
    frames: Sequence[bytes]
    """The beginnings of what its serializers write: the magic byte and the id, a number or a UUID."""


@dataclass(frozen=True, slots=True)
class SubjectSchemas:
    """All schemas of a subject, also those of versions that were deleted since."""

    kind: str
    """That of the reader's schema: AVRO or JSON."""
    reader: str
    """The schema that bodies are read by, as JSON."""
    writers: Sequence[WriterSchema]


def subject_schemas(registry: SchemaRegistryClient, subject: str, reader: str | None) -> SubjectSchemas:
    """What the registry has of the subject; `reader` is in the place of the latest schema.

    Raises:
        RegistryError: it does not answer, has no such subject, or a schema to read by is none.
    """
    try:
        latest = registry.get_latest_version(subject)
        versions = registry.get_versions(subject, deleted=True)
        found = [registry.get_version(subject, each, deleted=True) for each in versions]
        references = _References(registry)
        writers = [_writer(each, references) for each in found]
        kind = _kind(latest.schema)
        if kind not in (AVRO, JSON):
            raise RegistryError(
                f"subject {shown(subject)} has schemas of the kind {kind}: typed columns are made of {AVRO} and {JSON}"
            )
        text = latest.schema.schema_str if reader is None else reader
        return SubjectSchemas(kind, references.whole(kind, text or "", latest.schema.references or ()), writers)
    except RegistryError:
        raise
    except Exception as error:  # the client's, its transport's, the reader's
        raise RegistryError(f"subject {shown(subject)}: {failure_text(error)}") from None


def _writer(registered: Any, references: _References) -> WriterSchema:
    schema, kind, number = registered.schema, _kind(registered.schema), int(registered.schema_id)
    frames = [b"\0" + number.to_bytes(4, "big")]
    if registered.guid:
        frames.append(b"\1" + UUID(registered.guid).bytes)
    try:
        text, fault = references.whole(kind, schema.schema_str or "", schema.references or ()), None
    except Exception as error:  # a schema that is none, or needs one that is gone
        text, fault = "", f"schema {number} cannot be used: {failure_text(error)}"
    return WriterSchema(number, kind, text, fault, frames)


def _kind(schema: Schema) -> str:
    return str(schema.schema_type or AVRO)


class _References(AbstractSchemaRepository):
    """Schemas with those in them that they name."""

    def __init__(self, registry: SchemaRegistryClient) -> None:
        self._registry = registry
        self._named: dict[str, Callable[[], Any]] = {}

    def whole(self, kind: str, text: str, references: Sequence[Any]) -> str:
        """The schema with what it names in its place."""
        parsed = json.loads(text)
        if kind != AVRO:
            return text
        self._named = {_ROOT: lambda: parsed}
        self._name(references, set())
        return json.dumps(load_schema(_ROOT, repo=self, _write_hint=False))

    def load(self, name: str) -> Any:
        """Fastavro asks for each name that it does not know."""
        if name not in self._named:
            raise ValueError(f"nobody says what {name} is")
        return self._named[name]()

    def _name(self, references: Sequence[Any], seen: set[tuple[str, int]]) -> None:
        for each in references:
            if (each.subject, each.version) in seen:
                continue
            seen.add((each.subject, each.version))
            schema = self._registry.get_version(each.subject, each.version, deleted=True).schema
            self._named[each.name] = lambda text=schema.schema_str: json.loads(text)  # type: ignore[misc]
            self._name(schema.references or (), seen)
