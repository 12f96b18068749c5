"""One AMQP server, on a broker, with very many clients at once."""

from __future__ import annotations

import re
import secrets
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from proton import Connection, Message, Transport
from proton.utils import BlockingConnection

from tests.amqp.server_process import ServerProcess, running
from tests.amqp.test_killed_servers import tasks

EACH = 10
TIMEOUT_S = 120
THREADS_MAX = 100
RESIDENT_KB_MAX = 400 * 1024


def open_frames() -> bytes:
    """What a client sends to open a connection."""
    engine, connection = Transport(), Connection()
    connection.container = "ID:idle"
    connection.open()
    engine.bind(connection)
    return bytes(engine.peek(engine.pending()) or b"")


def status(server: ServerProcess, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text(encoding="ascii"))
    assert found, name
    return int(found.group(1))


def work(client: Any, queue: str) -> set[str]:
    """Send some, and take as many of whatever comes."""
    sender, receiver = client.create_sender(queue), client.create_receiver(queue, credit=1)
    got = set()
    for _ in range(EACH):
        sender.send(Message(id=secrets.token_hex(8), body="x" * 1_000, durable=True))
        got.add(str(receiver.receive().id))
        receiver.accept()
    receiver.close()
    return got


@pytest.mark.thorough
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("idling", "working"), [(500, 50), pytest.param(2_000, 200, marks=pytest.mark.slow)])
def test_very_many_idle_and_many_working(bootstrap: str, tmp_path: Path, idling: int, working: int) -> None:
    """AMQP-10. More of them are slow: on a busy machine they were silent for so long that the server closed them."""
    (task,) = tasks(1, bootstrap, tmp_path)
    with running(task) as (server,), ThreadPoolExecutor(working) as threads:
        queue = f"many{secrets.token_hex(4)}"
        # First, for these select, and so need small file numbers.
        busy = [BlockingConnection(server.url, timeout=TIMEOUT_S) for _ in range(working)]
        idle = [socket.create_connection(("127.0.0.1", server.task.port), timeout=TIMEOUT_S) for _ in range(idling)]
        for each in idle:
            each.sendall(open_frames())
        for each in idle:
            assert each.recv(8) == b"AMQP\x00\x01\x00\x00"
            assert each.recv(1)  # its open
        got = list(threads.map(lambda client: work(client, queue), busy))
        assert len(set().union(*got)) == sum(map(len, got)) == working * EACH
        print("threads", status(server, "Threads"), "resident KB", status(server, "VmHWM"))
        assert status(server, "Threads") <= THREADS_MAX
        assert status(server, "VmHWM") <= RESIDENT_KB_MAX
        for each in idle:
            each.close()
        for client in busy:
            client.close()
