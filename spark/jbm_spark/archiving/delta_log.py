"""The log of a Delta table on an object store.

The package `deltalake` reads the log and writes commits, in a copy of it on this machine; only a file of the store's
that is made once makes a commit. So the store is reached by Hadoop alone, with its options and its credentials.
"""

import json
import shutil
import tempfile
import time
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, PostCommitHookProperties, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from jbm_spark.archiving.delta_folder import LOG, check_protocol, partition_fields
from jbm_spark.archiving.hadoop_path import HadoopPath
from jbm_spark.archiving.lake_folder import LakeFile

_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
_LAST_CHECKPOINT = "_last_checkpoint"
_VERSION_DIGITS = 20
CHECKPOINT_EVERY = 50
"""Versions; a reader reads the commits since the last one."""


class DeltaLog:
    """A `LakeLog`."""

    def __init__(self, path: HadoopPath, archive_id: str, schema_json: str | None, partition_by: Sequence[str]) -> None:
        self._path = path
        self._archive_id = archive_id
        self._schema_json = schema_json
        self._partition_by = [*partition_by]
        self._own = tempfile.mkdtemp(prefix="jbm-delta-")
        weakref.finalize(self, shutil.rmtree, self._own, ignore_errors=True)
        self._log = Path(self._own) / LOG
        self._log.mkdir()
        self._table: DeltaTable | None = None

    def refresh(self) -> bool:
        """Copy what is new; False: there is no log."""
        first = 0
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):  # where it is damaged, all commits are there
            text = (self._path / LOG / _LAST_CHECKPOINT).read_text()
            first = int(json.loads(text)["version"])
            (self._log / _LAST_CHECKPOINT).write_text(text, encoding="utf-8")
        # After it, so that the checkpoint that it names is among them.
        for name in sorted(each.name for each in (self._path / LOG).iterdir()):
            version = name[:_VERSION_DIGITS]
            is_needed = name.endswith((".json", ".parquet")) and version.isdigit() and int(version) >= first
            if is_needed and not (self._log / name).exists():
                (self._log / name).write_bytes((self._path / LOG / name).read_bytes())
        self._table = None
        if any(self._log.iterdir()):
            try:
                self._table = DeltaTable(self._own)
            except DeltaError as error:
                raise OSError(str(error)) from None
            check_protocol(self._table, self._path)
        return self._table is not None

    def position(self) -> int | None:
        """Return the number that the newest version has."""
        return None if self._table is None else self._table.transaction_version(self._archive_id)

    def files(self) -> Sequence[LakeFile]:
        """Return those of the newest version."""
        rows = [] if self._table is None else pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        found = []
        for row in rows:
            values = {name: row[f"partition.{name}"] for name in self._partition_by}
            partition = {name: None if value is None else str(value) for name, value in values.items()}
            found.append(LakeFile(unquote(row["path"]), partition, row["size_bytes"], row["num_records"]))
        return found

    def commit(
        self, added: Sequence[LakeFile], removed: Sequence[LakeFile], *, position: int | None, is_change: bool
    ) -> None:
        """Make the next version."""
        table = self._table
        assert table is not None, "the log is made first"
        now_ms = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            AddAction(each.place, each.size, dict(each.partition), now_ms, is_change,
                      json.dumps({"numRecords": each.rows}))
            for each in added
        ]  # fmt: skip
        actions += [RemoveAction(each.place, is_change, now_ms, each.size, dict(each.partition)) for each in removed]
        batch = [] if position is None else [Transaction(self._archive_id, position)]
        version = table.version() + 1
        try:
            table.create_write_transaction(
                actions, "append", table.schema(), self._partition_by,
                commit_properties=CommitProperties(app_transactions=batch), post_commithook_properties=_NO_HOOKS,
            )  # fmt: skip
            self._publish(version)
        except DeltaError as error:
            raise OSError(str(error)) from None
        if version % CHECKPOINT_EVERY == 0:
            with suppress(OSError, DeltaError):  # the commit is made, and readers do with the checkpoint before
                self._checkpoint()

    def create(self) -> None:
        """Make the log, with a version that has no files."""
        fields = json.loads(self._schema_json or "{}")
        more = partition_fields(self._partition_by)
        schema = Schema.from_json(json.dumps({**fields, "fields": [*fields["fields"], *more]}))
        table = DeltaTable.create(self._own, schema, partition_by=self._partition_by)
        self._publish(0)
        self._table = table

    def _publish(self, version: int) -> None:
        """Make the commit's file in the store; without it the copy must not have it either."""
        file = self._log / f"{version:0{_VERSION_DIGITS}}.json"
        try:
            (self._path / LOG / file.name).create(file.read_bytes())
        except BaseException:
            file.unlink()
            self._table = None
            raise

    def _checkpoint(self) -> None:
        before = {each.name for each in self._log.iterdir()}
        DeltaTable(self._own).create_checkpoint()
        made = sorted({each.name for each in self._log.iterdir()} - before - {_LAST_CHECKPOINT})
        for name in (*made, _LAST_CHECKPOINT):
            (self._path / LOG / name).write_bytes((self._log / name).read_bytes())
