"""The folder of the hours: a file for each day, which a run replaces in one step. No Spark needed.

    _quality.json                   of which queues of which cluster it is
    _topics.json                    by queue the id of its Kafka topic, and from when on it has all
    day=2026-11-30/hours.parquet    the rows of the day (UTC), of all queues

Days are written in their order, so a run that is killed leaves whole days, and the next one goes on behind them.
"""

import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from jbm_spark.archiving.archive_folder import archive_path
from jbm_spark.archiving.durably import draft_of, sync, write_text_durably
from jbm_spark.archiving.one_writer import not_writable, one_writer
from jbm_spark.errors import SparkJobError

IDENTITY_FILE, LOCK_FILE, HOURS_FILE = "_quality.json", "_quality.lock", "hours.parquet"
TOPICS_FILE = "_topics.json"
DAYS_READ = 8
"""The hours that a run may tell anew are in the newest of them."""
_AT = pa.timestamp("ms", tz="UTC")
SCHEMA = pa.schema([
    ("destination", pa.string()), ("hour", _AT), ("is_over", pa.bool_()), ("sent", pa.int64()),
    ("acknowledged", pa.int64()), ("returned", pa.int64()), ("given_up", pa.int64()), ("expired", pa.int64()),
    ("p50_s", pa.float64()), ("p99_s", pa.float64()), ("oldest_open_at", _AT), ("oldest_open_s", pa.float64()),
    ("findings", pa.int64()),
])  # fmt: skip
"""docs/spark-audit.md describes the columns."""


class QualityTable:
    """The table of one job, which no other writes to meanwhile."""

    def __init__(self, path: Path, table_id: str) -> None:
        self.path = path
        self.table_id = table_id

    def oldest_open(self) -> dict[str, dict[int, int | None]]:
        """Return by destination its latest hours, each with the time at which the oldest message was sent that was open
        at its end."""
        found: dict[str, dict[int, int | None]] = {}
        for day in sorted(self.path.glob("day=*"))[-DAYS_READ:]:
            for row in _read(day / HOURS_FILE):
                found.setdefault(row["destination"], {})[row["hour_ms"]] = row["oldest_open_ms"]
        return found

    def topics(self) -> dict[str, tuple[str, int]]:
        """Return what was noted of each queue's topic; nothing of queues that no run has noted.

        Raises:
            SparkJobError: the file cannot be read.
        """
        file = self.path / TOPICS_FILE
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
            return {str(name): (str(topic_id), int(since_ms)) for name, (topic_id, since_ms) in known.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise SparkJobError(f"{file} cannot be used ({error}): restore it, or name a new folder") from None

    def note_topics(self, known: Mapping[str, tuple[str, int]]) -> None:
        """Note it of these queues, before their hours are written.

        Raises:
            SparkJobError: the folder cannot be written.
        """
        noted = self.topics()
        if any(noted.get(name) != each for name, each in known.items()):
            try:
                write_text_durably(self.path / TOPICS_FILE, json.dumps({**noted, **known}) + "\n")
            except OSError as error:
                raise SparkJobError(not_writable(f"folder {self.path}", error)) from None

    def write(self, rows: Iterable[Mapping[str, Any]], now_ms: int) -> None:
        """Put these rows in the place of those of the same destinations and hours.

        Raises:
            SparkJobError: the folder cannot be written, or a file of it cannot be read.
        """
        days: dict[str, list[Mapping[str, Any]]] = {_day(now_ms): []}  # so that there is a file, and it has the columns
        for row in rows:
            days.setdefault(_day(row["hour_ms"]), []).append(row)
        try:
            for day, new in sorted(days.items()):
                file = self.path / f"day={day}" / HOURS_FILE
                by_key = {(row["destination"], row["hour_ms"]): row for row in (*_read(file), *new)}
                _replace(file, [by_key[key] for key in sorted(by_key)])
        except OSError as error:
            raise SparkJobError(not_writable(f"folder {self.path}", error)) from None


def table_path(folder: str | os.PathLike[str]) -> Path:
    """Return the folder.

    Raises:
        SparkJobError: it is on an object store.
        ArchiveError: it is no path, or on a file system that is not there.
    """
    path = archive_path(folder)
    if not isinstance(path, Path):
        raise SparkJobError(f"{path}: hours are kept in a folder that this process has, such as /data/hours: name one")
    return path


def checked_table(folder: str | os.PathLike[str]) -> Path:
    """Return the folder, for reading.

    Raises:
        SparkJobError: no run has told hours there.
    """
    path = table_path(folder)
    if not any(path.glob(f"day=*/{HOURS_FILE}")):
        raise SparkJobError(f"{path} has no hours of queues: jbm-spark quality QUEUES --to {path} tells them there")
    return path


@contextmanager
def quality_table(path: Path, *, cluster_id: str, namespace: str, pattern: str) -> Iterator[QualityTable]:
    """The table in this folder, made if it is missing, while no other job writes to it.

    Raises:
        SparkJobError: the folder cannot be written, another job has it, or it is something else.
    """
    with one_writer(path / LOCK_FILE, what="folder", kind=SparkJobError):
        yield QualityTable(path, _claimed(path, {"cluster": cluster_id, "namespace": namespace, "queues": pattern}))


def _claimed(path: Path, wanted: Mapping[str, str]) -> str:
    """Return the id of the table, which is of these queues."""
    file = path / IDENTITY_FILE
    ours = {LOCK_FILE, draft_of(file).name}
    others = sorted(found.name for found in path.iterdir() if found.name not in ours)
    try:
        if not others:
            write_text_durably(file, json.dumps({"id": uuid.uuid4().hex, **wanted}) + "\n")
        known = json.loads(file.read_text(encoding="utf-8"))
        found = {name: known[name] for name in wanted}
        table_id = str(known["id"])
    except FileNotFoundError:
        raise SparkJobError(f"{path} has other files, such as {others[0]}: name a new folder") from None
    except OSError as error:
        raise SparkJobError(not_writable(f"folder {path}", error)) from None
    except (ValueError, KeyError, TypeError) as error:
        raise SparkJobError(f"{file} cannot be used ({error}): restore it, or name a new folder") from None
    if found != wanted:
        raise SparkJobError(f"folder {path} is of {found}, and this job is for {dict(wanted)}: name a new folder")
    return table_id


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d")


def _read(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a day, with times in ms; none where there is no file."""
    if not file.exists():
        return []
    try:
        read = parquet.ParquetFile(file).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise SparkJobError(f"{file} cannot be read ({error}): restore it, or remove it") from None
    times = {"hour_ms": "hour", "oldest_open_ms": "oldest_open_at"}
    for name, column in times.items():
        read = read.append_column(name, read[column].cast(pa.int64())).drop_columns([column])
    return list(read.to_pylist())


def _replace(file: Path, rows: list[Mapping[str, Any]]) -> None:
    times = {"hour": "hour_ms", "oldest_open_at": "oldest_open_ms"}
    columns = [pa.array([row[times.get(each.name, each.name)] for row in rows], each.type) for each in SCHEMA]
    if not file.parent.exists():
        file.parent.mkdir()
        sync(file.parent.parent)
    draft = draft_of(file)
    parquet.write_table(pa.table(columns, SCHEMA), draft)
    sync(draft)
    draft.replace(file)
    sync(file.parent)
