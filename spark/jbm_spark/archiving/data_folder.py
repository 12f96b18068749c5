"""`messages` or `events` of an archive: its published batches, and how one more comes there. No Spark needed.

At every moment a reader who lists the folder finds whole batches alone, and each row once. A batch is a folder that is
renamed into its place. Some batches make a segment. When a segment has many, a compacted one takes its place by an
exchange of the two folders, which is one step as well. A reader that has listed the old files and not opened them yet
fails then, and reads anew.

How many batches there are is noted beside them when they are there. So who lists fewer knows that some were lost, and
archives nothing once more in silence, nor passes over what Kafka does not have any more.
"""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from jbm_spark.archiving.archive_folder import DESTINATION, POSITIONS, STAGING
from jbm_spark.archiving.durably import sync, sync_all, write_text_durably
from jbm_spark.archiving.exchange import can_exchange, exchange
from jbm_spark.archiving.manifest import MANIFEST_FILE, Erasure, Manifest, Span, compacted, read_manifest
from jbm_spark.archiving.table_folder import BATCHES_MAX, SEGMENT_BYTES, Fragments, staged_files
from jbm_spark.errors import ArchiveError

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Segment:
    """Batches that stand together."""

    number: int
    path: Path
    manifests: tuple[Manifest, ...]
    """In order."""

    @property
    def data_bytes(self) -> int:
        """The bytes of all its files."""
        return sum(manifest.data_bytes for manifest in self.manifests)

    @property
    def fragments(self) -> Fragments:
        """All its files."""
        return Fragments((self.path,), sum(manifest.rows for manifest in self.manifests), self.data_bytes)


