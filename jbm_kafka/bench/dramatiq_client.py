"""Dramatiq over Redis, which a user might take instead, if both are installed. It keeps no order of units.

Its broker is a Redis of its own in memory, so nothing of it survives a crash; ours is on disk.
"""

from __future__ import annotations

import importlib.util
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from jbm_kafka.bench.measured_receivers import PATIENCE_S, Stopwatch
from jbm_kafka.cli.cluster_settings import Cluster

THREADS = 64
START_S = 20.0


def is_installed() -> bool:
    """Return True if there is something to measure."""
    found = all(importlib.util.find_spec(name) is not None for name in ("dramatiq", "redis"))
    return found and shutil.which("redis-server") is not None


def handle_in_dramatiq(cluster: Cluster, *, count: int, sleep_ms: float, body_bytes: int) -> Mapping[str, Any]:
    """An actor that waits so long, for messages that wait already when its worker starts."""
    dramatiq: Any = import_module("dramatiq")
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        server = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL,
        )
        try:
            broker = import_module("dramatiq.brokers.redis").RedisBroker(host="127.0.0.1", port=port)
            _wait_for(broker.client)
            dramatiq.set_broker(broker)
            seen, lock, done, watches = [0], threading.Lock(), threading.Event(), list[Stopwatch]()

            def handle(text: str) -> None:
                time.sleep(sleep_ms / 1000)
                with lock:
                    if not watches:
                        watches.append(Stopwatch())
                    seen[0] += 1
                if seen[0] == count:
                    done.set()

            actor = dramatiq.actor(handle)
            for _ in range(count):
                actor.send("x" * body_bytes)
            worker = dramatiq.Worker(broker, worker_threads=THREADS)
            worker.start()
            if not done.wait(PATIENCE_S):
                raise OSError(f"dramatiq: {seen[0]} of {count} messages within {PATIENCE_S:g} s")
            said = watches[0].read(count)
            worker.stop()
            return said
        finally:
            server.kill()
            server.wait()


def _wait_for(client: Any) -> None:
    end_s = time.monotonic() + START_S
    while True:
        try:
            client.ping()
            return
        except Exception:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.05)
