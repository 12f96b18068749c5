"""The folder of an archive: whose it is, and that one job at a time writes to it. No Spark needed.

    _archive.json   which destination of which cluster it is of
    messages/       what readers read: segment=N/batch=N/day=YYYY-MM-DD/*.parquet, or a table, Delta's or Iceberg's
    events/         the same, of what became of the messages
    _positions/     how far a Delta or Iceberg table has come; how many batches of Parquet files there are
    _staging/       what is being written; removed by the next job

Readers pass over names that begin with `_`, and batches come to `messages` by a rename when they are whole. An object
store renames file by file, so there is no staging there, and no lock: `lake_folder.py`.
"""

import importlib
import json
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from posixpath import normpath
from typing import TYPE_CHECKING, TypeAlias

from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.core.settings.address_pattern import matches
from jbm_spark.archiving.durably import draft_of, sync, write_text_durably
from jbm_spark.archiving.one_writer import not_writable, one_writer
from jbm_spark.checkpoint_lock import local_folder
from jbm_spark.errors import ArchiveError

if TYPE_CHECKING:
    from jbm_spark.archiving.hadoop_path import HadoopPath

ArchivePath: TypeAlias = "Path | HadoopPath"
IDENTITY_FILE = "_archive.json"
LOCK_FILE = "_archive.lock"
STAGING = "_staging"
POSITIONS = "_positions"
MESSAGES, EVENTS = "messages", "events"
PARQUET, DELTA, ICEBERG = "parquet", "delta", "iceberg"
FORMATS = (PARQUET, DELTA, ICEBERG)
REMOTE_FORMATS = (DELTA, ICEBERG)
DESTINATION = "destination"
"""The column by which the folders of an archive of many queues are divided, above the days: as in `queue:orders`."""
MANY = "queues"
"""The kind of what an archive of many queues is of; a pattern follows."""
MODULES = {DELTA: "jbm_spark.archiving.delta_folder", ICEBERG: "jbm_spark.archiving.iceberg_log"}
"""The modules that need the package of a format."""


@dataclass(frozen=True, slots=True)
class ArchiveIdentity:
    """Whose archive it is."""

    archive_id: str
    """Made up with the archive."""
    destination: str
    """As in `queue:orders`, or `queues:orders.*` of many."""
    cluster_id: str
    """The brokers' own name of their cluster."""
    file_format: str = PARQUET
    """One of FORMATS."""

    def has(self, destination: Destination) -> bool:
        """Return True if it keeps messages of this queue or topic."""
        kind, _, name = self.destination.partition(":")
        if kind != MANY:
            return self.destination == str(destination)
        return isinstance(destination, Queue) and matches(name, destination.name)

    @property
    def is_of_many(self) -> bool:
        """It is of all queues that a pattern names, and partitioned by them."""
        return self.destination.startswith(f"{MANY}:")

    def as_json(self) -> dict[str, object]:
        """For its file; a folder of Parquet files says nothing of its format, as before there were others."""
        fields = asdict(self)
        if self.file_format == PARQUET:
            del fields["file_format"]
        return {"format": 1, **fields}


def is_here(folder: object) -> bool:
    """Return True if it is on this machine, where it can be looked at before there is a session."""
    return local_folder(str(folder), plain_is_local=True) is not None


def archive_path(folder: object) -> ArchivePath:
    """The folder on this machine, or the place on an object store.

    Raises:
        ArchiveError: it is on a file system that cannot have an archive, or no path at all.
    """
    text = str(folder)
    path = local_folder(text, plain_is_local=True) if text else None
    if path is not None:
        return path
    from jbm_spark.archiving.hadoop_path import SCHEMES, HadoopPath  # needs Spark

    scheme, _, rest = text.partition("://")
    store, _, below = rest.partition("/")
    if scheme not in SCHEMES or not store:
        raise ArchiveError(
            f"archive {text!r}: an archive is in a folder that this process and all executors have, such as "
            f"/data/orders, or at {', '.join(f'{each}://' for each in SCHEMES)}, as in s3a://bucket/orders"
        )
    place = normpath("/" + below.strip("/"))  # so Hadoop and Spark name its files, and names are compared
    return HadoopPath(f"{scheme}://{store}{place}")


def read_identity(path: ArchivePath) -> ArchiveIdentity:
    """Return the identity of an archive that is there.

    Raises:
        ArchiveError: it is none, or its file cannot be read.
    """
    file = path / IDENTITY_FILE
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        if fields.pop("format") != 1:
            raise ArchiveError(f"archive {path} is of a newer format: use the jbm-kafka that wrote it")
        found = ArchiveIdentity(**fields)
        if found.file_format not in FORMATS:
            raise ValueError(f"its files are {found.file_format!r}")
        return found
    except FileNotFoundError:
        raise ArchiveError(
            f"{path} is no archive: it has no file {IDENTITY_FILE}; jbm-spark archive DESTINATION --to {path} makes one"
        ) from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ArchiveError(
            f"archive {path}: its file {IDENTITY_FILE} cannot be used ({error}); restore that file, or begin another "
            "archive"
        ) from None