class DataFolder:
    """A `TableFolder` of whole batches. A segment of SEGMENT_BYTES gets no further one."""

    def __init__(self, archive: Path, name: str) -> None:
        self.path = archive / name
        self._staging = archive / STAGING
        self._staged = self._staging / name
        self._noted = archive / POSITIONS / f"{name}.json"

    def segments(self) -> list[Segment]:
        """All of them, in order, as they are now.

        Raises:
            ArchiveError: a batch is missing, or its manifest.
        """
        return _looked_twice(self._segments)

    def _segments(self) -> list[Segment]:
        noted = self._batches_noted()  # before the look, for one may be published meanwhile
        try:
            found = [_segment(path) for path in sorted(self.path.glob("segment=*"))]
        except OSError as error:
            raise self._unreadable(error) from None
        expected = 0
        for manifest in (manifest for segment in found for manifest in segment.manifests):
            if manifest.first != expected:
                raise ArchiveError(
                    f"archive {self.path}: batch {expected} is missing, and {manifest.folder_name} is there: restore it"
                )
            expected = manifest.last + 1
        if expected < noted:
            last = noted - 1
            which = f"batch {last} is" if expected == last else f"batches {expected} to {last} are"
            raise ArchiveError(f"archive {self.path}: {which} missing: restore what is lost, or begin another archive")
        return found

    def _unreadable(self, error: OSError) -> ArchiveError:
        return ArchiveError(f"archive {self.path}: {error.strerror or error}; see that it can be read")

    def _batches_noted(self) -> int:
        """Return how many batches there were at least; 0: none was noted, as in archives of older versions."""
        try:
            return int(json.loads(self._noted.read_text(encoding="utf-8"))["batches"])
        except FileNotFoundError:
            return 0
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ArchiveError(
                f"archive {self.path}: the file {self._noted} cannot be used ({error}); restore it, or remove it if no "
                "batch is missing"
            ) from None

    def manifests(self) -> list[Manifest]:
        """Return the manifests of all batches, in order; raises as `segments`."""
        return [manifest for segment in self.segments() for manifest in segment.manifests]

    def files(self) -> list[Path]:
        """The folder itself; raises as `segments`, and where files of a batch are missing or were added."""
        _looked_twice(self._check_files)
        return [self.path]

    def _check_files(self) -> None:
        for segment in self._segments():
            for manifest in segment.manifests:
                batch = segment.path / manifest.folder_name
                try:
                    found = _data_bytes(batch)
                except OSError as error:
                    raise self._unreadable(error) from None
                if found != manifest.data_bytes and not _may_count_folders(batch):
                    raise ArchiveError(
                        f"archive {self.path}: the files of {batch.relative_to(self.path)} have {found} bytes, and "
                        f"{manifest.data_bytes} were written: some are missing, or others were added; restore them"
                    )

    def staged(self) -> Path:
        """A place that is not there, for the files of the next batch."""
        shutil.rmtree(self._staged, ignore_errors=True)
        return self._staged

    def publish(self, *, rows: int, spans: Sequence[Span]) -> Manifest:
        """Make what was staged the next batch: from now on readers see it, with its manifest, whatever happens."""
        segments = self.segments()
        number = segments[-1].manifests[-1].last + 1 if segments else 0
        self._staged.mkdir(exist_ok=True)  # no rows, no files
        manifest = Manifest(number, number, rows, _tidied(self._staged), tuple(spans))
        manifest.write(self._staged)
        sync_all(self._staged)
        if segments and segments[-1].data_bytes < SEGMENT_BYTES:
            place = segments[-1].path
            self._staged.rename(place / manifest.folder_name)
            sync(place)
        else:
            name = f"segment={segments[-1].number + 1 if segments else 0:06d}"
            outer = self._staging / name
            outer.mkdir()
            self._staged.rename(outer / manifest.folder_name)
            sync(outer)
            outer.rename(self.path / name)
            sync(self.path)
        self._noted.parent.mkdir(exist_ok=True)
        write_text_durably(self._noted, json.dumps({"batches": number + 1}) + "\n")
        return manifest

    def to_compact(self) -> Fragments | None:
        """The segment that has too many batches, where it can be done at all."""
        last = next(reversed(self.segments()), None)
        if last is None or len(last.manifests) <= BATCHES_MAX or not can_exchange(self._staging):
            return None
        return last.fragments

    def holding(self, rows: Mapping[Path, int]) -> list[tuple[Fragments, int]]:
        """Return the segments; raises as `segments`, and where folders cannot be exchanged."""
        counts: Counter[str] = Counter()
        for path, count in rows.items():
            counts[path.relative_to(self.path).parts[0]] += count
        if counts and not can_exchange(self._staging):
            raise ArchiveError(
                f"archive {self.path}: folders cannot be exchanged in one step on this system, and readers would see "
                "half of a change: do it on a machine with Linux that has the disk"
            )
        return [(each.fragments, counts[each.path.name]) for each in self.segments() if each.path.name in counts]

    def replace(self, fragments: Fragments, erasure: Erasure | None = None) -> None:
        """Put what was staged, which has all rows of the segment but those of the erasure, in its place."""
        [path] = fragments.paths
        assert isinstance(path, Path), "a segment is on a disk"
        segment = _segment(path)
        outer = self._staging / path.name
        shutil.rmtree(outer, ignore_errors=True)
        outer.mkdir()
        manifest = compacted(segment.manifests, data_bytes=_tidied(self._staged), erasure=erasure)
        manifest.write(self._staged)
        self._staged.rename(outer / manifest.folder_name)
        sync_all(outer)
        exchange(outer, path)
        sync(self.path)
        shutil.rmtree(outer, ignore_errors=True)

    def remove_replaced(self) -> None:
        """Empty the staging; raises where a file stays."""
        try:
            for place in self._staging.iterdir():
                shutil.rmtree(place)
            sync(self._staging)
        except OSError as error:
            raise ArchiveError(f"archive {self.path}: {error}; what was erased is still there: remove it") from None


def _looked_twice(look: Callable[[], _Found]) -> _Found:
    """Return what is found. A fault is told when it is found again, for folders may change places meanwhile."""
    told = ""
    while True:
        try:
            return look()
        except ArchiveError as error:
            if str(error) == told:
                raise
            told = str(error)


def _segment(path: Path) -> Segment:
    manifests = sorted((read_manifest(batch) for batch in path.glob("batch=*")), key=lambda each: each.first)
    try:
        number = int(path.name.partition("=")[2])
    except ValueError:
        raise ArchiveError(f"{path} is not of an archive: move it elsewhere") from None
    return Segment(number, path, tuple(manifests))


def _tidied(staged: Path) -> int:
    """Bytes of the data files; what Spark leaves beside them is removed."""
    data = staged_files(staged)
    for path in list(staged.rglob("*")):
        if path.is_file() and path not in data and path.name != MANIFEST_FILE:
            path.unlink()
    return _data_bytes(staged)


def _may_count_folders(batch: Path) -> bool:
    """Return True if a queue's folder is named as a file is: older versions took its size for that of a file."""
    return any(path.is_dir() for path in batch.glob(f"{DESTINATION}=*.parquet"))


def _data_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in staged_files(folder))
