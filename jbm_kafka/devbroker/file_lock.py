"""A lock on a file that the kernel releases when its last holder is gone.

The local broker's process inherits the open file, so the lock lives exactly as long as the broker does. A process id
in a file can be stale, or belong to somebody else by now; this lock cannot.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jbm_kafka.devbroker.asking_again import wait_until


class FileLock:
    """One holder at a time over all processes; forgotten by the kernel with its last holder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    @property
    def fd(self) -> int:
        """The open file to hand to the process that shall hold the lock on."""
        assert self._fd is not None, self.path
        return self._fd

    def try_acquire(self) -> bool:
        """True when this process has it now, False when somebody else does."""
        assert self._fd is None, self.path
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self._fd = fd
        return True

    def wait_acquire(self, timeout_s: float) -> bool:
        """As `try_acquire`, again and again until it is had or the time is up."""
        return wait_until(self.try_acquire, timeout_s=timeout_s)

    def close(self) -> None:
        """Lets go in this process; a process that inherited the file keeps the lock."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def is_locked(path: Path) -> bool:
    """True while some process holds the lock at `path`."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Shared, so that two processes that ask at once do not take each other for the holder.
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


@contextmanager
def locked(path: Path, *, timeout_s: float) -> Iterator[None]:
    """Runs the block while holding the lock at `path`; TimeoutError when it is not had in time."""
    lock = FileLock(path)
    if not lock.wait_acquire(timeout_s):
        raise TimeoutError(f"{path} was held by another process for more than {timeout_s:g} s")
    try:
        yield
    finally:
        lock.close()
