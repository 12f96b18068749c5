"""`/metrics`, `/healthz` and `/readyz`: what probes and Prometheus get."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from jbm_kafka import Queue, Worker
from jbm_kafka.client.small_http import CONNECTIONS_MAX
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.devbroker.ports import free_port
from jbm_kafka.errors import InvalidSettingError
from jbm_kafka.metrics.server import MetricsServer
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.waiting import wait_until

PATIENCE_S = 120.0
SHOP = """
from jbm_kafka import Worker

worker = Worker("nowhere:1")

@worker.handler("orders")
def ship(message):
    pass
"""


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


@pytest.fixture
def worker() -> Iterator[Worker]:
    with MemoryWorld() as world:
        worker = Worker(world.factory())
        worker.handler(Queue("orders"))(lambda message: None)
        yield worker
        worker.stop()


def test_a_worker_is_alive_before_it_is_ready(worker: Worker) -> None:
    with MetricsServer.of_connection(0, lambda: worker.connection) as server:
        assert get(server.port, "/healthz") == (200, "ok\n")
        assert get(server.port, "/readyz") == (503, "the worker is not connected: it starts, or it ends\n")
        worker.start()
        assert get(server.port, "/readyz?verbose") == (200, "ok\n")
        assert get(server.port, "/elsewhere")[0] == 404
        status, text = get(server.port, "/metrics")
        assert status == 200
        assert 'jbm_messages_held{destination="orders",subscription=""} 0.0' in text
        assert "process_cpu_seconds_total" in text
        worker.stop()
        assert get(server.port, "/readyz")[0] == 503
        assert "jbm_messages_held" not in get(server.port, "/metrics")[1]


def test_a_port_that_is_taken_is_refused_in_a_line(worker: Worker) -> None:
    with (
        MetricsServer(0, lambda: None) as server,
        pytest.raises(InvalidSettingError, match=f"port {server.port} for /metrics cannot be had"),
    ):
        MetricsServer(server.port, lambda: None)


def test_half_requests_take_no_threads_and_keep_nobody_from_asking(worker: Worker) -> None:
    """AMQP-10: 600 of them were 600 threads."""
    before = threading.active_count()
    with MetricsServer.of_connection(0, lambda: worker.connection) as server, ExitStack() as held:
        for _ in range(2 * CONNECTIONS_MAX):
            half = held.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            half.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        assert get(server.port, "/healthz") == (200, "ok\n")
        assert threading.active_count() - before <= 4
        half.sendall(b"whole\r\n\r\n")
        assert half.recv(15) == b"HTTP/1.1 200 OK", "it was not among the oldest, which made room"


def test_what_is_no_request_is_not_answered(worker: Worker) -> None:
    with MetricsServer.of_connection(0, lambda: worker.connection) as server:
        for sent in (b"x" * 20_000, b"\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
                client.sendall(sent)
                with suppress(ConnectionResetError):
                    assert client.recv(1) == b""
        assert get(server.port, "/healthz") == (200, "ok\n")


@pytest.mark.thorough
def test_a_process_is_not_ready_while_the_broker_is_silent_and_is_alive_all_the_time(
    dedicated_broker: Callable[[], LocalBroker], tmp_path: Path
) -> None:
    """Not ready within 10 s, and ready again after; each process has its own port."""
    broker, port = dedicated_broker(), free_port()
    (tmp_path / "shop.py").write_text(SHOP)
    command = ["run", "shop:worker", "--processes", "2", "--metrics-port", str(port), "--bootstrap", broker.bootstrap]
    with ExitStack() as started:
        path = os.pathsep.join([*sys.path, str(tmp_path)])
        process = subprocess.Popen(
            [sys.executable, "-m", "jbm_kafka", *command], cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}
        )
        started.callback(process.wait)
        started.callback(process.terminate)
        ports = (port, port + 1)

        def all_are(path: str, status: int) -> bool:
            return [get(each, path)[0] for each in ports] == [status] * 2

        wait_until(lambda: all_are("/readyz", 200), about="ready", timeout_s=PATIENCE_S)
        broker.pause()
        try:
            paused_s = time.monotonic()
            wait_until(lambda: all_are("/readyz", 503), about="not ready", timeout_s=PATIENCE_S)
            took_s = time.monotonic() - paused_s
            assert all_are("/healthz", 200)
            assert get(port, "/readyz")[1] == "Kafka does not answer\n"
            assert took_s < 10
        finally:
            broker.resume()
        wait_until(lambda: all_are("/readyz", 200), about="ready again", timeout_s=PATIENCE_S)
        assert "jbm_memory_budget_bytes" in get(port + 1, "/metrics")[1]
