"""`/metrics`, `/healthz` and `/readyz` of a process that runs a worker, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.statistics import Health
from jbm_kafka.metrics.collector import JbmCollector, Watched

READY_TIMEOUT_S = 5.0
"""How long Kafka has to answer a question of readiness."""
NOT_CONNECTED = Health(True, False, ("the worker is not connected: it starts, or it ends",))

ConnectionOf = Callable[[], Watched | None]
Response = tuple[int, str, bytes]
"""Status, type of the content, content."""


class MetricsServer:
    """Serves until it is closed; a context manager. The metrics are those of prometheus-client's own registry, too."""

    def __init__(self, port: int, connection_of: ConnectionOf) -> None:
        """Listens on every address of the machine. `connection_of`: what is watched now; None: nothing yet.

        Raises:
            InvalidSettingError: the port cannot be had.
        """
        try:
            self._server = _Server(("", port), connection_of)
        except OSError as error:
            text = f"port {port} for /metrics cannot be had: {error.strerror}; choose another"
            raise InvalidSettingError(text, setting="metrics_port", value=port) from None
        self._collector = _CurrentCollector(connection_of)
        REGISTRY.register(self._collector)
        self._thread = threading.Thread(target=self._server.serve_forever, name="jbm-metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        REGISTRY.unregister(self._collector)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _CurrentCollector(Collector):
    def __init__(self, connection_of: ConnectionOf) -> None:
        self._connection_of = connection_of

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        connection = self._connection_of()
        if connection is not None:
            yield from JbmCollector(connection).collect()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], connection_of: ConnectionOf) -> None:
        super().__init__(address, _Request)
        self._connection_of = connection_of

    def response(self, path: str) -> Response:
        """What is answered to a question for the path."""
        if path == "/metrics":
            return 200, CONTENT_TYPE_LATEST, generate_latest()
        if path not in ("/healthz", "/readyz"):
            return 404, "text/plain", b"there are /metrics, /healthz and /readyz\n"
        connection, asks_if_ready = self._connection_of(), path == "/readyz"
        # Whether it is alive must not wait for Kafka: a probe's time is short, and a process is killed by it.
        health = NOT_CONNECTED if connection is None else connection.health(READY_TIMEOUT_S if asks_if_ready else None)
        is_well = health.is_ready if asks_if_ready else health.is_alive
        text = "ok" if is_well else "\n".join(health.reasons)
        return 200 if is_well else 503, "text/plain; charset=utf-8", f"{text}\n".encode()


class _Request(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        status, kind, content = self.server.response(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server calls it
        """A line for each probe is none that anybody reads."""
