"""`messages` or `events` of an archive, in the form that the archive has. No Spark needed."""

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from jbm_spark.archiving.archive_folder import (
    DELTA,
    DESTINATION,
    ICEBERG,
    MODULES,
    REMOTE_FORMATS,
    ArchiveIdentity,
    ArchivePath,
    iceberg_is_elsewhere,
    read_identity,
)
from jbm_spark.archiving.data_folder import DataFolder
from jbm_spark.archiving.table_folder import TableFolder
from jbm_spark.errors import ArchiveError

if TYPE_CHECKING:
    from jbm_spark.archiving.hadoop_path import HadoopPath
    from jbm_spark.archiving.lake_folder import LakeLog


def archive_table(
    path: ArchivePath, name: str, identity: ArchiveIdentity, schema_json: str | None = None
) -> TableFolder:
    """To write to with the schema, as Spark says it in JSON; without it to read alone.

    Raises:
        ArchiveError: it is a Delta or Iceberg table, and the package for those is not installed; or it was copied
            from a disk to a store or back, where it cannot be used.
    """
    if not isinstance(path, Path):
        return _on_store(path, name, identity, schema_json)
    if identity.file_format == ICEBERG:
        raise iceberg_is_elsewhere(path)
    if identity.file_format != DELTA:
        return DataFolder(path, name)
    from jbm_spark.archiving.delta_folder import DeltaFolder  # of the extra `delta`

    return DeltaFolder(path, name, identity.archive_id, schema_json, _partition_by(identity))


def _partition_by(identity: ArchiveIdentity) -> tuple[str, ...]:
    return (*((DESTINATION,) if identity.is_of_many else ()), "day")


def _on_store(path: "HadoopPath", name: str, identity: ArchiveIdentity, schema_json: str | None) -> TableFolder:
    if identity.file_format not in REMOTE_FORMATS:
        raise ArchiveError(f"archive {path} is of format {identity.file_format}, which needs a disk: copy it to one")
    of_table = (path / name, identity.archive_id, schema_json, _partition_by(identity))
    log: LakeLog
    importlib.import_module(MODULES[identity.file_format])  # says so in a line where its package is missing
    if identity.file_format == DELTA:
        from jbm_spark.archiving.delta_log import DeltaLog

        log = DeltaLog(*of_table)
    else:
        from jbm_spark.archiving.iceberg_log import IcebergLog

        log = IcebergLog(*of_table)
    from jbm_spark.archiving.lake_folder import LakeFolder

    return LakeFolder(path, name, log)


def archived_table(path: ArchivePath, name: str) -> TableFolder:
    """To read, of an archive that is there.

    Raises:
        ArchiveError: it is none; or as `archive_table`.
    """
    return archive_table(path, name, read_identity(path))
