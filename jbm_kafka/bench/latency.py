"""Send-to-receive latency: a paced sender and a receiver, each in its own process; the time of sending is the body."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from jbm_kafka.bench.receivers import PATIENCE_S
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import factory_of, within
from jbm_kafka.jms.messages import Message
from jbm_kafka.jms.modes import AcknowledgeMode


def send_paced(
    cluster: Cluster, queue: str, *, count: int, rate: int, units: int, body_bytes: int, namespace: str
) -> Mapping[str, Any]:
    """Send `rate` messages a second, PERSISTENT with a callback. Late ones are sent at once; `late_ms_max` tells."""
    refused: list[Exception] = []

    def confirmed(_: Message, error: Exception | None) -> None:
        if error is not None:
            refused.append(error)

    late_s = 0.0
    with factory_of(within(cluster, namespace)).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.AUTO)
        producer = session.create_producer(session.create_queue(queue))
        begin = time.perf_counter()
        for number in range(count):
            due = begin + number / rate
            while (wait_s := due - time.perf_counter()) > 0:
                time.sleep(wait_s)
            late_s = max(late_s, -wait_s)
            text = str(time.time_ns()).ljust(body_bytes)
            producer.send(text, unit_of_order=f"unit-{number % units}", on_completion=confirmed)
        producer.flush(PATIENCE_S)
        seconds = time.perf_counter() - begin
    if refused:
        raise refused[0]
    return {"messages": count, "seconds": seconds, "late_ms_max": late_s * 1000}


def receive_latencies(cluster: Cluster, queue: str, *, count: int, skip: int, namespace: str) -> Mapping[str, Any]:
    """Receive `count` messages; how old each was in milliseconds, without the first `skip`."""
    ages_ns: list[int] = []
    with factory_of(within(cluster, namespace)).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.AUTO)
        consumer = session.create_consumer(session.create_queue(queue))
        print('{"ready": true}', flush=True)
        for number in range(count):
            text = consumer.receive_body(str, PATIENCE_S)
            if text is None:
                raise OSError(f"got {number} of {count} messages and then nothing for {PATIENCE_S:g} s")
            ages_ns.append(time.time_ns() - int(text))
    return {"messages": count, "latencies_ms": [age / 1e6 for age in ages_ns[skip:]]}
