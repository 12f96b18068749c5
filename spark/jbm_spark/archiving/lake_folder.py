"""`messages` or `events` of an archive on an object store: a table whose log says which files count.

Nothing is renamed and nobody locks. Spark writes a batch where it stays, below the table, and it counts since a commit
of the table's log names its files. The store makes a commit's file only where there is none of that name, so of two
jobs that go on from one state one is refused. How far a batch has come in Kafka is in a file below `_positions`, whose
number is made up for it, and the commit names that number.
"""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

from pyarrow import ArrowException, parquet

from jbm_spark.archiving.archive_folder import POSITIONS
from jbm_spark.archiving.hadoop_path import FoundFile, HadoopPath
from jbm_spark.archiving.manifest import Erasure, Manifest, Span, compacted, read_manifest
from jbm_spark.archiving.table_folder import BATCHES_MAX, SEGMENT_BYTES, Fragments, partition_values
from jbm_spark.errors import ArchiveError

_KEPT_MS = 7 * 86_400_000
"""Files that a compaction replaced stay so long after they were written, for readers of older versions."""
_LOGS = ("_delta_log", "metadata")


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A data file of a table."""

    place: str
    """Below the table's folder."""
    partition: Mapping[str, str | None]
    size: int
    rows: int


class LakeLog(Protocol):
    """The log of a table, by the library of its format; its errors are OSErrors, or ArchiveErrors that say more."""

    def refresh(self) -> bool:
        """Look at the newest version; False: there is no log. Raises ArchiveError where that cannot be had."""

    def create(self) -> None:
        """Make the log, of a table without files. Raises FileExistsError where another job has made it."""

    def position(self) -> int | None:
        """Return the number of the position that this version names; None: there was no batch yet."""

    def files(self) -> Sequence[LakeFile]:
        """Return the files of this version."""

    def commit(
        self, added: Sequence[LakeFile], removed: Sequence[LakeFile], *, position: int | None, is_change: bool
    ) -> None:
        """Make the version after this one, of a log that is there. Raises FileExistsError where another job has made
        it."""


