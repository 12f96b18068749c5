"""An archive whose batches a test writes itself, without Kafka: by Arrow, and published as the job does it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from jbm_spark.archiving.archive_event_rows import EVENTS_SCHEMA
from jbm_spark.archiving.archive_folder import DESTINATION, EVENTS, MESSAGES, locked_archive
from jbm_spark.archiving.archive_rows import MESSAGES_SCHEMA
from jbm_spark.archiving.archive_tables import archive_table
from jbm_spark.archiving.manifest import Span
from jbm_spark.archiving.table_folder import TableFolder

Row = Mapping[str, Any]
_SCHEMAS = {MESSAGES: MESSAGES_SCHEMA, EVENTS: EVENTS_SCHEMA}


@dataclass(frozen=True, slots=True)
class PlantedArchive:
    """One of a queue, or of many."""

    folder: Any
    """A `Path`, or a place on an object store."""
    destination: str
    file_format: str = "parquet"

    def table(self, name: str) -> TableFolder:
        """One of its tables."""
        with self._locked() as whose:
            return archive_table(self.folder, name, whose, StructType.fromDDL(_SCHEMAS[name]).json())

    def _locked(self) -> Any:
        return locked_archive(self.folder, destination=self.destination, cluster_id="c", file_format=self.file_format)

    def add(self, name: str, rows: Sequence[Row], spans: Sequence[Span]) -> None:
        """Publish a batch."""
        table = self.table(name)
        table.manifests()
        schema = to_arrow_schema(cast(StructType, StructType.fromDDL(_SCHEMAS[name])), timezone="UTC")
        staged = table.staged()
        by_folder: dict[str, list[Row]] = {}
        for row in rows:
            day = f"day={row['timestamp']:%Y-%m-%d}"
            queue = "__HIVE_DEFAULT_PARTITION__" if row["topic"] is None else f"queue%3A{row['topic']}"
            place = f"{DESTINATION}={queue}/{day}" if self.destination.startswith("queues:") else day
            by_folder.setdefault(place, []).append(row)
        for place, held in by_folder.items():
            if isinstance(staged, Path):
                (staged / place).mkdir(parents=True)
            written = pa.Table.from_pylist([{each.name: row.get(each.name) for each in schema} for row in held], schema)
            made = pa.BufferOutputStream()
            parquet.write_table(written, made)
            (staged / place / f"part-{rows[0]['offset']}.parquet").write_bytes(made.getvalue().to_pybytes())
        table.publish(rows=len(rows), spans=spans)

    def left(self, name: str = MESSAGES) -> list[Row]:
        """Every row of every file of the archive's folder, be it published or not."""
        files = [path for path in (self.folder / name).rglob("*.parquet") if "_delta_log" not in path.parts]
        return [row for path in files for row in parquet.ParquetFile(path).read().to_pylist()]


def topic_id(topic: str) -> str:
    """As Kafka's client tells it: of four ids one has a slash."""
    return f"{topic}/+id"


def message(topic: str, offset: int, unit: str, at: datetime) -> Row:
    """A row of `messages`."""
    return {"topic": topic, "topic_id": topic_id(topic), "partition": 0, "offset": offset, "unit_of_order": unit,
            "message_id": f"ID:{offset}", "timestamp": at, "body_kind": "text", "priority": 4,
            "body_text": f"of {unit}", "delivery_mode": "PERSISTENT", "properties": [("for", unit)],
            "headers": []}  # fmt: skip


def event(topic: str, first: int, last: int, at: datetime, *, number: int, unit: str | None = None) -> Row:
    """A row of `events`: a range that was acknowledged, or an attempt of a unit's message that failed."""
    return {"topic": topic, "topic_id": topic_id(topic), "partition": 0, "offset": first, "last_offset": last,
            "fate": "acknowledged" if unit is None else "returned", "unit_of_order": unit, "index": 0,
            "reason": None if unit is None else f"KeyError: {unit}", "events_topic": "jbm.events",
            "events_topic_id": "e", "events_partition": 0, "events_offset": number,
            "timestamp": at}  # fmt: skip