@contextmanager
def locked_archive(
    path: ArchivePath, *, destination: str, cluster_id: str, file_format: str | None = None
) -> Iterator[ArchiveIdentity]:
    """The archive of the destination, made if it is missing, while no other job writes to it; its staging is empty. On
    an object store nobody is kept out: there the commit of one of two jobs is refused.

    `file_format` None: the one that it has; a new one is of Parquet files.

    Raises:
        ArchiveError: the folder cannot be written, another job has it, or it is something else.
    """
    if file_format not in (None, *FORMATS):
        raise ArchiveError(
            f"--format {file_format}: an archive is of format {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        )
    if file_format in MODULES:
        importlib.import_module(MODULES[file_format])  # where its package is missing nothing is made
    if not isinstance(path, Path):
        yield _claimed_there(path, destination, cluster_id, file_format)
        return
    if file_format == ICEBERG:
        raise iceberg_is_elsewhere(path)
    with one_writer(path / LOCK_FILE, what="archive", kind=ArchiveError):
        yield _claimed(path, destination, cluster_id, file_format)


def _claimed(path: Path, destination: str, cluster_id: str, file_format: str | None) -> ArchiveIdentity:
    ours = {LOCK_FILE, IDENTITY_FILE, STAGING, draft_of(path / IDENTITY_FILE).name}
    others = sorted(found.name for found in path.iterdir() if found.name not in ours)
    if not (path / IDENTITY_FILE).exists() and others:
        raise _has_others(path, others[0])
    try:
        if not (path / IDENTITY_FILE).exists():
            made = ArchiveIdentity(uuid.uuid4().hex, destination, cluster_id, file_format or PARQUET)
            write_text_durably(path / IDENTITY_FILE, json.dumps(made.as_json()) + "\n")
        shutil.rmtree(path / STAGING, ignore_errors=True)
        for name in (STAGING, MESSAGES, EVENTS):
            (path / name).mkdir(exist_ok=True)
        sync(path)
    except OSError as error:
        raise _not_writable(path, error) from None
    return _checked(path, destination, cluster_id, file_format)


def _claimed_there(path: "HadoopPath", destination: str, cluster_id: str, file_format: str | None) -> ArchiveIdentity:
    """The archive on an object store, made if it is missing, by the one that is first to make its file."""
    file = path / IDENTITY_FILE
    try:
        if not file.exists():
            if (file_format or PARQUET) not in REMOTE_FORMATS:
                raise ArchiveError(
                    f"archive {path}: Parquet files alone are published by renaming a folder in one step, which this "
                    f"store cannot: give --format {' or --format '.join(REMOTE_FORMATS)}"
                )
            others = [each.name for each in path.iterdir() if each.name != IDENTITY_FILE]
            if others:
                raise _has_others(path, others[0])
            made = ArchiveIdentity(uuid.uuid4().hex, destination, cluster_id, file_format or PARQUET)
            with suppress(FileExistsError):
                file.create((json.dumps(made.as_json()) + "\n").encode())
    except OSError as error:
        raise _not_writable(path, error) from None
    return _checked(path, destination, cluster_id, file_format)


def _checked(path: ArchivePath, destination: str, cluster_id: str, file_format: str | None) -> ArchiveIdentity:
    identity = read_identity(path)
    if (identity.destination, identity.cluster_id) != (destination, cluster_id):
        of_cluster = "" if identity.cluster_id == cluster_id else f" in cluster {identity.cluster_id}"
        raise ArchiveError(
            f"archive {path} is that of {identity.destination}{of_cluster}, and this job is for {destination} in "
            f"cluster {cluster_id}: give each a folder of its own"
        )
    if file_format not in (None, identity.file_format):
        raise ArchiveError(
            f"archive {path} is of format {identity.file_format}, and not {file_format}: name a new folder, or leave "
            "--format out"
        )
    return identity


def iceberg_is_elsewhere(path: Path) -> ArchiveError:
    """The error of an Iceberg table that is to be, or was copied, on this machine."""
    return ArchiveError(
        f"archive {path}: Iceberg tables have absolute names of their files, and are for object stores, as in "
        "s3a://bucket/orders; here take --format delta"
    )


def _has_others(path: ArchivePath, name: str) -> ArchiveError:
    return ArchiveError(
        f"{path} is no archive and has other files, such as {name}: name a new folder; of an archive restore the file "
        f"{IDENTITY_FILE}"
    )


def _not_writable(path: ArchivePath, error: OSError) -> ArchiveError:
    return ArchiveError(not_writable(f"archive {path}", error))
