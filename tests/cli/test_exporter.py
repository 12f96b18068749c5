"""`jbm-kafka exporter`: what it serves of a real Kafka, before, while and after it is away."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.devbroker import LocalBroker
from tests.metrics.test_server import get
from tests.support.waiting import wait_until

PATIENCE_S = 120.0


@pytest.mark.thorough
def test_it_serves_what_queues_hold_and_goes_on_after_kafka_was_away(
    dedicated_broker: Callable[[], LocalBroker],
) -> None:
    """LOG-3: nobody receives; and a scrape waits for no broker."""
    broker = dedicated_broker()
    command = [sys.executable, "-m", "jbm_kafka", "exporter", "--port", "0", "--bootstrap", broker.bootstrap]
    factory = ConnectionFactory(broker.bootstrap)
    with factory.create_sender() as sender, subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            while (found := re.search(r"serves /metrics at port (\d+)", line := process.stderr.readline())) is None:
                assert line, process.wait()
            port = int(found.group(1))

            def holds(count: int) -> bool:
                return f'jbm_backlog_held{{destination="orders",subscription=""}} {count}.0' in get(port, "/metrics")[1]

            for count in (1, 2):
                sender.send(Queue("orders"), "x")
                wait_until(lambda count=count: holds(count), about="a look", timeout_s=PATIENCE_S)  # type: ignore[misc]
            assert get(port, "/readyz") == (200, "ok\n")
            broker.pause()
            try:
                wait_until(lambda: get(port, "/readyz")[0] == 503, about="not ready", timeout_s=PATIENCE_S)
                assert (get(port, "/healthz")[0], holds(2)) == (200, True), "it tells what it knew"
            finally:
                broker.resume()
            sender.send(Queue("orders"), "x")
            wait_until(lambda: holds(3), about="a look after the outage", timeout_s=PATIENCE_S)
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
