"""The distribution's RabbitMQ with its AMQP 1.0 plugin for tests: a private node, which starts again after a kill."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from jbm_kafka.devbroker.ports import free_port
from tests.support.waiting import wait_until

REMEDY = "RabbitMQ is not installed: as root, apt-get install rabbitmq-server, or make setup"
START_S = 90.0
_HEADER = b"AMQP\x03\x01\x00\x00"
"""A client's first words, which a server repeats that speaks AMQP 1.0; its port answers earlier."""
USER, PASSWORD = "shop", "secret"


def _program() -> Path:
    """The server itself, and not the distribution's script that becomes another user.

    Raises:
        AssertionError: it is not installed; a test that needs it fails, everywhere.
    """
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    assert found, REMEDY
    return found[-1]


class RabbitServer:
    """One node, with durable queues of the names given and the user `shop`. It knows no other node."""

    def __init__(self, folder: Path, queues: Sequence[str]) -> None:
        self.port = free_port()
        self.url = f"amqp://127.0.0.1:{self.port}"
        """What clients connect to."""
        self._folder, self._program = folder, _program()
        self._process: subprocess.Popen[bytes] | None = None
        self._epmd: subprocess.Popen[bytes] | None = None
        (folder / "plugins").write_text("[rabbitmq_amqp1_0].\n", encoding="ascii")
        definitions = {
            "vhosts": [{"name": "/"}],
            "users": [{"name": USER, "password": PASSWORD, "tags": ""}],
            "permissions": [{"user": USER, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
            "queues": [
                {"name": name, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}} for name in queues
            ],
        }
        (folder / "definitions.json").write_text(json.dumps(definitions), encoding="utf-8")
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.default = 127.0.0.1:{self.port}\n"
            f"load_definitions = {folder / 'definitions.json'}\n"
            "amqp1_0.default_user = none\n"
            "disk_free_limit.absolute = 1MB\n",
            encoding="ascii",
        )
        self._epmd_port = free_port()
        self._environment = {
            **os.environ,
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"jbm-{secrets.token_hex(4)}@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none",
        }

    def start(self) -> None:
        """Return when it answers; after a kill it has its queues, and what is durable in them."""
        assert self._process is None
        if self._epmd is None:  # or the node would start one that outlives it
            self._epmd = subprocess.Popen(["epmd", "-port", str(self._epmd_port)], env=self._environment)
            wait_until(lambda: _answers(self._epmd_port), about="epmd", timeout_s=START_S)
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [str(self._program)], env=self._environment, stdout=output, stderr=output, start_new_session=True
            )
        wait_until(self._is_up, about=f"RabbitMQ of {self._folder}", timeout_s=START_S)

    def _is_up(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "output").read_text(errors="replace")[-2000:]
        return _answers(self.port, _HEADER)

    def kill(self) -> None:
        """SIGKILL of the node and of its helpers."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
            wait_until(lambda: not _answers(self.port), about="RabbitMQ is gone", timeout_s=START_S)

    def end(self) -> None:
        """Kill it, and what it found its port by."""
        self.kill()
        if self._epmd is not None:
            self._epmd.kill()
            self._epmd.wait()


def _answers(port: int, said: bytes = b"") -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as connected:
        connected.sendall(said)
        return not said or connected.recv(len(said)) == said
    return False


@contextlib.contextmanager
def rabbit_server(*queues: str) -> Iterator[RabbitServer]:
    """A running one, gone with the block."""
    with tempfile.TemporaryDirectory(prefix="jbm-rabbit-", ignore_cleanup_errors=True) as folder:
        server = RabbitServer(Path(folder), queues)
        try:
            server.start()
            yield server
        finally:
            server.end()
