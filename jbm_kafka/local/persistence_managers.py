"""Persistence managers keep the records of channels and stores: in memory, or in a RocksDB of their own.

What was written is whole or not there. On disk it survives a kill in the middle of a write; a machine that loses its
power may lose the newest writes, unless `sync` waits for the disk at each of them.
"""

from __future__ import annotations

import struct
import threading
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path

from rocksdict import Options, Rdict, ReadOptions, WriteBatch, WriteOptions

from jbm_kafka.contract import PersistenceManager
from jbm_kafka.core.closed_at_end import ClosedAtEnd
from jbm_kafka.core.jms_errors import IllegalStateError, ResourceAllocationError

Records = Mapping[str, bytes | None]
"""Values by key; None removes the record."""
_NAME_LENGTH = struct.Struct(">H")
WRITE_BUFFER_BYTES = 4 << 20
"""RocksDB has two of them in memory at most."""
WAL_BYTES_MAX = 16 << 20
"""Bounds the time to open after a kill."""


class JointWriter(PersistenceManager):
    """A persistence manager that can write for several owners at once."""

    is_reliable = True
    """What is written outlives the objects that wrote it."""

    def write(self, owner_id: str, records: Records, /) -> None:
        self.write_all({owner_id: records})

    @abstractmethod
    def write_all(self, records: Mapping[str, Records], /) -> None:
        """Keep the records of several owners: all of them or, when it raises or the process is killed, none."""


class MemoryPersistenceManager(JointWriter):
    """Records that outlive the objects that wrote them, but not the process: within it they are reliable."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[str, dict[str, bytes]] = {}

    def write_all(self, records: Mapping[str, Records], /) -> None:
        with self._lock:
            for owner_id, rows in records.items():
                owned = {**self._owners.get(owner_id, {}), **rows}
                self._owners[owner_id] = {key: value for key, value in owned.items() if value is not None}

    def read(self, owner_id: str, /) -> Mapping[str, bytes]:
        with self._lock:
            return dict(self._owners.get(owner_id, {}))


class RocksPersistenceManager(JointWriter, ClosedAtEnd):
    """Keeps the records of channels and stores in a folder, for one process at a time. Any thread.

    Raises:
        ResourceAllocationError: another process has the folder, or it cannot be opened.
    """

    def __init__(self, folder: str | Path, *, sync: bool = False) -> None:
        self.folder = Path(folder).absolute()
        self._write_options = WriteOptions()
        self._write_options.sync = sync
        self._rocks: Rdict | None = _open(self.folder)

    def write_all(self, records: Mapping[str, Records], /) -> None:
        batch = WriteBatch(raw_mode=True)
        for owner_id, owned in records.items():
            for name, value in owned.items():
                key = _prefix(owner_id) + name.encode()
                batch.delete(key) if value is None else batch.put(key, value)
        self._opened().write(batch, self._write_options)

    def read(self, owner_id: str, /) -> Mapping[str, bytes]:
        prefix, bounds = _prefix(owner_id), ReadOptions()
        bounds.set_iterate_upper_bound(prefix + b"\xff")  # no key in UTF-8 begins with it
        rows = self._opened().items(from_key=prefix, read_opt=bounds)
        return {bytes(key)[len(prefix) :].decode(): value for key, value in rows}  # type: ignore[arg-type]

    def close(self) -> None:
        """Let the folder go, after the channels and stores that stand on it. Again: nothing happens."""
        rocks, self._rocks = self._rocks, None
        if rocks is not None:
            rocks.close()

    def _opened(self) -> Rdict:
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
