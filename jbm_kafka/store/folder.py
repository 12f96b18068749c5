"""The state folder: its owner, a lock, and one RocksDB.

    <folder>/jbm-state.json   id of the folder, and the installation (cluster, namespace) it belongs to
    <folder>/lock             held while a process uses the folder; the process id is in it, for people
    <folder>/rocks/           the RocksDB, a cache of Kafka's topics (LOG-7)

Nothing in it is needed to keep a promise: a folder that is refused is left untouched, and the remedy may always be to
delete it. The id is the name by which a restarted sidecar fences its own past, so it must not be in two hands.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Self

from jbm_kafka.core.closed_at_end import ClosedAtEnd
from jbm_kafka.core.jms_errors import IllegalStateError, ResourceAllocationError
from jbm_kafka.devbroker.file_lock import FileLock, is_locked
from jbm_kafka.ports import Clock
from jbm_kafka.store.folder_id import ID_FILE, FolderId, read_or_create_id
from jbm_kafka.store.held import RocksHeldStore
from jbm_kafka.store.journal import RocksJournal
from jbm_kafka.store.rocks import Rocks

log = logging.getLogger(__name__)

LOCK_FILE = "lock"
ROCKS_FOLDER = "rocks"
UNREADABLE_SUFFIX = ".unreadable"
TEMPORARY_PREFIX = "jbm-state-"

_NOT_DAMAGE = (
    "Permission denied",
    "No space left",
    "Read-only file system",
    "Too many open files",
    "Cannot allocate memory",
    "Disk quota exceeded",
    "lock hold by current process",
    "Resource temporarily unavailable",
)
"""RocksDB's words for faults that are not in its files; a new folder would fail the same way."""

_in_use: weakref.WeakSet[StateFolder] = weakref.WeakSet()


class StateFolder(ClosedAtEnd):
    """An open state folder. Make it with `open`; `close` it last, after journal and held store."""

    def __init__(self, path: Path, *, lock: FileLock, folder_id: FolderId, rocks: Rocks, is_temporary: bool) -> None:
        self.path = path
        self.folder_id = folder_id.folder_id
        """Random, for the life of the folder."""
        self.namespace = folder_id.namespace
        self.is_temporary = is_temporary
        self._lock = lock
        self._rocks = rocks
        self._is_open = True
        _in_use.add(self)

    @classmethod
    def open(cls, path: Path | None, *, cluster_id: str, namespace: str = "") -> Self:
        """The folder at `path`, made if it is missing; None: a temporary one that `close` removes.

        Raises:
            IllegalStateError: it is no state folder, or another installation's, or a newer version's.
            ResourceAllocationError: another process has it, or the disk refuses.
        """
        is_temporary = path is None
        if path is None:
            remove_abandoned_folders()
            path = _new_temporary_folder()
        path = path.absolute()
        lock: FileLock | None = None
        try:
            lock = _acquire(path)
            folder_id = read_or_create_id(path, cluster_id=cluster_id, namespace=namespace)
            rocks = _open_rocks(path / ROCKS_FOLDER)
        except BaseException:
            if is_temporary:
                shutil.rmtree(path, ignore_errors=True)
            if lock is not None:
                lock.close()
            raise
        return cls(path, lock=lock, folder_id=folder_id, rocks=rocks, is_temporary=is_temporary)

    def journal(self, *, clock: Clock) -> RocksJournal:
        """The journal in this folder."""
        return RocksJournal(self._rocks, clock=clock)

    def held_store(self) -> RocksHeldStore:
        """The held store in this folder; empty."""
        return RocksHeldStore(self._rocks)

    def transactional_id(self, slot: int) -> str:
        """The transactional id of the process's producer number `slot`: the same after a restart."""
        prefix = f"{self.namespace}." if self.namespace else ""
        return f"{prefix}jbm.{self.folder_id}.{slot}"

    def close(self) -> None:
        """Let the folder go; a temporary one is removed. Again: nothing happens.

        What RocksDB has against it, on a full disk say, is logged: the folder is a cache, and whoever closes goes on.
        """
        if not self._is_open:
            return
        self._is_open = False
        _in_use.discard(self)
        try:
            self._rocks.close()
        except Exception as error:  # RocksDB has no finer class
            log.warning(
                "local state in %s was not closed in order (%s); nothing is lost, but the next start may read more of "
                "the changelogs; make room or choose another state folder",
                self.path,
                error,
            )
        if self.is_temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()

    def forget_lock(self) -> None:
        """In a forked child: let go of the inherited lock, or the folder stays locked as long as the child lives."""
        self._lock.close()


