"""Send-to-receive latency: a paced sender and a receiver, each in its own process; the time of sending is the body.

Beside ours stand Kafka's own producer, with the settings of one that loses nothing, and its own consumer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from jbm_kafka.bench.measured_receivers import PATIENCE_S
from jbm_kafka.bench.sends import HEADERS, Failures, raw_producer
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import client_of, factory_of, within
from jbm_kafka.jms.base.modes import AcknowledgeMode

FIRST_FETCH_S = 1.0


def send_paced(
    cluster: Cluster, queue: str, *, count: int, rate: int, units: int, body_bytes: int, namespace: str
) -> Mapping[str, Any]:
    """Send `rate` messages a second, PERSISTENT with a callback. Late ones are sent at once; `late_ms_max` tells."""
    failures = Failures()
    with factory_of(within(cluster, namespace)).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.AUTO)
        producer = session.create_producer(session.create_queue(queue))

        def send(text: str, unit: str) -> None:
            producer.send(text, unit_of_order=unit, on_completion=failures.jbm)

        begin = time.perf_counter()
        late_s = _paced(send, count, rate, units, body_bytes)
        producer.flush(PATIENCE_S)
        seconds = time.perf_counter() - begin
    failures.check()
    return {"messages": count, "seconds": seconds, "late_ms_max": late_s * 1000}


def send_paced_raw(
    cluster: Cluster, queue: str, *, count: int, rate: int, units: int, body_bytes: int
) -> Mapping[str, Any]:
    """The same by Kafka's own producer."""
    failures, producer = Failures(), raw_producer(cluster)
    producer.list_topics(queue, PATIENCE_S)

    def send(text: str, unit: str) -> None:
        producer.produce(queue, text.encode(), unit, headers=HEADERS, on_delivery=failures.raw)
        producer.poll(0)

    begin = time.perf_counter()
    late_s = _paced(send, count, rate, units, body_bytes)
    if producer.flush(PATIENCE_S):
        raise OSError(f"produce: not all was confirmed within {PATIENCE_S:g} s")
    seconds = time.perf_counter() - begin
    failures.check()
    return {"messages": count, "seconds": seconds, "late_ms_max": late_s * 1000}


def _paced(send: Callable[[str, str], None], count: int, rate: int, units: int, body_bytes: int) -> float:
    """Send so many at that rate; how late the latest was, in seconds."""
    late_s, begin = 0.0, time.perf_counter()
    for number in range(count):
        due = begin + number / rate
        while (wait_s := due - time.perf_counter()) > 0:
            time.sleep(wait_s)
        late_s = max(late_s, -wait_s)
        send(str(time.time_ns()).ljust(body_bytes), f"unit-{number % units}")
    return late_s


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


def receive_latencies_raw(cluster: Cluster, queue: str, *, count: int, skip: int, partitions: int) -> Mapping[str, Any]:
    """The same by Kafka's own consumer, which commits nothing."""
    ages_ns: list[int] = []
    consumer = Consumer({**client_of(cluster), "group.id": f"{queue}-raw", "enable.auto.commit": False})
    consumer.assign([TopicPartition(queue, partition, 0) for partition in range(partitions)])
    consumer.poll(FIRST_FETCH_S)
    print('{"ready": true}', flush=True)
    while len(ages_ns) < count:
        record = consumer.poll(PATIENCE_S)
        if record is None:
            raise OSError(f"got {len(ages_ns)} of {count} messages and then nothing for {PATIENCE_S:g} s")
        value = record.value()
        if record.error() is None and value is not None:
            ages_ns.append(time.time_ns() - int(value))
    consumer.close()
    return {"messages": count, "latencies_ms": [age / 1e6 for age in ages_ns[skip:]]}
