"""The AMQP server in a process that a test may kill: `python -m tests.amqp.server_process '{"bootstrap": ...}'`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from jbm_kafka import AddressSettings
from jbm_kafka.amqp.access import OPEN, Access, User
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.amqp.server_settings import ForwardingSettings, Listener, ServerSettings
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import embedded, in_memory

READY = "ready"
SHOWN = 4_000
"""Characters of a log that a failure shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTask:
    """What a process is told."""

    bootstrap: str
    port: int
    state_dir: str
    namespace: str
    checkpoint_interval_ms: int = 50
    dead_letters: str = "DLQ"
    partitions: int = 16
    max_attempts: int = 3
    forwards: bool = False
    """To others, and others to it."""

    def serve(self) -> None:
        """Until it is killed, or told to end."""
        config = SidecarConfig(
            namespace=self.namespace,
            session_timeout_ms=3_000,
            checkpoint_interval_ms=self.checkpoint_interval_ms,
            address_settings={
                "#": AddressSettings(
                    max_delivery_attempts=self.max_attempts,
                    dead_letter_address=self.dead_letters,
                    partitions=self.partitions,
                )
            },
        )
        installation = Installation(self.bootstrap, {}, self.state_dir, config)
        settings = ServerSettings([Listener(port=self.port)])
        if self.forwards:
            said = ForwardingSettings(f"127.0.0.1:{self.port}", "sidecars", "secret")
            sidecars = User(Verifier.of_password("secret"), {"forward": ["#"]})
            settings = replace(settings, access=Access({**OPEN.users, "sidecars": sidecars}), forwarding=said)
        provider = in_memory if self.bootstrap.startswith("memory") else embedded
        with Server(settings, lambda: provider.connect(installation)):
            print(READY, flush=True)
            signal.sigwait({signal.SIGTERM})


class ServerProcess:
    """One place of a server: whoever comes after a killed one has the same port and folder."""

    def __init__(self, task: ServerTask) -> None:
        self.task = task
        self._log = Path(task.state_dir).with_suffix(".log")
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{self.task.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Return when it listens."""
        with self._log.open("a", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.amqp.server_process", json.dumps(asdict(self.task))],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "MALLOC_PERTURB_": "165"},
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line == READY, self._log.read_text(encoding="utf-8")

    def check(self) -> None:
        """Raises AssertionError: it has ended, or logged an error of its own."""
        assert self._process is not None
        code, said = self._process.poll(), self._log.read_text(encoding="utf-8", errors="replace")
        assert code is None, f"the server ended with {code}: {said[-SHOWN:]}"
        at = max(said.find("Traceback") - SHOWN // 20, 0)
        assert "Traceback" not in said, f"the server logged an error: {said[at:][:SHOWN]}"

    def kill(self) -> None:
        """By SIGKILL."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def restart(self) -> None:
        """Kill it and start another."""
        self.kill()
        self.start()


@contextlib.contextmanager
def running(*tasks: ServerTask) -> Iterator[list[ServerProcess]]:
    """Servers, killed at the end."""
    made = [ServerProcess(task) for task in tasks]
    try:
        for each in made:
            each.start()
        yield made
    finally:
        for each in made:
            each.kill()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    ServerTask(**json.loads(sys.argv[1])).serve()
