"""Measures callers of handlers: a Worker with threads or coroutines, and a pool of threads written by hand.

Every handler checks that its unit's messages come in order.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jbm_kafka.bench.measured_receivers import PATIENCE_S, Stopwatch
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import factory_of, within
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.worker.message_worker import Worker

POOL_THREADS = 64
IDLE_S = 2.0
"""A process among several has no part of its own: it is over when nothing came for so long."""


class HandledCount:
    """Counts what is handled. Any thread."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._offsets: dict[str, int] = {}
        self._watch = Stopwatch()
        self._said: dict[str, Any] = {}
        self._began_s = self._ended_s = 0.0
        self.seen = 0
        self.done = threading.Event()

    def note(self, message: Message) -> None:
        """It was handled; raises OSError when a later one of its unit was before."""
        view, unit, now_s = message.kafka, str(message.unit_of_order), time.time()
        assert view is not None
        with self._lock:
            if self._offsets.get(unit, -1) >= view.offset:
                raise OSError(f"handlers: {unit} offset {view.offset} after {self._offsets[unit]}")
            self._offsets[unit] = view.offset
            if not self.seen:
                self._watch, self._began_s = Stopwatch(), now_s
            self.seen += 1
            self._ended_s = now_s
            self._said = self._watch.read(self.seen) if self.seen == self._count else {}
        if self._said:
            self.done.set()

    def read(self) -> Mapping[str, Any]:
        """When all have come; or, of a process among several, when no more do."""
        if not self.done.wait(PATIENCE_S) or not self._said:
            raise OSError(f"handlers: {self.seen} of {self._count} messages within {PATIENCE_S:g} s")
        return self._said

    def read_idle(self) -> Mapping[str, Any]:
        """When no more come: how many did, and from when to when by the wall clock."""
        seen = -1
        while seen != self.seen or not seen:
            seen = self.seen
            self.done.wait(IDLE_S)
        return {**self._watch.read(self.seen), "began_s": self._began_s, "ended_s": self._ended_s}


def handle_in_worker(
    cluster: Cluster, queue: str, *, count: int, namespace: str, concurrency: int, sleep_ms: float, is_async: bool
) -> Mapping[str, Any]:
    """A Worker's handler that waits so long."""
    tally, worker = HandledCount(count), Worker(factory_of(within(cluster, namespace)))

    def handle(message: Message) -> None:
        time.sleep(sleep_ms / 1000)
        tally.note(message)

    async def await_handled(message: Message) -> None:
        await asyncio.sleep(sleep_ms / 1000)
        tally.note(message)

    worker.handler(queue, concurrency=concurrency)(await_handled if is_async else handle)
    return _run(worker, tally.read)


def handle_in_pool(cluster: Cluster, queue: str, *, count: int, namespace: str, sleep_ms: float) -> Mapping[str, Any]:
    """Return what one writes by hand: one thread receives, 64 others work and acknowledge."""
    tally = HandledCount(count)

    def handle(message: Message) -> None:
        time.sleep(sleep_ms / 1000)
        tally.note(message)
        message.acknowledge()

    with factory_of(within(cluster, namespace)).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        consumer = session.create_consumer(session.create_queue(queue))
        with ThreadPoolExecutor(POOL_THREADS) as pool:
            for _ in range(count):
                message = consumer.receive(PATIENCE_S)
                if message is None:
                    raise OSError(f"handlers: {tally.seen} of {count} messages, then nothing for {PATIENCE_S:g} s")
                pool.submit(handle, message)
            return tally.read()


def burn_in_worker(cluster: Cluster, queue: str, *, namespace: str, burn_ms: float) -> Mapping[str, Any]:
    """One of several processes whose handlers use the processor."""
    tally, worker = HandledCount(0), Worker(factory_of(within(cluster, namespace)))

    @worker.handler(queue, concurrency=4)
    def burn(message: Message) -> None:
        end_s = time.thread_time() + burn_ms / 1000
        while time.thread_time() < end_s:
            pass
        tally.note(message)

    def read() -> Mapping[str, Any]:
        print(json.dumps({}), flush=True)  # ready: it receives
        return tally.read_idle()

    return _run(worker, read)


def _run(worker: Worker, read: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    worker.start()
    try:
        return read()
    finally:
        worker.stop()
