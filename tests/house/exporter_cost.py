"""Measures how much following 300 idle queues costs: `python -m tests.house.exporter_cost`, by `make exporter-cost`.

Prints the processor time of a step, as the share of a core that steps of 5 s and of 30 s take, the time of a scrape,
and the memory of this process. The queues are of a local Kafka of its own; each holds ten messages.
"""

from __future__ import annotations

import resource
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median

from prometheus_client import CollectorRegistry, generate_latest

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.following.backlog_follower import BacklogFollower
from jbm_kafka.admin.following.following import IDLE_S, LOOKED_AT_S
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.metrics.backlog_collector import BacklogCollector
from jbm_kafka.ports.clock import SystemClock

QUEUES, PARTITIONS, MESSAGES, STEPS = 300, 2, 10, 20


def _fill(bootstrap: str) -> None:
    queues = [Queue(f"q{at:03}") for at in range(QUEUES)]
    with Admin(bootstrap) as admin, ConnectionFactory(bootstrap).create_sender() as sender:
        for queue in queues:
            admin.create_queue(queue, partitions=PARTITIONS)
            for at in range(MESSAGES):
                sender.send(queue, "x", unit_of_order=str(at))


def main() -> None:
    """Make the queues, look once, and measure the steps after that."""
    with tempfile.TemporaryDirectory() as folder, LocalBroker(Path(folder)) as broker:
        _fill(broker.bootstrap)
        core = AdminCore(broker.bootstrap, None, "", 60.0)
        with closing(core), closing(BacklogFollower(core)) as follower:
            began, first = time.monotonic(), time.process_time()
            latest = follower.step()
            print(f"first look: {time.monotonic() - began:.1f} s, {time.process_time() - first:.1f} s of a processor")
            costs = []
            for _ in range(STEPS):
                before = time.process_time()
                latest = follower.step()
                costs.append(time.process_time() - before)
            registry = CollectorRegistry()
            registry.register(BacklogCollector(lambda: latest, SystemClock().now_ms))
            scrapes = []
            for _ in range(STEPS):
                began, before = time.monotonic(), time.process_time()
                generate_latest(registry)
                scrapes.append((time.monotonic() - began, time.process_time() - before))
    step_s, held = median(costs), sum(each.held for each in latest.backlogs)
    print(f"{len(latest.backlogs)} queues, {held} messages held; a step {step_s * 1_000:.0f} ms of a processor:")
    for every_s in (LOOKED_AT_S, IDLE_S):
        print(f"  steps of {every_s:g} s: {100 * step_s / every_s:.1f} % of a core")
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    waited_s, took_s = (median(each) for each in zip(*scrapes, strict=True))
    print(f"a scrape {waited_s * 1_000:.0f} ms, {took_s * 1_000:.0f} of a processor; highest memory {memory_mb:.0f} MB")


if __name__ == "__main__":
    main()
