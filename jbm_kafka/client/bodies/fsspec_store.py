"""Large bodies in whatever fsspec reaches: `s3://`, `gs://`, `abfs://`, `memory://` and others."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from jbm_kafka.client.bodies.body_store import StoredBody

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


class FsspecStore:
    """Implements `BodyStore` over one file system and a folder of it."""

    def __init__(self, files: AbstractFileSystem, root: str, url: str) -> None:
        self._files = files
        self._root = root.rstrip("/")
        self._url = url

    def put(self, name: str, body: bytes) -> None:
        path = self._path(name)
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)  # nothing, where there are no folders
        self._files.pipe_file(path, body)

    def get(self, name: str) -> bytes | None:
        try:
            return bytes(self._files.cat_file(self._path(name)))
        except FileNotFoundError:
            return None

    def list(self) -> Iterable[StoredBody]:
        self._files.invalidate_cache()
        if not self._files.exists(self._root):
            return
        for path, found in self._files.find(self._root, detail=True).items():
            day, _, last = path.rpartition("/")
            yield StoredBody(f"{day.rpartition('/')[2]}/{last}", found["size"])

    def remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._files.rm_file(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def __repr__(self) -> str:
        return self._url
