"""The rows of a block of a file, each with its line: what it says, or why it cannot be read. No Spark needed."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from jbm_kafka.codec.object_codecs import read_json
from jbm_spark.jobs.load.file_blocks import allow_long_fields

SHOWN_MAX = 1_000_000
"""Characters of a row that cannot be sent, as the rejects show it."""


@dataclass(frozen=True, slots=True)
class FileRow:
    """One row as it stands in its file."""

    line: int
    """Where it begins, from 1."""
    text: str
    values: Mapping[str, object] | None
    fault: str | None = None
    """Why it cannot be read; it has no values then."""


def rows_of_block(file_format: str, content: bytes, names: Sequence[str], line: int) -> Iterator[FileRow]:
    """The rows in their order; `line` is the number of the first line."""
    if file_format == "csv":
        return _csv_rows(content, names, line)
    return _line_rows(content, line, _text_values if file_format == "text" else _json_values)


def _csv_rows(content: bytes, names: Sequence[str], line: int) -> Iterator[FileRow]:
    allow_long_fields()
    text = io.StringIO(content.decode("utf-8", "surrogateescape"), newline="\n")
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for each in text:
            taken.append(each)
            yield each

    reader = csv.reader(lines(), strict=True)
    while True:
        fields, fault = list[str](), None
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            unclosed = str(error) == "unexpected end of data"
            fault = "a quote is opened and never closed" if unclosed else f"it is no CSV: {error}"
        row, first = "".join(taken), line
        line += len(taken)
        taken.clear()
        if fault is None and not fields:
            continue  # an empty line
        if not _is_utf8(row):
            fault = "it is not UTF-8"
        elif fault is None and len(fields) != len(names):
            fault = f"it has {len(fields)} fields, and the first line names {len(names)}"
        values = None if fault is not None else {
            name: value for name, value in zip(names, fields, strict=True) if value or name == "body_text"
        }  # fmt: skip
        yield FileRow(first, _shown(row), values, fault)


def _line_rows(content: bytes, line: int, values_of: Callable[[str], Mapping[str, object] | None]) -> Iterator[FileRow]:
    for number, raw in enumerate(io.BytesIO(content), start=line):
        text = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")
        if not _is_utf8(text):
            yield FileRow(number, _shown(text), None, "it is not UTF-8")
            continue
        try:
            values = values_of(text)
        except ValueError as error:
            yield FileRow(number, _shown(text), None, str(error))
            continue
        if values is not None:
            yield FileRow(number, _shown(text), values)


def _text_values(text: str) -> Mapping[str, object]:
    return {"body_text": text}


def _json_values(text: str) -> Mapping[str, object] | None:
    if not text.strip():
        return None
    why = ""
    try:
        found = read_json(text.encode(), is_strict=True)
    except ValueError as fault:
        found, why = None, f" ({fault})"
    if isinstance(found, dict):
        return found
    raise ValueError(f'it is not a JSON object{why}: write one a line, as in {{"body_text": "hello"}}')


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(text: str) -> str:
    return text[:SHOWN_MAX].encode("utf-8", "surrogateescape").decode("utf-8", "replace").rstrip("\r\n")
