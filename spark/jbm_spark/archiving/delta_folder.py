"""`messages` or `events` of an archive as a Delta table: files that count since a commit in the table's log names them.

A batch is one commit, with the archive's id and the batch's number as the version of an application (Delta's `txn`). So
the log itself tells which batches there are, and none is committed twice. How far a batch has come in Kafka is in a
file below `_positions` that is there before the commit, and counts with it. What a killed job leaves behind is in no
commit: nobody reads it, and after Delta's own seven days a compaction removes it.
"""

import json
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from jbm_spark.archiving.archive_folder import POSITIONS, STAGING
from jbm_spark.archiving.durably import sync, sync_all
from jbm_spark.archiving.manifest import Erasure, Manifest, Span, batch_name, compacted, read_manifest
from jbm_spark.archiving.table_folder import BATCHES_MAX, SEGMENT_BYTES, Fragments, partition_values, staged_files
from jbm_spark.errors import ArchiveError

try:
    import pyarrow as pa
    from deltalake import DeltaTable, Schema
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction
    from pyarrow import parquet
except ModuleNotFoundError as error:
    raise ArchiveError(
        f"an archive of --format delta needs Delta's own package, and {error.name} is not installed: pip install "
        "deltalake pyarrow"
    ) from None

LOG = "_delta_log"


def check_protocol(table: DeltaTable, path: object) -> None:
    """Raises ArchiveError: not all readers of the table see what we see."""
    if table.protocol().min_reader_version > 1:
        raise ArchiveError(
            f"archive {path}: the table was given features, such as deletion vectors, that an archive must not have: "
            "restore the version before that, or begin another archive"
        )


@dataclass(frozen=True, slots=True)
class _File:
    """One that the newest version of the table has."""

    path: Path
    partition: Mapping[str, str | None]
    size: int
    rows: int


