"""What a folder of an archive does, be it of plain Parquet files or a Delta table. No Spark needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from jbm_spark.archiving.manifest import Manifest, Span

SEGMENT_BYTES = 128 * 1024 * 1024
"""What has as much is not compacted again."""
BATCHES_MAX = 8
"""Where more of them are small, they are compacted."""


@dataclass(frozen=True, slots=True)
class Fragments:
    """Files that are better one."""

    paths: tuple[Path, ...]
    """Of the files, or of a folder that has them."""
    rows: int
    """Counted when they were written."""
    data_bytes: int


class TableFolder(Protocol):
    """One of the folders that readers read; the caller has the archive's lock where it writes.

    Whatever fails is an ArchiveError, and readers see what they saw before.
    """

    @property
    def path(self) -> Path:
        """Of the folder."""

    def manifests(self) -> Sequence[Manifest]:
        """Of all batches, in order; several may be told as one. Raises where something is missing."""

    def files(self) -> Sequence[Path]:
        """What a reader has to read: files, or folders of them. Raises where something is missing."""

    def staged(self) -> Path:
        """A place that is not there, for the files of the next batch."""

    def publish(self, *, rows: int, span: Span) -> Manifest:
        """What was staged is the next batch: from now on readers see it, and its place in the log, whatever happens."""

    def to_compact(self) -> Fragments | None:
        """The small files that are too many, if there are such and it can be done at all."""

    def replace(self, fragments: Fragments) -> None:
        """What was staged has all rows of these, and takes their place."""


def position(folder: TableFolder) -> Span | None:
    """The last that was archived; None: nothing yet. Raises as `manifests`."""
    return next((manifest.spans[-1] for manifest in reversed(folder.manifests())), None)


def staged_files(staged: Path) -> list[Path]:
    """The data files that Spark left there."""
    return sorted(path for path in staged.rglob("*.parquet") if not path.name.startswith((".", "_")))