def _forget_locks() -> None:
    for folder in list(_in_use):
        folder.forget_lock()


os.register_at_fork(after_in_child=_forget_locks)


def _new_temporary_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX))
    except OSError as error:
        raise ResourceAllocationError(f"no temporary state folder can be made: {error}; set a state folder") from error


def remove_abandoned_folders() -> None:
    """Remove temporary folders whose process was killed. The id is written under the lock: without lock, no owner."""
    for path in Path(tempfile.gettempdir()).glob(f"{TEMPORARY_PREFIX}*"):
        try:
            is_ours = not path.is_symlink() and path.stat().st_uid == os.getuid() and (path / ID_FILE).is_file()
            if is_ours and not is_locked(path / LOCK_FILE):
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # somebody else removes it at the same moment
            continue


def _acquire(path: Path) -> FileLock:
    lock = FileLock(path / LOCK_FILE)
    try:
        if path.exists() and not path.is_dir():
            raise IllegalStateError(
                f"state folder {path} is a file, not a folder; name a folder, or one that is not there yet",
                path=str(path),
            )
        if path.is_dir():
            _refuse_foreign_content(path)
        else:
            # Bodies of waiting messages may lie in it. What its parents and a folder that is there let others do is the
            # user's to say.
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
        is_acquired = lock.try_acquire()
    except OSError as error:
        raise ResourceAllocationError(
            f"state folder {path} cannot be used: {error.strerror}; it needs a local disk this user can write to",
            path=str(path),
        ) from error
    if not is_acquired:
        raise ResourceAllocationError(
            f"state folder {path} is in use by process {_holder(path)}; close it there, or give each process its own "
            "state folder",
            path=str(path),
        )
    os.ftruncate(lock.fd, 0)
    os.pwrite(lock.fd, f"{os.getpid()}\n".encode(), 0)
    return lock


def _refuse_foreign_content(path: Path) -> None:
    try:
        names = {entry.name for entry in path.iterdir()}
    except OSError as error:
        raise ResourceAllocationError(
            f"state folder {path} cannot be read: {error.strerror}; it needs a local disk this user can write to",
            path=str(path),
        ) from error
    # Without an id only what a first start leaves when it is killed may be there.
    if ID_FILE not in names and names - {LOCK_FILE, f"{ID_FILE}.new"}:
        raise IllegalStateError(
            f"state folder {path} holds other files and no {ID_FILE}; name an empty folder, or one that is not there "
            "yet",
            path=str(path),
        )


def _holder(path: Path) -> str:
    try:
        return (path / LOCK_FILE).read_text().strip() or "unknown"
    except OSError:
        return "unknown"


def _open_rocks(path: Path) -> Rocks:
    """The RocksDB; one that does not open is moved aside, it is only a cache (LOG-7)."""
    try:
        return Rocks(path)
    except Exception as error:  # RocksDB knows no finer class
        if any(text in str(error) for text in _NOT_DAMAGE):
            raise _cannot_open(path, error) from error
        cause = error
    aside = path.with_name(path.name + UNREADABLE_SUFFIX)
    try:
        # Only the last one is kept: it is for whoever looks for the cause, and must not fill the disk.
        shutil.rmtree(aside, ignore_errors=True)
        if path.exists():
            path.rename(aside)
        rocks = Rocks(path)
    except Exception as error:
        raise _cannot_open(path, error) from error
    log.warning(
        "local state in %s cannot be read (%s); it was moved to %s and is rebuilt from the changelogs, nothing is "
        "lost; delete the moved folder when nobody wants to look at it",
        path,
        cause,
        aside,
    )
    return rocks


def _cannot_open(path: Path, error: Exception) -> ResourceAllocationError:
    return ResourceAllocationError(
        f"state folder {path.parent} cannot be opened: {error}; mend the cause or choose another state folder, "
        "nothing is lost",
        path=str(path.parent),
    )
