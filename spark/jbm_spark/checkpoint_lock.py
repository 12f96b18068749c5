"""One query at a time on a checkpoint: two would send different messages under the same ids.

The lock is a file in the folder, held by the process. The kernel lets it go with the process, however that ends.
"""

import os
import threading
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from jbm_kafka.devbroker.file_lock import FileLock
from jbm_spark.errors import CheckpointError

LOCK_FILE = "jbm.lock"
_HAND_OVER_S = 1.0
"""A query ends a moment before its lock is let go."""
_ENDING_S = 60.0
"""The same for a query of this process, of which we know that it has ended."""

_queries: dict[Path, StreamingQuery] = {}
"""The queries of this process that have a folder's lock, by folder."""


class CheckpointLock:
    """Held from `acquire` on; let go when the query ends, or with `close`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = FileLock(folder / LOCK_FILE)

    def acquire(self) -> None:
        """Have the folder, which is made if it is missing.

        Raises:
            CheckpointError: another query has it, or it cannot be written.
        """
        query = _queries.get(self._folder)
        is_ending = query is not None and _has_ended(query)
        try:
            is_ours = self._lock.wait_acquire(_ENDING_S if is_ending else _HAND_OVER_S)
        except OSError as error:
            raise CheckpointError(
                f"checkpoint {self._folder}: {error.strerror}; name a folder that this process can write to"
            ) from None
        if not is_ours:
            raise CheckpointError(
                f"checkpoint {self._folder} is in use by a query of {self._holder()}: stop that one first, or give "
                "this one a checkpoint of its own"
            )
        os.ftruncate(self._lock.fd, 0)
        os.pwrite(self._lock.fd, f"{os.getpid()}\n".encode(), 0)

    def _holder(self) -> str:
        """The process that wrote itself into the file, in words for people."""
        pid = (self._folder / LOCK_FILE).read_text(encoding="utf-8", errors="replace").strip()
        return "this process" if pid == str(os.getpid()) else f"process {pid}" if pid.isdigit() else "another process"

    def close_with(self, query: StreamingQuery) -> None:
        """Let go when the query has ended."""
        _queries[self._folder] = query
        # Spark's own listeners would do, but are called late, and each of them for all queries.
        threading.Thread(target=self._close_after, args=(query,), name="jbm-checkpoint", daemon=True).start()

    def _close_after(self, query: StreamingQuery) -> None:
        try:
            query.awaitTermination()
        except (PySparkException, Py4JError, OSError):
            pass  # whoever waits for the query hears it; without a JVM it has ended too
        finally:
            _queries.pop(self._folder, None)
            self.close()

    def close(self) -> None:
        """Let go."""
        self._lock.close()


def _has_ended(query: StreamingQuery) -> bool:
    try:
        return not query.isActive
    except (Py4JError, OSError):  # with its JVM
        return True


def local_folder(checkpoint: str, *, plain_is_local: bool) -> Path | None:
    """The folder on this machine that Spark means; None: it is on another file system, where we have no lock.

    `plain_is_local`: what a path without a scheme is.
    """
    scheme, colon, path = checkpoint.partition(":")
    if not colon or "/" in scheme:
        return Path(checkpoint).absolute() if plain_is_local else None
    if scheme.lower() != "file":
        return None
    return Path("/" + path.removeprefix("//").partition("/")[2] if path.startswith("//") else path).absolute()


def plain_is_local(spark: SparkSession) -> bool:
    """Return True if a path without a scheme is on this machine for the session."""
    try:
        name = spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS")
    except (PySparkException, AttributeError):  # Spark Connect: its driver is elsewhere
        return False
    return str(name).startswith("file:")


def check_file_system(spark: SparkSession, checkpoint: str) -> None:
    """Raise unless the session can read and write there. Nobody is asked if the place itself is there.

    Raises:
        CheckpointError: it has not, such as for `s3a:` without its jar.
    """
    scheme = checkpoint.partition(":")[0]
    try:
        context: Any = spark.sparkContext
        configuration = context._jsc.hadoopConfiguration()
        context._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration)
    except Py4JError as error:
        if not any(name in str(error) for name in ("ClassNotFoundException", "UnsupportedFileSystemException")):
            return  # Spark raises it when it looks
        raise CheckpointError(
            f"checkpoint {checkpoint}: no file system for {scheme}: in this session; make the session with its jar (the"
            " setting spark.jars.packages, as in 'org.apache.hadoop:hadoop-aws:3.5.0'), or name a folder here"
        ) from None
    except (PySparkException, AttributeError):  # Spark Connect: its driver is elsewhere
        return
