"""`messages` or `events` of an archive, in the form that the archive has. No Spark needed."""

from pathlib import Path

from jbm_spark.archiving.archive_folder import DELTA, ArchiveIdentity, read_identity
from jbm_spark.archiving.data_folder import DataFolder
from jbm_spark.archiving.table_folder import TableFolder


def archive_table(path: Path, name: str, identity: ArchiveIdentity, schema_json: str | None = None) -> TableFolder:
    """To write to with the schema, as Spark says it in JSON; without it to read alone.

    Raises:
        ArchiveError: it is a Delta table, and the package for those is not installed.
    """
    if identity.file_format != DELTA:
        return DataFolder(path, name)
    from jbm_spark.archiving.delta_folder import DeltaFolder  # of the extra `delta`

    return DeltaFolder(path, name, identity.archive_id, schema_json)


def archived_table(path: Path, name: str) -> TableFolder:
    """To read, of an archive that is there.

    Raises:
        ArchiveError: it is none; or as `archive_table`.
    """
    return archive_table(path, name, read_identity(path))
