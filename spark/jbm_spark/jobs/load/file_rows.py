"""Finds the line of a file for a fault that Spark names without one. No Spark needed.

Spark reads a file in pieces and knows no lines; after a failure the file is read once more, here.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

_VALUE = re.compile(r"\b(?P<column>[a-z_]+) is '(?P<value>[^']*)'")
"""As a row that is no message is refused."""
_NO_NUMBER = re.compile(r"^column (?P<column>[a-z_]+) is \w+: it must be an int")
"""As a column is refused in which Spark found something else than numbers."""
_MALFORMED = re.compile(r"malformed", re.IGNORECASE)

Rows = Iterator[tuple[int, dict[str, object]]]


def files_of(path: Path) -> list[Path]:
    """The files that Spark reads of a file or a folder, in order."""
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.iterdir() if each.name[0] not in "._" and each.is_file())


def json_fault(path: Path) -> str | None:
    """The first line that is not an object; None where that is not to be seen."""
    for file in files_of(path):
        try:
            with file.open(encoding="utf-8") as lines:
                number = next((at for at, line in enumerate(lines, start=1) if not _is_object(line)), None)
        except (OSError, UnicodeDecodeError):  # perhaps it is compressed
            continue
        if number is not None:
            return f'{file}, line {number}: it is not a JSON object: write one a line, as in {{"body_text": "hello"}}'
    return None


def place_of(path: Path, file_format: str, fault: str) -> str:
    """`file, line n` of the first row that the fault names; the path alone where the row is not found."""
    rows = {"csv": _csv_rows, "json": _json_rows}.get(file_format)
    is_meant = _row_meant(fault)
    if rows is None or is_meant is None:
        return str(path)
    for file in files_of(path):
        try:
            number = next((at for at, row in rows(file) if is_meant(row)), None)
        except (OSError, UnicodeDecodeError, csv.Error, ValueError):
            continue
        if number is not None:
            return f"{file}, line {number}"
    return str(path)


def _row_meant(fault: str) -> Callable[[dict[str, object]], bool] | None:
    if (found := _VALUE.search(fault)) is not None:
        column, value = found["column"], found["value"]
        return lambda row: row.get(column) is not None and str(row[column]).strip() == value
    if (found := _NO_NUMBER.search(fault)) is not None:
        column = found["column"]
        return lambda row: bool(row.get(column)) and not _is_int(row[column])
    if _MALFORMED.search(fault) is not None:
        # DictReader puts what is too much under None, and None where something is missing.
        return lambda row: None in row or None in row.values()
    return None


def _csv_rows(file: Path) -> Rows:
    with file.open(encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines)
        for row in reader:
            yield reader.line_num, {**row}


def _json_rows(file: Path) -> Rows:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip() and isinstance(row := json.loads(line), dict):
                yield number, row


def _is_int(value: object) -> bool:
    return re.fullmatch(r"[+-]?\d+", str(value).strip()) is not None


def _is_object(line: str) -> bool:
    try:
        return not line.strip() or isinstance(json.loads(line), dict)
    except ValueError:
        return False
