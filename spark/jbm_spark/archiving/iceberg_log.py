"""The log of an Iceberg table on an object store, by the package `pyiceberg`, which reaches the store by Hadoop alone.

The table is its own catalog: version N is the file `metadata/vN.metadata.json`, as Iceberg's tables of Hadoop have it,
and a file of the store's that is made once makes a version. `version-hint.text` names a late one, for readers.
"""

import io
import json
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from types import TracebackType

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DateType, StringType, StructType

from jbm_spark.archiving.hadoop_path import HadoopFile, HadoopPath
from jbm_spark.errors import ArchiveError

try:
    from pyiceberg.catalog import Catalog
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.io import FileIO, InputFile, OutputFile
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import assign_fresh_schema_ids
    from pyiceberg.serializers import FromInputFile
    from pyiceberg.table import CommitTableResponse, Table, TableProperties
    from pyiceberg.table.metadata import TableMetadata, new_table_metadata
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
    from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.typedef import Record

    from jbm_spark.archiving.lake_folder import LakeFile
except ModuleNotFoundError as error:
    raise ArchiveError(
        f"an archive of --format iceberg needs Iceberg's own package, and {error.name} is not installed: pip install "
        "pyiceberg pyarrow"
    ) from None

METADATA = "metadata"
HINT = "version-hint.text"
_POSITION = "jbm.position"
_EPOCH = date(1970, 1, 1)
_KEPT = timedelta(days=7)
"""So long readers of an older version have it after a compaction."""


class _HadoopInput(InputFile):
    def __len__(self) -> int:
        return len(self.open())

    def exists(self) -> bool:
        return HadoopPath(self.location).exists()

    def open(self, seekable: bool = True) -> HadoopFile:
        return HadoopPath(self.location).open()


class _Written(io.BytesIO):
    """Bytes that become a file of the store when they are whole."""

    def __init__(self, path: HadoopPath) -> None:
        super().__init__()
        self._path = path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            super().close()  # else it would be written when it is collected

    def close(self) -> None:
        if not self.closed:
            self._path.write_bytes(self.getvalue())
        super().close()


class _HadoopOutput(OutputFile):
    def __len__(self) -> int:
        return len(HadoopPath(self.location).open())

    def exists(self) -> bool:
        return HadoopPath(self.location).exists()

    def to_input_file(self) -> _HadoopInput:
        return _HadoopInput(self.location)

    def create(self, overwrite: bool = False) -> _Written:
        return _Written(HadoopPath(self.location))


