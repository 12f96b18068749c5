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
from jbm_kafka.cli.connect import client_of, within
from jbm_kafka.jms.xa import XAConnectionFactory, XASession


def forward_jbm(
    cluster: Cluster,
    queue: str,
    target: str,
    *,
    commits: int,
    size: int,
    sessions: int,
    namespace: str,
    is_prepared: bool = False,
) -> Mapping[str, Any]:
    """TRANSACTED sessions of one connection, each in a thread: `commits` of `size` messages each, shared by all.

    `is_prepared`: each commit is that of a branch, and takes a prepare too.
    """
    took_ms: list[float] = []
    errors: list[BaseException] = []
    barrier = threading.Barrier(sessions + 1)
    within_it = within(cluster, namespace)
    factory = XAConnectionFactory(within_it.bootstrap, kafka=within_it.kafka, namespace=within_it.namespace)
    with factory.create_xa_connection() as connection:

        def run() -> None:
            try:
                session = connection.create_xa_session()
                ending = _Branches(session) if is_prepared else session
                took_ms.extend(
                    _forward_session(
                        session, ending, queue, target, commits=commits // sessions, size=size, barrier=barrier
                    )
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


class _Branches:
    """Commits as a transaction manager does."""

    def __init__(self, session: XASession) -> None:
        self._session = session
        self._begin()

    def commit(self) -> None:
        """Commit what was received and sent, in two phases; the next branch begins."""
        self._session.tpc_prepare()
        self._session.tpc_commit()
        self._begin()

    def _begin(self) -> None:
        self._session.tpc_begin(self._session.xid(1, secrets.token_hex(8), "bench"))


def _forward_session(
    session: XASession,
    ending: _Branches | XASession,
    queue: str,
    target: str,
    *,
    commits: int,
    size: int,
    barrier: threading.Barrier,
) -> list[float]:
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
        ending.commit()
        took_ms.append((time.perf_counter() - begin) * 1000)
        if number < 0:  # the first one joins, opens and initialises
            barrier.wait(PATIENCE_S)
    session.close()  # what it has prefetched is for the others
    return took_ms[1:]


def forward_raw(
    cluster: Cluster, topic: str, target: str, *, commits: int, size: int, group: str, retry_backoff_ms: int
) -> Mapping[str, Any]:
    """Return what one would write: a group's consumer and one transactional producer, a transaction for so many
    messages.

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