class DeltaFolder:
    """A `TableFolder` that is a Delta table, partitioned by day, or by destination and day; made with its first
    batch."""

    def __init__(
        self, archive: Path, name: str, archive_id: str, schema_json: str | None, partition_by: Sequence[str]
    ) -> None:
        self.path = archive / name
        self._staged = archive / STAGING / name
        self._positions = archive / POSITIONS / name
        self._archive_id = archive_id
        self._schema_json = schema_json
        self._partition_by = [*partition_by]

    def manifests(self) -> Sequence[Manifest]:
        """One for all batches.

        Raises:
            ArchiveError: the table's log or the position is missing, or cannot be read.
        """
        whole = self._whole(self._table())
        return [] if whole is None else [whole]

    def files(self) -> Sequence[Path]:
        """Return the files of the newest version; raises as `manifests`, and where one of them is missing."""
        table = self._table()
        found = [] if table is None else [each.path for each in self._files(table)]
        missing = next((path for path in found if not path.exists()), None)
        if missing is not None:
            raise ArchiveError(f"archive {self.path}: file {missing.relative_to(self.path)} is missing: restore it")
        return found

    def staged(self) -> Path:
        """A place that is not there."""
        shutil.rmtree(self._staged, ignore_errors=True)
        return self._staged

    def publish(self, *, rows: int, spans: Sequence[Span]) -> Manifest:
        """Make what was staged the next batch. Raises ArchiveError where the log cannot be written."""
        table = self._table() or self._create()
        before = self._whole(table)
        number = 0 if before is None else before.last + 1
        added = self._moved_in(is_new=True)
        batch = Manifest(number, number, rows, sum(each.size for each in added), tuple(spans))
        earlier = () if before is None else (before,)
        size = sum(manifest.data_bytes for manifest in (*earlier, batch))
        self._commit_position(table, added, compacted((*earlier, batch), data_bytes=size))
        return batch

    def to_compact(self) -> Fragments | None:
        """The small files of the partitions that have many."""
        table = self._table()
        if table is None:
            return None
        by_partition: dict[str, list[_File]] = {}
        for each in self._files(table):
            if each.size < SEGMENT_BYTES // 2:
                by_partition.setdefault(str(each.partition), []).append(each)
        small = [each for files in by_partition.values() if len(files) > BATCHES_MAX for each in files]
        if not small:
            return None
        return _fragments(small)

    def holding(self, rows: Mapping[Path, int]) -> list[tuple[Fragments, int]]:
        """Return the files, day by day."""
        table = self._table()
        by_day: dict[str, list[_File]] = {}
        for each in () if table is None else self._files(table):
            if each.path in rows:
                by_day.setdefault(str(each.partition["day"]), []).append(each)
        return [(_fragments(files), sum(rows[each.path] for each in files)) for _, files in sorted(by_day.items())]

    def replace(self, fragments: Fragments, erasure: Erasure | None = None) -> None:
        """In one commit. Without an erasure no reader of changes takes it for new rows, and who reads an older version
        has seven days; with one it is a batch of its own, of no offsets, whose position tells of the erasure."""
        table = self._table() or self._create()
        replaced, is_change = set(fragments.paths), erasure is not None
        now_ms = int(time.time() * 1000)
        gone = [
            RemoveAction(str(each.path.relative_to(self.path)), is_change, now_ms, each.size, dict(each.partition))
            for each in self._files(table)
            if each.path in replaced
        ]
        added = self._moved_in(is_new=is_change)
        if erasure is not None:
            before = self._whole(table)
            assert before is not None, "files of no batch"
            size = before.data_bytes - fragments.data_bytes + sum(each.size for each in added)
            number = before.last + 1
            batch = Manifest(number, number, 0, 0, ())
            self._commit_position(table, [*added, *gone], compacted((before, batch), data_bytes=size, erasure=erasure))
            return
        self._commit(table, [*added, *gone])
        with self._told("files that no version needs could not be removed"):
            DeltaTable(self.path).vacuum(dry_run=False, full=True)

    def remove_replaced(self) -> None:
        """Remove every file that the newest version has not, whatever older ones need."""
        if self._table() is not None:
            with self._told("what was erased is still there, in files of older versions"):
                DeltaTable(self.path).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
        shutil.rmtree(self._staged, ignore_errors=True)

    def _table(self) -> DeltaTable | None:
        """Its newest version; None: there was no batch yet."""
        # A folder without a commit is what a full disk, or a kill, left of making the table.
        if not any(each.suffix in (".json", ".parquet") for each in (self.path / LOG).glob("*")):
            has_files = self.path.is_dir() and any(each.name != LOG for each in self.path.iterdir())
            if self._positions.is_dir() or has_files:
                raise ArchiveError(f"archive {self.path}: its {LOG} is missing: restore it, or begin another archive")
            return None
        with self._told(f"its {LOG} cannot be read"):
            table = DeltaTable(self.path)
            check_protocol(table, self.path)
            return table

    def _create(self) -> DeltaTable:
        fields = json.loads(self._schema_json or "{}")
        schema = Schema.from_json(
            json.dumps({**fields, "fields": [*fields["fields"], *partition_fields(self._partition_by)]})
        )
        with self._told("no table can be made there"):
            return DeltaTable.create(self.path, schema, partition_by=self._partition_by)

    def _whole(self, table: DeltaTable | None) -> Manifest | None:
        number = None if table is None else table.transaction_version(self._archive_id)
        return None if number is None else read_manifest(self._positions / batch_name(0, number))

    def _files(self, table: DeltaTable) -> Iterator[_File]:
        with self._told(f"its {LOG} cannot be read"):
            found = pa.table(table.get_add_actions(flatten=True))
        for row in found.to_pylist():
            values = {name: row[f"partition.{name}"] for name in self._partition_by}
            partition = {name: None if value is None else str(value) for name, value in values.items()}
            yield _File(self.path / unquote(row["path"]), partition, row["size_bytes"], row["num_records"])

    def _moved_in(self, *, is_new: bool) -> list[AddAction]:
        """Return what was staged, where the table has its files; nobody knows of them before a commit."""
        added = []
        for file in staged_files(self._staged):
            inner = file.parent.relative_to(self._staged)
            folder = self.path / inner
            folder.mkdir(parents=True, exist_ok=True)
            sync(file)
            place = file.rename(folder / file.name)
            rows = parquet.read_metadata(place).num_rows
            partition = partition_values(inner.parts)
            size, at_ms = place.stat().st_size, int(place.stat().st_mtime * 1000)
            path = str(place.relative_to(self.path))
            added.append(AddAction(path, size, partition, at_ms, is_new, json.dumps({"numRecords": rows})))
        for folder in {above for each in added for above in (self.path / each.path).parents
                       if above.is_relative_to(self.path)}:  # fmt: skip
            sync(folder)
        return added

    def _commit_position(self, table: DeltaTable, actions: Iterable[AddAction | RemoveAction], whole: Manifest) -> None:
        """Commit as the last of the batches, of which `whole` is the manifest."""
        place = self._positions / whole.folder_name
        place.mkdir(parents=True, exist_ok=True)
        whole.write(place)
        sync_all(self._positions)
        self._commit(table, actions, Transaction(self._archive_id, whole.last))
        for place in self._positions.iterdir():
            if place.name not in {batch_name(0, whole.last - 1), whole.folder_name}:  # who reads may need the last
                shutil.rmtree(place, ignore_errors=True)

    def _commit(self, table: DeltaTable, actions: Iterable[AddAction | RemoveAction], *batch: Transaction) -> None:
        with self._told("nothing was published, since the table refuses the commit"):
            table.create_write_transaction(
                list(actions), "append", table.schema(), self._partition_by,
                commit_properties=CommitProperties(app_transactions=list(batch)),
            )  # fmt: skip
        sync_all(self.path / LOG)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except (DeltaError, OSError) as error:
            line = " ".join(str(error).split())
            raise ArchiveError(f"archive {self.path}: {what} ({line})") from None


def partition_fields(names: Sequence[str]) -> list[Mapping[str, object]]:
    """The columns by which a table is partitioned, as its schema has them."""
    return [
        {"name": name, "type": "date" if name == "day" else "string", "nullable": True, "metadata": {}}
        for name in names
    ]


def _fragments(files: Sequence[_File]) -> Fragments:
    rows, data_bytes = sum(each.rows for each in files), sum(each.size for each in files)
    return Fragments(tuple(each.path for each in files), rows, data_bytes)
