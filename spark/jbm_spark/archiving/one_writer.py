"""A folder that one job writes to at a time. No Spark needed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jbm_kafka.devbroker.file_lock import FileLock


@contextmanager
def one_writer(lock_file: Path, *, what: str, kind: type[Exception]) -> Iterator[None]:
    """Within the block no other job writes to the lock's folder, which is made if it is missing.

    Raises:
        Exception: one of this `kind`: the folder, which is `what`, cannot be written, or another job has it.
    """
    folder, lock = lock_file.parent, FileLock(lock_file)
    try:
        is_ours = lock.try_acquire()
    except OSError as error:
        raise kind(not_writable(f"{what} {folder}", error)) from None
    if not is_ours:
        raise kind(f"{what} {folder} is being written by another job: wait for its end, or stop it")
    try:
        yield
    finally:
        lock.close()


def not_writable(what: str, error: OSError) -> str:
    """The text for a folder or a file that the system refuses."""
    return f"{what}: {error.strerror or error}; name a folder that this process can write to"
