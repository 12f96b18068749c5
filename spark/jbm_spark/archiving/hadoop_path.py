"""A place on another file system than this machine's, by Hadoop's own classes and options: an object store, or HDFS.

It has those of `pathlib.Path`'s ways that an archive needs. All of it needs a session, whose JVM does the work.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import total_ordering
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession, is_remote

from jbm_spark.causes import cause_line
from jbm_spark.errors import ArchiveError

CONDITIONAL = "fs.option.create.conditional.overwrite"
"""Hadoop's option of a file that is to be made: the store itself refuses it where there is one of that name."""
BY_CONDITION = ("s3a",)
BY_RENAME = ("abfs", "abfss", "hdfs")
"""Here a file is renamed in one step, and refused where there is one of that name."""
SCHEMES = (*BY_CONDITION, *BY_RENAME)
_NO_FILE_SYSTEM = re.compile(r"Class \S+FileSystem not found|UnsupportedFileSystemException")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that a listing has."""

    path: "HadoopPath"
    size: int
    changed_ms: int


@total_ordering
class HadoopPath:
    """A file or a folder; errors are OSErrors."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def __str__(self) -> str:
        return self._url

    def __fspath__(self) -> str:
        return self._url

    def __repr__(self) -> str:
        return f"HadoopPath({self._url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HadoopPath) and self._url == other._url

    def __lt__(self, other: "HadoopPath") -> bool:
        return self._url < other._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __truediv__(self, name: str) -> "HadoopPath":
        return HadoopPath(f"{self._url}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self._url.rpartition("/")[2]

    @property
    def scheme(self) -> str:
        """As in `s3a`."""
        return urlsplit(self._url).scheme

    def relative_to(self, other: "HadoopPath") -> PurePosixPath:
        """Return the rest of the path, below that folder."""
        return PurePosixPath(self._url).relative_to(str(other))

    def exists(self) -> bool:
        """Return True if there is a file or a folder."""
        return bool(self._do(lambda files, place: files.exists(place)))

    def read_bytes(self) -> bytes:
        """The whole file."""
        return self.open().read()

    def read_text(self, encoding: str = "utf-8") -> str:
        """The whole file."""
        return self.read_bytes().decode(encoding)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """In place of an earlier one; readers see all of it or nothing."""
        self.write_bytes(text.encode(encoding))

    def write_bytes(self, data: bytes) -> None:
        """As `write_text`."""

        def write(files: Any, place: Any) -> None:
            stream = files.create(place, True)
            stream.write(data)
            stream.close()

        self._do(write)

    def create(self, data: bytes) -> None:
        """Make the file, whole, in one step, and only if there is none: of any number of callers one succeeds.

        Raises:
            FileExistsError: there is one, with other contents.
            OSError: it cannot be made; or, of a store that was out of reach, nobody knows.
        """
        try:
            self._do(self._by_condition(data) if self.scheme in BY_CONDITION else self._by_rename(data))
        except OSError:
            # A store that was asked twice, since its first answer was lost, refuses the second time.
            if not self.exists():
                raise
            if self.read_bytes() != data:
                raise FileExistsError(f"{self._url} is there") from None

    def _by_condition(self, data: bytes) -> Any:
        def create(files: Any, place: Any) -> None:
            stream = files.createFile(place).must(CONDITIONAL, "true").build()
            stream.write(data)
            stream.close()

        return create

    def _by_rename(self, data: bytes) -> Any:
        draft = HadoopPath(self._url.removesuffix(self.name)) / f"_{uuid4().hex}.draft"

        def create(files: Any, place: Any) -> None:
            draft.write_bytes(data)
            if not files.rename(_hadoop(str(draft)), place):
                files.delete(_hadoop(str(draft)), False)
                raise FileExistsError(self._url)

        return create

    def open(self) -> "HadoopFile":
        """For reading."""
        return HadoopFile(self)

    def iterdir(self) -> list["HadoopPath"]:
        """What is in the folder; nothing where there is none."""

        def listed(files: Any, place: Any) -> list[str]:
            return [str(each.getPath().getName()) for each in files.listStatus(place)] if files.exists(place) else []

        return [self / name for name in self._do(listed)]

    def all_files(self) -> Iterator[FoundFile]:
        """All files below it, in whatever folder."""

        def listed(files: Any, place: Any) -> list[tuple[str, int, int]]:
            if not files.exists(place):
                return []
            found, rows = files.listFiles(place, True), []
            while found.hasNext():
                each = found.next()
                rows.append((str(each.getPath().toString()), int(each.getLen()), int(each.getModificationTime())))
            return rows

        for url, size, changed_ms in self._do(listed):
            if not url.startswith(f"{self._url}/"):  # what is not known by its name must not be taken for a stranger
                raise OSError(f"{url} is listed below {self._url}: name that folder as the store does")
            yield FoundFile(HadoopPath(url), size, changed_ms)

    def remove(self) -> None:
        """With all that is in it; nothing, if it is not there."""
        self._do(lambda files, place: files.delete(place, True))

    def _do(self, work: Any) -> Any:
        try:
            place = _hadoop(self._url)
            return work(place.getFileSystem(_session()._jsparkSession.sessionState().newHadoopConf()), place)
        except Py4JJavaError as error:
            kind = str(error.java_exception.getClass().getName())
            if kind == "java.io.FileNotFoundException":
                raise FileNotFoundError(f"{self._url} is not there") from None
            if _NO_FILE_SYSTEM.search(str(error)):
                raise ArchiveError(_without_jars(self.scheme, self._url)) from None
            raise OSError(cause_line(error)) from None
        except Py4JError as error:
            raise OSError(cause_line(error)) from None


class HadoopFile(io.RawIOBase):
    """A file that is read where somebody seeks to, so that of a large one the footer alone comes here."""

    def __init__(self, path: HadoopPath) -> None:
        self._path, self._at = path, 0
        self._size = int(path._do(lambda files, place: files.getFileStatus(place).getLen()))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def __len__(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return so many bytes from the place reached, fewer at the end; all that is left without a size.

        Each call opens the file anew: none stays open between two reads.
        """
        left = max(0, self._size - self._at)
        count = left if size is None or size < 0 else min(size, left)

        def part(files: Any, place: Any) -> bytes:
            stream = files.open(place)
            try:
                stream.seek(self._at)
                return bytes(_session()._jvm.org.apache.commons.io.IOUtils.toByteArray(stream, count))
            finally:
                stream.close()

        found: bytes = self._path._do(part) if count else b""
        self._at += len(found)
        return found


def _session() -> Any:
    found = None if is_remote() else SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if found is None:
        raise ArchiveError(
            "an archive on an object store is reached by a session of this process, not by Spark Connect: begin with "
            "build_session(...)"
        )
    return found


def _hadoop(url: str) -> Any:
    return _session()._jvm.org.apache.hadoop.fs.Path(url)


def _without_jars(scheme: str, url: str) -> str:
    remedy = "fetch its jars with python -m jbm_spark.jars fetch --with s3, or " if scheme == "s3a" else ""
    return (
        f"archive {url}: this session has no file system for {scheme}: {remedy}build the session with its jar, by the "
        "setting spark.jars or spark.jars.packages"
    )
