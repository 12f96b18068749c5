"""Forwarding: receive from one queue, send to another and commit, beside the same loop written over Kafka's client."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from jbm_kafka.bench.measured_receivers import PATIENCE_S, Stopwatch
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import client_of, factory_of, within
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.modes import AcknowledgeMode


def forward_jbm(
    cluster: Cluster, queue: str, target: str, *, commits: int, size: int, sessions: int, namespace: str
) -> Mapping[str, Any]:
    """TRANSACTED sessions of one connection, each in a thread: `commits` of `size` messages each, shared by all."""
    took_ms: list[float] = []
    errors: list[BaseException] = []
    barrier = threading.Barrier(sessions + 1)
    with factory_of(within(cluster, namespace)).create_connection() as connection:

        def run() -> None:
            try:
                took_ms.extend(
                    _forward_session(connection, queue, target, commits=commits // sessions, size=size, barrier=barrier)
                )
            except BaseException as error:  # the main thread raises it
                errors.append(error)
                barrier.abort()

        threads = [threading.Thread(target=run) for _ in range(sessions)]
        for thread in threads:
            thread.start()
        barrier.wait(PATIENCE_S)
        watch = Stopwatch()
        for thread in threads:
            thread.join()
        said = watch.read(commits // sessions * sessions * size)
    if errors:
        raise errors[0]
    return {**said, "commit_ms": took_ms}


def _forward_session(
    connection: Connection, queue: str, target: str, *, commits: int, size: int, barrier: threading.Barrier
) -> list[float]:
    session = connection.create_session(AcknowledgeMode.TRANSACTED)
    consumer = session.create_consumer(session.create_queue(queue))
    producer = session.create_producer(session.create_queue(target))
    took_ms = []
    for number in range(-1, commits):
        for _ in range(size):
            message = consumer.receive(PATIENCE_S)
            if message is None:
                raise OSError(f"forward: {number} of {commits} commits and then nothing for {PATIENCE_S:g} s")
            producer.send(str(message.body))
        begin = time.perf_counter()
        session.commit()
        took_ms.append((time.perf_counter() - begin) * 1000)
        if number < 0:  # the first one joins, opens and initialises
            barrier.wait(PATIENCE_S)
    session.close()  # what it has prefetched is for the others
    return took_ms[1:]


def forward_raw(
    cluster: Cluster, topic: str, target: str, *, commits: int, size: int, group: str, retry_backoff_ms: int
) -> Mapping[str, Any]:
    """What one would write: a group's consumer and one transactional producer, a transaction for so many messages.

    `retry_backoff_ms`: 0 for librdkafka's default. By that a step that is refused waits 100 ms before it is tried
    again, and one is whenever the marks of the producer's last transaction are not written yet.
    """
    consumer = Consumer(
        {
            **client_of(cluster),
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    producer = Producer(
        {
            **client_of(cluster),
            "transactional.id": f"bench-{secrets.token_hex(8)}",
            "compression.type": "lz4",
            **({"retry.backoff.ms": retry_backoff_ms} if retry_backoff_ms else {}),
        }
    )
    producer.init_transactions(PATIENCE_S)
    took_ms: list[float] = []
    watch = Stopwatch()
    for number in range(-1, commits):
        records = consumer.consume(size, PATIENCE_S)
        if len(records) < size:
            raise OSError(f"forward: {number} of {commits} commits and then nothing for {PATIENCE_S:g} s")
        producer.begin_transaction()
        positions: dict[int, int] = {}
        for record in records:
            producer.produce(target, record.value(), record.key(), headers=record.headers())
            positions[record.partition() or 0] = (record.offset() or 0) + 1
        begin = time.perf_counter()
        places = [TopicPartition(topic, partition, position) for partition, position in positions.items()]
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), PATIENCE_S)
        producer.commit_transaction(PATIENCE_S)
        took_ms.append((time.perf_counter() - begin) * 1000)
        if number < 0:
            watch = Stopwatch()
    said = watch.read(commits * size)
    consumer.close()
    return {**said, "commit_ms": took_ms[1:]}
