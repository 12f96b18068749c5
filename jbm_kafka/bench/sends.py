"""The senders that are measured: each sends so many messages in a fresh process and returns how long that took.

`one_by_one` waits for each message, as `produce` and `flush` do; `callback` gets the outcome later. Beside a flood,
each send of one session is timed while another session of its connection sends as fast as it is let.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from jbm_kafka.bench.measured_receivers import PATIENCE_S, Stopwatch
from jbm_kafka.bench.numbers import percentile
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import client_of, factory_of
from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.jms.base.modes import AcknowledgeMode

WARM_UP = 200
"""Sends before those that count: the client meets its brokers, the session its topic."""
FLOOD_AHEAD = 20_000
"""How many messages a flood has under way at most: it is a sender that takes care, not one that fills the memory."""
ROOM_S = 0.1
HEADERS: list[tuple[str, str | bytes | None]] = [
    ("JMSMessageID", b"ID:0123456789abcdef-00000001"),
    ("JBMBody", b"text"),
]
"""Headers as our producer writes them for a text, so that the raw ones write as much."""


class Failures:
    """The first failure of many sends, as the callback of each."""

    def __init__(self) -> None:
        self.first: object = None
        self.reported = 0

    def raw(self, error: KafkaError | None, _: Message) -> None:
        self.reported += 1
        self.first = self.first or error

    def jbm(self, _: object, error: Exception | None) -> None:
        self.reported += 1
        self.first = self.first or error

    def check(self) -> None:
        if self.first is not None:
            raise OSError(f"a send failed: {self.first}")


def send_one_by_one_raw(cluster: Cluster, topic: str, *, count: int, units: int, body_bytes: int) -> Mapping[str, Any]:
    """`produce` and `flush` for each message, with the settings of a producer that loses nothing."""
    producer, failures, value = raw_producer(cluster), Failures(), b"x" * body_bytes
    latencies_ms: list[float] = []
    watch = Stopwatch()
    for number in range(WARM_UP + count):
        if number == WARM_UP:
            watch = Stopwatch()
        begin = time.perf_counter()
        producer.produce(topic, value, f"unit-{number % units}", headers=HEADERS, on_delivery=failures.raw)
        if producer.flush(PATIENCE_S):
            raise OSError(f"produce and flush: nothing was confirmed for {PATIENCE_S:g} s")
        latencies_ms.append((time.perf_counter() - begin) * 1000)
    failures.check()
    return {**watch.read(count), **_percentiles(latencies_ms)}


def send_one_by_one(
    cluster: Cluster, topic: str, *, count: int, units: int, body_bytes: int, is_beside_flood: bool = False
) -> Mapping[str, Any]:
    """A PERSISTENT `send` for each message; beside a flood, the result also has what that sent."""
    text, latencies_ms = "x" * body_bytes, list[float]()
    with factory_of(cluster).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.AUTO)
        producer = session.create_producer(session.create_queue(topic))
        stopped, flooded = threading.Event(), list[int]()
        flood = threading.Thread(target=lambda: flooded.append(_flood(connection, topic, text, units, stopped)))
        if is_beside_flood:
            flood.start()
        try:
            for number in range(WARM_UP + count):
                if number == WARM_UP:
                    watch = Stopwatch()
                begin = time.perf_counter()
                producer.send(text, unit_of_order=f"unit-{number % units}")
                latencies_ms.append((time.perf_counter() - begin) * 1000)
            said = watch.read(count)
        finally:
            stopped.set()
            if is_beside_flood:
                flood.join()
    return {**said, **_percentiles(latencies_ms), "flooded": sum(flooded)}


def send_with_callback_raw(
    cluster: Cluster, topic: str, *, count: int, units: int, body_bytes: int
) -> Mapping[str, Any]:
    """`produce` with a callback, which `poll` runs between the sends; over when all are confirmed."""
    producer, failures, value = raw_producer(cluster), Failures(), b"x" * body_bytes
    watch = Stopwatch()
    for number in range(WARM_UP + count):
        if number == WARM_UP:
            producer.flush(PATIENCE_S)
            watch = Stopwatch()
        key = f"unit-{number % units}"
        while True:
            try:
                producer.produce(topic, value, key, headers=HEADERS, on_delivery=failures.raw)
                break
            except BufferError:
                producer.poll(ROOM_S)
        producer.poll(0)
    if producer.flush(PATIENCE_S):
        raise OSError(f"produce with a callback: not everything was confirmed in {PATIENCE_S:g} s")
    failures.check()
    return watch.read(count)


def send_with_callback(cluster: Cluster, topic: str, *, count: int, units: int, body_bytes: int) -> Mapping[str, Any]:
    """`send` with `on_completion`; over when every callback has run."""
    text, failures = "x" * body_bytes, Failures()
    with factory_of(cluster).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.AUTO)
        producer = session.create_producer(session.create_queue(topic))
        watch = Stopwatch()
        for number in range(WARM_UP + count):
            if number == WARM_UP:
                producer.flush(PATIENCE_S)
                watch = Stopwatch()
            producer.send(text, unit_of_order=f"unit-{number % units}", on_completion=failures.jbm)
        producer.flush(PATIENCE_S)
        said = watch.read(count)
    failures.check()
    return said


def send_in_groups(cluster: Cluster, topic: str, *, count: int, units: int, body_bytes: int) -> Mapping[str, Any]:
    """PERSISTENT_GROUPACK, 100 to a group; over when all are confirmed."""
    text = "x" * body_bytes
    with factory_of(cluster).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.AUTO)
        session.set_group_ack_threshold(100)
        producer = session.create_producer(session.create_queue(topic))
        producer.delivery_mode = DeliveryMode.PERSISTENT_GROUPACK
        watch = Stopwatch()
        for number in range(WARM_UP + count):
            if number == WARM_UP:
                producer.flush(PATIENCE_S)
                watch = Stopwatch()
            producer.send(text, unit_of_order=f"unit-{number % units}")
        producer.flush(PATIENCE_S)
        return watch.read(count)


def _flood(connection: Any, topic: str, text: str, units: int, stopped: threading.Event) -> int:
    """Send with callbacks until it is stopped; returns how many were sent."""
    session, failures, number = connection.create_session(AcknowledgeMode.AUTO), Failures(), 0
    producer = session.create_producer(session.create_queue(topic))
    while not stopped.is_set():
        if number - failures.reported >= FLOOD_AHEAD:
            stopped.wait(0.001)
            continue
        producer.send(text, unit_of_order=f"unit-{number % units}", on_completion=failures.jbm)
        number += 1
    producer.flush(PATIENCE_S)
    failures.check()
    return number


def raw_producer(cluster: Cluster) -> Producer:
    return Producer(
        {
            **client_of(cluster),
            "enable.idempotence": True,
            "compression.type": "lz4",
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
        }
    )


def _percentiles(latencies_ms: list[float]) -> dict[str, float]:
    counted = latencies_ms[WARM_UP:]
    return {f"p{percent}_ms": percentile(counted, percent) for percent in (50, 99)}
