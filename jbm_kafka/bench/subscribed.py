"""The client of the shape `subscriptions`: one process with so many durable subscriptions of one topic."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jbm_kafka.bench.load import fill, spread_units
from jbm_kafka.bench.measured_receivers import PATIENCE_S, Stopwatch
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import factory_of, within
from jbm_kafka.core.destination import Topic
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.connection import Connection


class Arrivals:
    """Counts what the listeners get; they run in one thread, and another waits."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._count = 0
        self._troubles: list[str] = []

    def note_trouble(self, error: Exception) -> None:
        """The exception listener's: a listener that gets nothing more tells nobody else why."""
        self._troubles.append(f"{type(error).__name__}: {error}")

    def note(self, _message: object) -> None:
        """The listeners' own."""
        with self._lock:
            self._count += 1
            self._lock.notify_all()

    def wait(self, count: int) -> None:
        """Return when so many have come.

        Raises:
            OSError: nothing comes any more.
        """
        with self._lock:
            while (before := self._count) < count:
                if not self._lock.wait_for(lambda seen=before: self._count > seen, PATIENCE_S):  # type: ignore[misc]
                    troubles = "; ".join(dict.fromkeys(self._troubles)) or "no trouble was reported"
                    raise OSError(f"got {before} of {count} copies and then nothing for {PATIENCE_S:g} s: {troubles}")


def receive_subscribed(
    cluster: Cluster, topic: str, *, subscriptions: int, count: int, namespace: str, partitions: int, load: Any
) -> Mapping[str, Any]:
    """All of them are made, receive `count` messages each, are closed, and opened again.

    Tells messages and seconds of all copies; memory and threads with the subscriptions and without; how long it took
    to make them, and from connecting again until each has a message sent meanwhile.
    """
    factory = factory_of(within(cluster, namespace), client_id=namespace)
    with factory.create_connection() as connection:
        connection.stop()
        idle = _memory_and_threads()
        begin_s, arrivals = time.perf_counter(), Arrivals()
        _subscribe(connection, topic, subscriptions, arrivals)
        made_s = time.perf_counter() - begin_s
        fill(cluster, topic, spread_units(count, units=load["units"]), partitions=partitions, body_bytes=load["bytes"])
        watch = Stopwatch()
        connection.start()
        arrivals.wait(count * subscriptions)
        said = watch.read(count * subscriptions)
        busy = _memory_and_threads()
    fill(cluster, topic, iter(["again"]), partitions=partitions, body_bytes=load["bytes"])
    begin_s, arrivals = time.perf_counter(), Arrivals()
    with factory.create_connection() as connection:
        connection.stop()  # on a started one each consumer waits until it has joined, one after the other
        _subscribe(connection, topic, subscriptions, arrivals)
        connection.start()
        arrivals.wait(subscriptions)
        again_s = time.perf_counter() - begin_s
    return {**said, "made_s": made_s, "again_s": again_s, "idle": idle, "busy": busy}


def _subscribe(connection: Connection, topic: str, subscriptions: int, arrivals: Arrivals) -> None:
    connection.exception_listener = arrivals.note_trouble
    session = connection.create_session(AcknowledgeMode.AUTO)
    for name in _names(subscriptions):
        session.create_durable_consumer(Topic(topic), name).set_listener(arrivals.note)


def _names(subscriptions: int) -> Iterable[str]:
    return (f"s{number}" for number in range(subscriptions))


def _memory_and_threads() -> Mapping[str, float]:
    """Return the memory, in MB, and the threads of this process."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {"mb": int(status["VmRSS"].split()[0]) / 1024, "threads": int(status["Threads"])}
