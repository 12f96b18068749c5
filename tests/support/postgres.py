"""A PostgreSQL for one test, of Debian's package, in a folder of its own, with `PREPARE TRANSACTION` allowed.

PostgreSQL refuses to run as root, so root runs it as the user `postgres`. Nothing is written through to the disk: what
a killed process has written the kernel still has.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from jbm_kafka.devbroker.process import stands_still
from tests.support.waiting import wait_until

REMEDY = "PostgreSQL is not installed: as root, apt-get install postgresql, or make setup"
START_S = 60.0
SETTINGS = (
    *("listen_addresses=", "max_prepared_transactions=64", "fsync=off", "full_page_writes=off"),
    *("shared_buffers=16MB", "autovacuum=off"),
)


class PostgresServer:
    """One server; clients come over a socket in its folder, and so it needs no port."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self._folder, self._programs = folder, programs
        self._user: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []}
        if os.geteuid() != 0:
            self._user = {}
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql:///postgres?host={folder}&user=postgres"
        """What clients connect to."""

    def prepare(self) -> None:
        """Makes the empty database."""
        command = [str(self._programs / "initdb"), "--pgdata", str(self._folder / "data"), "--no-sync", "--no-locale"]
        command += ["--encoding=UTF8", "--auth=trust", "--username=postgres"]
        subprocess.run(command, cwd=self._folder, check=True, stdout=subprocess.DEVNULL, **self._user)

    def start(self) -> None:
        """Returns when it answers; after a kill it has recovered then."""
        command = [str(self._programs / "postgres"), "-D", str(self._folder / "data"), "-k", str(self._folder)]
        for setting in SETTINGS:
            command += ["-c", setting]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, stdout=log, stderr=log, **self._user)
        wait_until(self._answers, about=f"PostgreSQL of {self._folder}", timeout_s=START_S)

    def connect(self, *, autocommit: bool = False) -> "psycopg.Connection[tuple[Any, ...]]":
        """A client."""
        return psycopg.connect(self.url, autocommit=autocommit)

    def kill(self) -> None:
        """SIGKILL of the server and of all its processes."""
        if self._process is None:
            return
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if self._process.poll() is None else []
        self._process.kill()
        self._process.wait()
        self._process = None
        for child in map(int, children):  # they would end by themselves, some only when they have done their work
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        wait_until(lambda: all(map(stands_still, map(int, children))), about="all killed", timeout_s=START_S)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text(errors="replace")[-2000:]
        with contextlib.suppress(psycopg.OperationalError), self.connect():
            return True
        return False


def _programs() -> Path:
    """Where the newest installed version has them.

    Raises:
        AssertionError: none is installed; a test that needs it fails, everywhere.
    """
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    if on_path := shutil.which("postgres"):
        found.append(Path(on_path).resolve().parent)
    assert found, REMEDY
    return max(found, key=lambda path: (path.parent.name.isdigit(), path.parent.name.zfill(4)))


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A running one, gone with the block. Its folder is not pytest's, which only its own user may enter."""
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="jbm-postgres-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    server = PostgresServer(folder, programs)
    try:
        server.prepare()
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder)
