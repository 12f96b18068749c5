"""Records in a RocksDB of their own, which survive their process.

What was written is whole or not there, also after a kill in the middle of a write. A killed process loses nothing. A
machine that loses its power may lose the newest writes, unless `sync` waits for the disk at each of them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from rocksdict import DBCompressionType, Options, Rdict, ReadOptions, WriteBatch, WriteOptions

from jbm_kafka.core.jms_errors import IllegalStateError, ResourceAllocationError

_NAME_LENGTH = struct.Struct(">H")
WRITE_BUFFER_BYTES = 4 << 20
"""Two of them may be in memory."""
WAL_BYTES_MAX = 16 << 20
"""Bounds the time to open after a kill."""


class RocksPersistenceManager:
    """Keeps the records of channels and stores in a folder, for one process at a time. Any thread.

    Raises:
        ResourceAllocationError: another process has the folder, or it cannot be opened.
    """

    def __init__(self, folder: str | Path, *, sync: bool = False) -> None:
        self.folder = Path(folder).absolute()
        self._write_options = WriteOptions()
        self._write_options.sync = sync
        self._rocks: Rdict | None = _open(self.folder)

    def __repr__(self) -> str:
        return f"RocksPersistenceManager({str(self.folder)!r})"

    @property
    def is_reliable(self) -> bool:
        """True: what was written is there after a kill."""
        return True

    def write(self, owner_id: str, records: Mapping[str, bytes | None], /) -> None:
        """As `write_all`, of one owner; None for a value removes the record."""
        self.write_all({owner_id: records})

    def write_all(self, records: Mapping[str, Mapping[str, bytes | None]], /) -> None:
        """Keep the records of several owners: all of them or, when it raises or the process is killed, none."""
        batch = WriteBatch(raw_mode=True)
        for owner_id, owned in records.items():
            prefix = _prefix(owner_id)
            for key, value in owned.items():
                if value is None:
                    batch.delete(prefix + key.encode())
                else:
                    batch.put(prefix + key.encode(), value)
        self._open().write(batch, self._write_options)

    def read(self, owner_id: str, /) -> Mapping[str, bytes]:
        """All records of an owner, by key."""
        prefix = _prefix(owner_id)
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(prefix + b"\xff")  # no key in UTF-8 begins with it
        rows = self._open().items(from_key=prefix, read_opt=bounds)
        return {bytes(key)[len(prefix) :].decode(): value for key, value in rows}  # type: ignore[arg-type]

    def read_one(self, owner_id: str, key: str, /) -> bytes | None:
        """One record of an owner; None when it is not there."""
        found = self._open().get(_prefix(owner_id) + key.encode())
        return None if found is None else bytes(found)

    def close(self) -> None:
        """Let the folder go, after the channels and stores that stand on it. Again: nothing happens."""
        rocks, self._rocks = self._rocks, None
        if rocks is not None:
            rocks.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _open(self) -> Rdict:
        if self._rocks is None:
            raise IllegalStateError(f"the persistence manager of {self.folder} is closed; make a new one")
        return self._rocks


def _prefix(owner_id: str) -> bytes:
    """Where the owner's keys begin. The length stands first, so no name's keys can lie within another's."""
    name = owner_id.encode()
    return _NAME_LENGTH.pack(len(name)) + name


def _open(folder: Path) -> Rdict:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(2)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_max_total_wal_size(WAL_BYTES_MAX)
    options.set_keep_log_file_num(2)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Rdict(str(folder), options)
    except Exception as error:  # RocksDB knows no finer class
        raise ResourceAllocationError(
            f"folder {folder} cannot be opened for messages: {error}; close it in the process that has it, or name "
            "another folder",
            folder=str(folder),
        ) from error
