"""The folder of an archive's table, be it of plain Parquet files, or a Delta or Iceberg table. No Spark needed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from jbm_spark.archiving.archive_folder import ArchivePath
from jbm_spark.archiving.manifest import Erasure, Manifest, Span

SEGMENT_BYTES = 128 * 1024 * 1024
"""The size from which the last segment gets no further batch: the next one begins another."""
BATCHES_MAX = 8
"""Where more of them are small, they are compacted."""
_NULL = "__HIVE_DEFAULT_PARTITION__"
"""The name of a folder whose rows have no value: events that cannot be read are about no queue."""


@dataclass(frozen=True, slots=True)
class Fragments:
    """Files that are better one."""

    paths: tuple[ArchivePath, ...]
    """The paths of the files, or of a folder that has them."""
    rows: int
    """Counted when they were written."""
    data_bytes: int


class TableFolder(Protocol):
    """One of the folders that readers read; the caller has the archive's lock where it writes.

    Whatever fails is an ArchiveError, and readers see what they saw before.
    """

    @property
    def path(self) -> ArchivePath:
        """The path of the folder."""

    def manifests(self) -> Sequence[Manifest]:
        """Return the manifests of all batches, in order; several may be told as one. Raises where something is
        missing."""

    def files(self) -> Sequence[ArchivePath]:
        """Return what a reader has to read: files, or folders of them. Raises where something is missing."""

    def staged(self) -> ArchivePath:
        """A place that is not there, for the files of the next batch."""

    def publish(self, *, rows: int, spans: Sequence[Span]) -> Manifest:
        """Make what was staged the next batch: from now on readers see it, and its place in the log, whatever
        happens."""

    def to_compact(self) -> Fragments | None:
        """The small files that are too many, if there are such and it can be done at all."""

    def holding(self, rows: Mapping[Any, int]) -> Sequence[tuple[Fragments, int]]:
        """Return what is to be replaced for rows of these files to go, each in one step, and how many of the rows it
        has. Raises where nothing can be replaced here."""

    def replace(self, fragments: Fragments, erasure: Erasure | None = None) -> None:
        """Put what was staged, which has all rows of these but those of the erasure, in their place."""

    def remove_replaced(self) -> None:
        """Remove for good the files that were replaced, also those that are kept for readers of older versions, and
        what killed jobs have left."""


def positions(folder: TableFolder) -> Mapping[str, Span]:
    """Return the last span that was archived, by topic id. Raises as `manifests`."""
    return {span.topic_id: span for manifest in folder.manifests() for span in manifest.spans}


def partition_values(folders: Iterable[str]) -> dict[str, str | None]:
    """Return the values of a file's partition, as the names of its folders have them in the manner of Hive."""
    pairs = (name.partition("=")[::2] for name in folders)
    return {name: None if value == _NULL else unquote(value) for name, value in pairs}


def staged_files(staged: Path) -> list[Path]:
    """The data files that Spark left there; the folder of a queue may be named as one is."""
    found = staged.rglob("*.parquet")
    return sorted(path for path in found if not path.name.startswith((".", "_")) and not path.is_dir())
