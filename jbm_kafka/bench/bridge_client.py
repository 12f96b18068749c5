"""The measured clients of the shape `bridge`: a bridge within a cluster, and sends into a store."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Mapping
from typing import Any

from jbm_kafka.bench.measured_receivers import PATIENCE_S, Stopwatch
from jbm_kafka.bridge import Bridge, BridgeEnd
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import factory_of, within
from jbm_kafka.core.destination import Queue
from jbm_kafka.devbroker.ports import free_port
from jbm_kafka.jms.factory import ConnectionFactory

LOOK_S = 0.01


def bridge_within(cluster: Cluster, queue: str, target: str, *, count: int, namespace: str) -> Mapping[str, Any]:
    """Take so many messages to another queue of the cluster; from the first commit to the last."""
    ends = (BridgeEnd(factory_of(within(cluster, namespace)), name) for name in (queue, target))
    bridge = Bridge("bench", *ends)
    bridge.start()
    try:
        first = _wait_arrived(bridge, 1)
        watch = Stopwatch()
        return watch.read(_wait_arrived(bridge, count) - first)
    finally:
        bridge.stop()


def _wait_arrived(bridge: Bridge, count: int) -> int:
    pause, deadline_s = threading.Event(), time.monotonic() + PATIENCE_S
    while (arrived := bridge.statistics().arrived) < count:
        if time.monotonic() > deadline_s:
            raise OSError(f"bridge: {arrived} of {count} messages after {PATIENCE_S:g} s: {bridge.trouble}")
        pause.wait(LOOK_S)
    return arrived


def send_into_store(_: Cluster, *, count: int, units: int, body_bytes: int, fsync: bool) -> Mapping[str, Any]:
    """Send so many messages one by one into a store while nobody answers."""
    body = "x" * body_bytes
    with tempfile.TemporaryDirectory(prefix="jbm-bench-store-") as folder:
        factory = ConnectionFactory(f"127.0.0.1:{free_port()}", store_and_forward=folder, store_fsync=fsync)
        with factory.create_connection() as connection:
            producer = connection.create_session().create_producer(Queue("stored"))
            producer.send(body, unit_of_order="unit-0")  # the first one opens and chooses
            watch = Stopwatch()
            for number in range(count):
                producer.send(body, unit_of_order=f"unit-{number % units}")
            return watch.read(count)
