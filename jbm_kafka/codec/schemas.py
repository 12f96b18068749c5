"""Avro values in single-object encoding: C3 01, the schema's fingerprint, the data.

Schemas are the files of `schemas/`, one per record; `schemas/released/` keeps every version that ever was in a release,
so that whatever an older version wrote is read into the schema of today. No registry is needed.

fastavro is loaded with the first codec that is made: `from jbm_kafka import ConnectionFactory` must not wait for it.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import BytesIO
from pathlib import Path
from typing import Any

from jbm_kafka.core.jms_errors import CorruptRecordError, NewerRecordError

_MAGIC = b"\xc3\x01"
_HEADER_BYTES = len(_MAGIC) + 8


class AvroCodec:
    """Writes and reads values of one record by its current schema. Immutable; any thread may use it."""

    __slots__ = ("_header", "_name", "_read", "_schema", "_write", "_writers")

    def __init__(self, name: str) -> None:
        """The codec of `schemas/<name>.avsc`."""
        from fastavro import parse_schema, schemaless_reader, schemaless_writer

        self._read, self._write = schemaless_reader, schemaless_writer
        current = _read(schemas_folder() / f"{name}.avsc")
        self._name = name
        self._schema = parse_schema(current)
        self._header = _MAGIC + _fingerprint(current)
        # By fingerprint; fastavro reads old data into today's schema by the rules of Avro.
        self._writers = {_fingerprint(schema): parse_schema(schema) for schema in (*_released(name), current)}

    def encode(self, value: dict[str, Any]) -> bytes:
        """The value in single-object encoding."""
        buffer = BytesIO()
        buffer.write(self._header)
        self._write(buffer, self._schema, value)
        return buffer.getvalue()

    def decode(self, data: bytes) -> dict[str, Any]:
        """The value, as the schema of today has it.

        Raises:
            CorruptRecordError: the data is damaged, or not of this schema.
            NewerRecordError: it was written by a schema that is not known here.
        """
        if data[: len(_MAGIC)] != _MAGIC or len(data) < _HEADER_BYTES:
            raise CorruptRecordError(f"{self._name}: {len(data)} bytes that do not start as an Avro single object does")
        mark = data[len(_MAGIC) : _HEADER_BYTES]
        writer = self._writers.get(mark)
        if writer is None:
            raise NewerRecordError(f"{self._name}: no known schema has fingerprint {mark.hex()}; a newer version's?")
        buffer = BytesIO(data)
        buffer.seek(_HEADER_BYTES)
        try:
            value = self._read(buffer, writer, self._schema)
        except Exception as fault:  # fastavro lets through whatever its reading of damaged bytes runs into
            raise CorruptRecordError(f"{self._name}: damaged data: {type(fault).__name__} {fault}") from fault
        if buffer.tell() != len(data):
            raise CorruptRecordError(f"{self._name}: {len(data) - buffer.tell()} bytes follow the data")
        assert isinstance(value, dict), type(value)
        return value


def schemas_by_start(name: str) -> Mapping[bytes, str]:
    """Every schema that values of this record may have, as JSON, by how a value starts: ten bytes. Today's last."""
    current = _read(schemas_folder() / f"{name}.avsc")
    today = _MAGIC + _fingerprint(current)
    known = {_MAGIC + _fingerprint(schema): json.dumps(schema) for schema in _released(name)}
    known.pop(today, None)
    return {**known, today: json.dumps(current)}


def read_schema(name: str) -> dict[str, Any]:
    """The schema of today, as JSON has it, for what is no single object."""
    return _read(schemas_folder() / f"{name}.avsc")


def schemas_folder() -> Traversable:
    """Where the schemas of all records are."""
    packaged = files("jbm_kafka") / "schemas"
    # In a source tree, which is also what an editable install uses, they stand beside the package.
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "schemas"


def _released(name: str) -> Iterator[dict[str, Any]]:
    for file in (schemas_folder() / "released").iterdir():
        if file.name.startswith(f"{name}.") and file.name.endswith(".avsc"):
            yield _read(file)


def _read(file: Traversable) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return schema


def _fingerprint(schema: dict[str, Any]) -> bytes:
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    return bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


@cache
def codec(name: str) -> AvroCodec:
    """The codec of the record of this name, made once."""
    return AvroCodec(name)