class LakeFolder:
    """A `TableFolder` on a store where each commit is a file that is made once."""

    def __init__(self, archive: HadoopPath, name: str, log: LakeLog) -> None:
        self.path = archive / name
        self._positions = archive / POSITIONS / name
        self._log = log
        self._is_made = False
        """The log was there when it was looked at last."""
        self._staged = self.path
        self._decided_on: int | None = None
        """The position that was read last: what is published goes on from there."""
        self._staged_on: int | None = None
        """The position before anything was staged: with another one, its files may have been removed already."""

    def manifests(self) -> Sequence[Manifest]:
        """One for all batches. Raises ArchiveError where the log or the position cannot be read."""
        whole, self._decided_on = self._newest()
        return [] if whole is None else [whole]

    def files(self) -> Sequence[HadoopPath]:
        """Return the files of the newest version; raises as `manifests`, and where one of them is missing."""
        seen: list[HadoopPath] = []
        while True:
            with self._told("it cannot be read"):
                self._refresh()
                wanted = [self.path / each.place for each in self._log.files()]
                there = {each.path for each in self.path.all_files()} if wanted else set()
            missing = next((path for path in wanted if path not in there), None)
            if missing is None:
                return wanted
            if wanted == seen:  # else an erasure removed it, after its commit
                raise ArchiveError(f"archive {self.path}: file {missing.relative_to(self.path)} is missing: restore it")
            seen = wanted

    def staged(self) -> HadoopPath:
        """A place that nobody else has, below the table."""
        self._staged = self.path / f"batch={uuid4().hex}"
        with self._told("its log cannot be read"):
            self._refresh()
            self._staged_on = self._log.position()
        return self._staged

    def publish(self, *, rows: int, spans: Sequence[Span]) -> Manifest:
        """Make what was staged the next batch. Raises ArchiveError where another job has published meanwhile."""
        decided_on = self._decided_on
        before, found = self._newest()
        if found != decided_on:
            raise self._refused()
        number = 0 if before is None else before.last + 1
        added = self._staged_files()
        batch = Manifest(number, number, rows, sum(each.size for each in added), tuple(spans))
        earlier = () if before is None else (before,)
        size = sum(manifest.data_bytes for manifest in (*earlier, batch))
        self._commit_position(added, [], compacted((*earlier, batch), data_bytes=size), found)
        return batch

    def to_compact(self) -> Fragments | None:
        """The small files of the partitions that have many."""
        with self._told("it cannot be read"):
            self._refresh()
            found = self._log.files()
        by_partition: dict[str, list[LakeFile]] = {}
        for each in found:
            if each.size < SEGMENT_BYTES // 2:
                by_partition.setdefault(str(each.partition), []).append(each)
        small = [each for files in by_partition.values() if len(files) > BATCHES_MAX for each in files]
        return self._fragments(small) if small else None

    def holding(self, rows: Mapping[HadoopPath, int]) -> list[tuple[Fragments, int]]:
        """Return the files, day by day. Raises ArchiveError where another job has replaced one."""
        by_day: dict[str, list[LakeFile]] = {}
        self._newest()
        for each in self._log.files():
            if self.path / each.place in rows:
                by_day.setdefault(str(each.partition["day"]), []).append(each)
        if sum(map(len, by_day.values())) != len(rows):  # compacted meanwhile: the rows are in another file now
            raise self._overtaken()
        return [
            (self._fragments(files), sum(rows[self.path / each.place] for each in files))
            for _, files in sorted(by_day.items())
        ]

    def replace(self, fragments: Fragments, erasure: Erasure | None = None) -> None:
        """In one commit. Raises ArchiveError where another job has published meanwhile, or replaced some of them."""
        before, found = self._newest()
        replaced = set(fragments.paths)
        gone = [each for each in self._log.files() if self.path / each.place in replaced]
        if found != self._staged_on or len(gone) != len(replaced):
            raise self._refused()
        added = self._staged_files()
        if erasure is None:
            self._commit(added, gone, None)
            self._remove_unnamed(_KEPT_MS, besides=replaced)
            return
        assert before is not None, "files of no batch"
        size = before.data_bytes - fragments.data_bytes + sum(each.size for each in added)
        batch = Manifest(before.last + 1, before.last + 1, 0, 0, ())
        whole = compacted((before, batch), data_bytes=size, erasure=erasure)
        self._commit_position(added, gone, whole, found)

    def remove_replaced(self) -> None:
        """Remove every file that the newest version has not, whatever older ones need. A job that is writing some is
        refused."""
        if self._remove_unnamed():
            whole, number = self._newest()
            assert whole is not None, "there is a position"
            self._commit_position([], [], whole, number)  # a later one, from which they do not go on
            self._remove_unnamed()

    def _newest(self) -> tuple[Manifest | None, int | None]:
        """The manifest of all batches, and its number."""
        seen: int | None = None
        while True:
            with self._told("its log cannot be read"):
                self._refresh()
                number = self._log.position()
            try:
                return (None if number is None else read_manifest(self._place(number))), number
            except ArchiveError:
                if number == seen:  # else the next commit may have taken it away
                    raise
                seen = number

    def _refresh(self) -> None:
        """Look at the log. It is made before the first position, so where there are positions alone it was lost, and a
        new one would archive everything once more."""
        self._is_made = self._log.refresh()
        if self._is_made or not any(self._positions.all_files()):
            return
        self._is_made = self._log.refresh()  # another job may have made both in between
        if not self._is_made:
            raise ArchiveError(
                f"archive {self.path}: its log ({' or '.join(_LOGS)}) is missing: restore it, or begin another archive"
            )

    def _place(self, number: int) -> HadoopPath:
        return self._positions / f"{number:016x}"

    def _staged_files(self) -> list[LakeFile]:
        with self._told("what was written cannot be read"):
            return [
                LakeFile(str(place), partition_values(place.parts[1:-1]), each.size,
                         parquet.read_metadata(each.path.open()).num_rows)
                for each in self._staged.all_files()
                for place in [each.path.relative_to(self.path)]
                if place.name.endswith(".parquet") and not any(part.startswith((".", "_")) for part in place.parts)
            ]  # fmt: skip

    def _commit_position(
        self, added: Sequence[LakeFile], removed: Sequence[LakeFile], whole: Manifest, before: int | None
    ) -> None:
        number = secrets.randbits(62)
        with self._told("nothing was published"):
            try:
                if not self._is_made:
                    self._log.create()
            except FileExistsError:
                raise self._refused() from None
            whole.write(self._place(number))
        self._commit(added, removed, number)
        self._decided_on = number
        if before is not None:
            with suppress(OSError):  # it is published: who was told of a failure would publish the same once more
                self._place(before).remove()

    def _commit(self, added: Sequence[LakeFile], removed: Sequence[LakeFile], position: int | None) -> None:
        with self._told(
            "its log did not take the commit, or the answer was lost: the next run goes on from what is there"
        ):
            try:
                self._log.commit(added, removed, position=position, is_change=position is not None)
            except FileExistsError:
                raise self._refused() from None

    def _remove_unnamed(self, age_ms: int | None = None, *, besides: AbstractSet[object] = frozenset()) -> bool:
        """Remove files that no commit names and no later one can: those that are older than the position, from which
        every commit to come has to go on. `age_ms` None: of whatever age, for our clock is not the store's. Return True
        if there are others."""
        with self._told("what no version needs is still there"):
            place: list[FoundFile] = []
            while not place:  # another job may commit, and take the position away, before we look at its time
                _, number = self._newest()
                if number is None:
                    return False
                place = [*self._place(number).all_files()]
            named = {each.path for each in place} | {self.path / each.place for each in self._log.files()} | besides
            since = [each.changed_ms for each in place]
            until = min(since if age_ms is None else [*since, int(time.time() * 1000) - age_ms])
            logs = tuple(f"{self.path}/{name}/" for name in _LOGS)
            found = [*self.path.all_files(), *self._positions.all_files()]
            unnamed = [each for each in found if each.path not in named and not str(each.path).startswith(logs)]
            for each in unnamed:
                if each.changed_ms < until:
                    each.path.remove()
            return any(each.changed_ms >= until for each in unnamed)

    def _fragments(self, files: Sequence[LakeFile]) -> Fragments:
        rows, data_bytes = sum(each.rows for each in files), sum(each.size for each in files)
        return Fragments(tuple(self.path / each.place for each in files), rows, data_bytes)

    def _refused(self) -> ArchiveError:
        """The error to raise; what was staged is removed, for it may have what an erasure takes out meanwhile."""
        if self._staged != self.path:
            with suppress(OSError):
                self._staged.remove()
        return self._overtaken()

    def _overtaken(self) -> ArchiveError:
        return ArchiveError(
            f"archive {self.path}: another job has published meanwhile, and nothing of this one: let one job write to "
            "an archive, and run this one again"
        )

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ArrowException) as error:
            line = " ".join(str(error).split())
            raise ArchiveError(f"archive {self.path}: {what} ({line})") from None
