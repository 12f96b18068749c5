"""The record of a load, in a file of its job's folder: written before and after each batch. No Spark needed."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import quote

from jbm_kafka.devbroker.file_lock import FileLock
from jbm_spark.errors import SparkJobError

_HAND_OVER_S = 1.0


@dataclass(slots=True)
class LoadRecord:
    """One load of certain files to one queue."""

    job: str
    digest: str
    """The digest of the files' contents, their format and order."""
    rejected: int = 0
    targets: dict[str, int] = field(default_factory=dict)
    """Rows to be sent by partition, the one that the places were counted in."""
    below: int = 0
    """All rows below this place are sent."""
    begun: int = 0
    """The rows from `below` up to this place may be, too: a batch was begun. The same as `below`: none was."""
    offsets: dict[str, int] = field(default_factory=dict)
    """Where the queue's partitions ended when it was begun."""

    @property
    def total(self) -> int:
        """Rows to be sent."""
        return sum(self.targets.values())

    @property
    def sent(self) -> int:
        """Rows that are sent for certain."""
        return sum(min(count, self.below) for count in self.targets.values())

    @property
    def end(self) -> int:
        """One past the last place."""
        return max(self.targets.values(), default=0)


class JobFolder:
    """The folder of one load. One process at a time has it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "load.json"
        self.rows = folder / "rows"
        """The staged rows; there until all are sent."""

    def read(self) -> LoadRecord | None:
        """None: nothing was sent."""
        try:
            return LoadRecord(**json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, OSError) as error:
            raise SparkJobError(f"{self._path} cannot be read ({error}): move it away to begin the load anew") from None

    def write(self, record: LoadRecord) -> None:
        """Returns when it is on disk."""
        new = self._path.with_suffix(".new")
        with new.open("w", encoding="utf-8") as stream:
            json.dump(asdict(record), stream)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(self._path)

    @property
    def has_rows(self) -> bool:
        """Return True if any were staged."""
        return any(self.rows.rglob("*.parquet"))

    def drop_rows(self) -> None:
        """Take the staged rows away."""
        shutil.rmtree(self.rows, ignore_errors=True)


@contextmanager
def job_folder(state: Path, *, place: Mapping[str, str], job: str) -> Iterator[JobFolder]:
    """The folder of the job below `state`, locked; `place` tells which queue of which cluster.

    Raises:
        SparkJobError: another process has it, or it cannot be written.
    """
    folder = state / "-".join(quote(part, safe="") for part in place.values()) / quote(job, safe="")[:200]
    lock = FileLock(folder / "lock")
    try:
        if not lock.wait_acquire(_HAND_OVER_S):
            raise SparkJobError(f"another process runs the job {job!r} now: wait for it, or name another --job")
    except OSError as error:
        raise SparkJobError(f"{folder}: {error.strerror or error}; name a folder that can be written with --state"
                            ) from None  # fmt: skip
    try:
        yield JobFolder(folder)
    finally:
        lock.close()


def default_state() -> Path:
    """Where the records of loads are kept when nobody names a folder."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path.home() / ".local" / "state") / "jbm-kafka" / "loads"