class HadoopFileIO(FileIO):
    """The files of Iceberg's tables, by Hadoop."""

    def new_input(self, location: str) -> InputFile:
        return _HadoopInput(location)

    def new_output(self, location: str) -> OutputFile:
        return _HadoopOutput(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        HadoopPath(location if isinstance(location, str) else location.location).remove()


class _OneTable(NoopCatalog):
    """The catalog of one table, which is the table's own folder."""

    def __init__(self, path: HadoopPath) -> None:
        super().__init__("archive")
        self._path = path

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Make the next version. Raises FileExistsError where there is one."""
        made = update_table_metadata(table.metadata, updates, metadata_location=table.metadata_location)
        place = self.write(made, _version(table) + 1)
        return CommitTableResponse(metadata=made, metadata_location=place)  # type: ignore[call-arg]

    def write(self, metadata: TableMetadata, version: int) -> str:
        """Return the place of this version."""
        place = self.place(version)
        place.create(metadata.model_dump_json(exclude_none=True).encode())
        with suppress(OSError):  # the version is made, and found without it
            (self._path / METADATA / HINT).write_text(str(version))
        return str(place)

    def place(self, version: int) -> HadoopPath:
        """Where this version is, if there is one."""
        return self._path / METADATA / f"v{version}.metadata.json"

    def newest(self) -> Table | None:
        """The table; None: it was not made yet."""
        try:
            version = int((self._path / METADATA / HINT).read_text())
        except (FileNotFoundError, ValueError):  # not there yet, or written by halves where files are not made at once
            version = 0
        while self.place(version + 1).exists():  # whoever made a version may have been killed before the hint
            version += 1
        if version == 0:
            return None
        place = str(self.place(version))
        metadata = FromInputFile.table_metadata(_HadoopInput(place))
        return Table(("archive", self._path.name), metadata, place, HadoopFileIO(), self)


class IcebergLog:
    """A `LakeLog`."""

    def __init__(self, path: HadoopPath, archive_id: str, schema_json: str | None, partition_by: Sequence[str]) -> None:
        self._path = path
        self._schema_json = schema_json
        self._partition_by = [*partition_by]
        self._catalog = _OneTable(path)
        self._table: Table | None = None

    def refresh(self) -> bool:
        """Read the newest version; False: there is no log."""
        try:
            self._table = self._catalog.newest()
        except ValueError as error:
            raise OSError(str(error)) from None
        return self._table is not None

    def position(self) -> int | None:
        """Return the number that the newest version has."""
        found = None if self._table is None else self._table.properties.get(_POSITION)
        return None if found is None else int(found)

    def files(self) -> Sequence[LakeFile]:
        """Return those of the newest version."""
        return [self._lake_file(each) for each in self._data_files()]

    def commit(
        self, added: Sequence[LakeFile], removed: Sequence[LakeFile], *, position: int | None, is_change: bool
    ) -> None:
        """Make the next version. A compaction forgets old versions, too."""
        table = self._table
        assert table is not None, "the log is made first"
        gone = {each.place for each in removed}
        try:
            with table.transaction() as transaction:
                if position is not None:
                    transaction.set_properties({_POSITION: str(position)})
                if added or gone:
                    update = transaction.update_snapshot()
                    with update.overwrite() if gone else update.fast_append() as snapshot:
                        for each in added:
                            snapshot.append_data_file(self._data_file(each))
                        for data_file in self._data_files() if gone else ():
                            if self._lake_file(data_file).place in gone:
                                snapshot.delete_data_file(data_file)
            if not is_change:
                with suppress(OSError):  # the compaction is made; the next one forgets them
                    old = datetime.now(UTC).replace(tzinfo=None) - _KEPT
                    table.maintenance.expire_snapshots().older_than(old).commit()
        finally:
            self._table = None

    def create(self) -> None:
        """Write the metadata of a new, empty table, with the partitions of this archive: a version that has no files.

        Of two jobs one makes version 1; the other one gets the error of a file that exists.
        """
        fields = StructType.fromJson(json.loads(self._schema_json or "{}"))
        for name in self._partition_by:
            fields = fields.add(name, DateType() if name == "day" else StringType())
        named = Catalog._convert_schema_if_needed(to_arrow_schema(fields, timezone="UTC"))
        schema = assign_fresh_schema_ids(named)
        parts = [
            PartitionField(schema.find_field(name).field_id, 1000 + number, IdentityTransform(), name)
            for number, name in enumerate(self._partition_by)
        ]
        # Spark's files have no ids of columns; and bounds of columns in the metadata would outlive an erasure.
        properties = {
            TableProperties.DEFAULT_NAME_MAPPING: schema.name_mapping.model_dump_json(),
            TableProperties.DEFAULT_WRITE_METRICS_MODE: "none",
        }
        made = new_table_metadata(schema, PartitionSpec(*parts), UNSORTED_SORT_ORDER, str(self._path), properties)
        self._catalog.write(made, 1)
        self._table = self._catalog.newest()

    def _data_files(self) -> Sequence[DataFile]:
        snapshot = None if self._table is None else self._table.current_snapshot()
        if self._table is None or snapshot is None:
            return []
        manifests = snapshot.manifests(self._table.io)
        return [entry.data_file for each in manifests for entry in each.fetch_manifest_entry(self._table.io)]

    def _lake_file(self, data_file: DataFile) -> LakeFile:
        place = data_file.file_path.removeprefix(f"{self._path}/")
        values = zip(self._partition_by, data_file.partition._data, strict=True)
        partition = {
            name: str(_EPOCH + timedelta(days=value)) if isinstance(value, int) else value for name, value in values
        }
        return LakeFile(place, partition, data_file.file_size_in_bytes, data_file.record_count)

    def _data_file(self, file: LakeFile) -> DataFile:
        values = [
            (date.fromisoformat(value) - _EPOCH).days if name == "day" and value is not None else value
            for name, value in ((name, file.partition[name]) for name in self._partition_by)
        ]
        return DataFile.from_args(
            content=DataFileContent.DATA, file_path=f"{self._path}/{file.place}", file_format=FileFormat.PARQUET,
            partition=Record(*values), record_count=file.rows, file_size_in_bytes=file.size, spec_id=0,
            sort_order_id=None, equality_ids=None, key_metadata=None, column_sizes={}, value_counts={},
            null_value_counts={}, nan_value_counts={}, lower_bounds={}, upper_bounds={}, split_offsets=None,
        )  # fmt: skip


def _version(table: Table) -> int:
    return int(table.metadata_location.rpartition("/v")[2].partition(".")[0])
