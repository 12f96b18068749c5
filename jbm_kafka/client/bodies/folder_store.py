"""Large bodies as files of one folder, which all processes share, such as a network drive."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from jbm_kafka.client.bodies.body_store import StoredBody

UNFINISHED = ".unfinished"
"""The end of the name of a file that is being written; a process that was killed leaves it, and clean-up finds it."""


class FolderStore:
    """Implements `BodyStore`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, body: bytes) -> None:
        """Keep the body: its file and the file's name are on the disk when this returns.

        A kill in between leaves a file whose name ends with UNFINISHED, which no reader looks at.

        Raises:
            FileNotFoundError: the folder is not there; it is not made, for on this machine alone nobody would find it.
        """
        path = self._folder / name
        self._check_there()  # made here, on this machine alone, others would look for the body in vain
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(path.name + UNFINISHED)
        with unfinished.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        for folder in (path.parent, self._folder):  # the names, too, before a record tells of them
            entry = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(entry)
            finally:
                os.close(entry)

    def get(self, name: str) -> bytes | None:
        """Return the body, or None if there is none of this name.

        Raises:
            FileNotFoundError: the folder itself is not there, as when it is not mounted: the body may not be gone.
        """
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            self._check_there()  # not mounted, say: the body is not gone
            return None

    def list(self) -> Iterable[StoredBody]:
        self._check_there()
        return self._found()

    def _found(self) -> Iterator[StoredBody]:
        for path in sorted(self._folder.glob("*/*")):
            with suppress(FileNotFoundError):  # removed since
                yield StoredBody(f"{path.parent.name}/{path.name}", path.stat().st_size)

    def remove(self, name: str) -> None:
        path = self._folder / name
        path.unlink(missing_ok=True)
        with suppress(OSError):  # others are in it, or come into it now
            path.parent.rmdir()

    def _check_there(self) -> None:
        if not self._folder.is_dir():
            raise FileNotFoundError(f"the folder {self._folder} is not there: mount it, or make it") from None

    def __repr__(self) -> str:
        return f"file:{self._folder}"
