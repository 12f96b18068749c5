"""Serves a console by HTTP, on a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from jbm_kafka.configuration.pem_files import PemFile, server_tls
from jbm_kafka.console.frame.console import Console
from jbm_kafka.core.closed_at_end import ClosedAtEnd
from jbm_kafka.core.jms_errors import ConnectionFailedError
from jbm_kafka.core.wrong_values import wrong_value

log = logging.getLogger(__name__)

CONNECTIONS_MAX = 1_000
KEEP_ALIVE_S = 15
END_S = 2
"""Requests that run when it is closed have so long."""


@dataclass(frozen=True, slots=True)
class ConsoleAddress:
    """Where it listens, and by which certificate."""

    host: str = "127.0.0.1"
    port: int = 8161
    certificate: str = ""
    """A PEM file; empty: without TLS."""
    key: str = ""
    """Empty: the certificate's file has it."""
    plain_without_tls: bool = False
    """A proxy has the TLS, or passwords and cookies may be read on their way."""

    @classmethod
    def of_text(cls, text: str, name: str = "listen") -> ConsoleAddress:
        """`127.0.0.1:8161`, `[::1]:8161`. Raises InvalidSettingError."""
        host, _, port = text.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65_535:
            raise wrong_value(name, text, "it is HOST:PORT, as in 127.0.0.1:8161")
        return cls(host.strip("[]"), int(port))

    @property
    def is_loopback(self) -> bool:
        """Only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def tls(self) -> ssl.SSLContext | None:
        """Returns the TLS of its certificate; None: it has none.

        Raises:
            InvalidSettingError: the certificate, or its key, cannot be used.
        """
        if not self.certificate:
            if self.key:
                raise wrong_value("console.key", self.key, "it is of no certificate; name that as console.certificate")
            return None
        key = PemFile("console.key", self.key, Path(self.key)) if self.key else None
        return server_tls(PemFile("console.certificate", self.certificate, Path(self.certificate)), key)

    def check(self, *, has_login: bool) -> None:
        """Return if a console may listen there.

        Raises:
            InvalidSettingError: others would come in without saying who they are, or say it so that all can hear.
        """
        if self.is_loopback:
            return
        if not has_login:
            rule = (
                "without users it listens on 127.0.0.1 alone; name a file with users whose rights are look or operate"
            )
            raise wrong_value("listen", self.host, rule)
        if not self.certificate and not self.plain_without_tls:
            rule = "give console.certificate, or console.plain_without_tls = true where a proxy has the TLS"
            raise wrong_value("listen", self.host, f"passwords would go unencrypted; {rule}")


class ConsoleServer(ClosedAtEnd):
    """A console that is served until this is closed; a context manager. Closing it closes the console."""

    def __init__(self, application: Starlette, address: ConsoleAddress) -> None:
        """
        Raises:
            ConnectionFailedError: it cannot listen there.
            InvalidSettingError: it may not, or the certificate cannot be used.
        """
        self.console: Console = application.state.console
        address.check(has_login=self.console.settings.has_login)
        tls = address.tls()
        config = uvicorn.Config(
            application,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # who asks is whoever has the other end; the guard knows the trusted proxy
            ws="none",
            lifespan="off",
            limit_concurrency=CONNECTIONS_MAX,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=END_S,
        )
        config.load()
        config.ssl = tls  # uvicorn would ask whoever sits at the terminal for the password of a key
        self._server = uvicorn.Server(config)
        self._socket = _listening(address)
        self.port: int = self._socket.getsockname()[1]
        self.url = f"{'http' if tls is None else 'https'}://{_shown(address.host)}:{self.port}/"
        self._thread = threading.Thread(target=self._run, name="jbm-console", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more, and let the cluster go. A second call does nothing."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
        self.console.close()

    def _run(self) -> None:
        asyncio.run(self._server.serve([self._socket]))


def _listening(address: ConsoleAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address.host, address.port))
        made.listen(128)
    except OSError as error:
        made.close()
        text = f"cannot listen at {address.host}:{address.port}: {error.strerror or error}; name another with listen"
        raise ConnectionFailedError(text) from None
    return made


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
