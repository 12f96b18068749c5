"""Apache Artemis for tests: in memory, or in a folder, from which it starts again after a kill."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from jbm_kafka.devbroker.file_lock import locked
from jbm_kafka.devbroker.folders import cache_folder
from jbm_kafka.devbroker.ports import free_port
from tests.amqp.java_clients import ARTEMIS, artemis_jars

COMPILE_S = 120.0
USER, GUEST, PASSWORD = "shop", "guest", "secret"
JAVA = ("java", "-Xmx256m", "-XX:TieredStopAtLevel=1")


class ArtemisServer:
    """One server at one port; its dead letters are what failed thrice, of `kept.#` there are none."""

    def __init__(self, folder: Path | None = None, *, certificate: Path | None = None) -> None:
        """`folder`: where it keeps what it has; without one it keeps nothing. `certificate`: with its key, of a server
        that has a folder; then it speaks TLS, and lets in USER, and GUEST to receive, by PASSWORD alone."""
        self.port = free_port()
        self.url = f"amqp{'' if certificate is None else 's'}://127.0.0.1:{self.port}"
        """What clients connect to."""
        self._arguments = [str(each) for each in (folder, certificate) if each is not None]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Return when it answers; after a kill it has what it had confirmed."""
        assert self._process is None
        command = [*JAVA, "-cp", f"{_classes()}:{artemis_jars()}/*", "Artemis", str(self.port), *self._arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def stop(self) -> None:
        """In order."""
        if self._process is not None:
            self._process.communicate()  # closes its input
            self._process = None


def _classes() -> Path:
    """The folder that has our class, compiled once: a start that compiles it takes twice as long."""
    source = ARTEMIS / "Artemis.java"
    folder = cache_folder() / f"artemis-classes-{hashlib.sha256(source.read_bytes()).hexdigest()[:8]}"
    if not folder.exists():
        with locked(folder.with_name(folder.name + ".lock"), timeout_s=COMPILE_S):
            if not folder.exists():
                partial = folder.with_name(folder.name + ".partial")
                subprocess.run(["javac", "-cp", f"{artemis_jars()}/*", "-d", partial, source], check=True)
                partial.rename(folder)
    return folder


@contextlib.contextmanager
def artemis_server(folder: Path | None = None) -> Iterator[ArtemisServer]:
    """A running one, gone with the block."""
    server = ArtemisServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()
