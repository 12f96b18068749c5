"""The client of the shape `waiting`: queues with very many messages that nobody may have yet, and others beside them.

First it reads all that waits. Only then the others' messages are sent, and only when they are all there it goes on: so
a run with what waits and one without receive the same backlog under the same conditions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jbm_kafka.bench.measured_receivers import PATIENCE_S, Stopwatch
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import factory_of, within
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.receiving.waiting import CATCH_UP_S
from jbm_kafka.jms.session import Session

CHOSEN, CHOSEN_LATER, CHOSEN_BY_NOBODY = "EU", "UK", "US"
"""Regions: of a selector that is there from the beginning, of one that comes when all is read, and of no selector."""
LOOK_S = 0.05
RETURN_MS = 24 * 3_600_000
"""Longer than any run."""


def receive_beside(
    cluster: Cluster, queues: Sequence[Mapping[str, Any]], *, others: int, namespace: str
) -> Mapping[str, Any]:
    """Throughput of `others` messages on each of the queues in turn, all of which wait in this one process.

    Each queue is given by its `name`, `is_selecting`, and how many of what waits a selector chooses: `chosen`, and as
    many one that comes later; `returned`: how many wait because they are refused here. Returns the most memory that the
    process had.
    """
    with factory_of(within(cluster, namespace)).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.AUTO)
        begin = time.perf_counter()
        with connection.create_session(AcknowledgeMode.INDIVIDUAL) as refusing:
            for queue in queues:
                _refuse(refusing, queue)
        consumers = [_consumer(session, queue, CHOSEN) for queue in queues]
        for queue, consumer in zip(queues, consumers, strict=True):
            _read_up(consumer, queue["chosen"])
        absorbed_s = time.perf_counter() - begin
        memory_mb = _memory_mb("VmRSS")
        print('{"ready": true}', flush=True)
        said: list[Mapping[str, Any]] = []
        for consumer in consumers:
            sys.stdin.readline()
            said.append(_receive(consumer, others))
            print('{"ready": true}', flush=True)
        later_s = [
            _time_of_later(session, queue, consumer)
            for queue, consumer in zip(queues, consumers, strict=True)
            if queue["chosen"]
        ]
    return {
        "queues": said,
        "absorbed_seconds": absorbed_s,
        "later_seconds": later_s,
        "absorbed_mb": memory_mb,
        "most_mb": _memory_mb("VmHWM"),
    }


def _consumer(session: Session, queue: Mapping[str, Any], region: str) -> MessageConsumer:
    selector = f"region = '{region}'" if queue["is_selecting"] else None
    return session.create_consumer(session.create_queue(queue["name"]), selector)


def _refuse(session: Session, queue: Mapping[str, Any]) -> None:
    """All that waits in the queue for that comes back once, and is not to be had before the end."""
    with session.create_consumer(session.create_queue(queue["name"])) as consumer:
        for number in range(queue["returned"]):
            message = consumer.receive(PATIENCE_S)
            if message is None:
                raise OSError(f"got {number} of {queue['returned']} messages and then nothing for {PATIENCE_S:g} s")
            message.nack(RETURN_MS)


def _read_up(consumer: MessageConsumer, chosen: int) -> None:
    """Return when everything sent so far was read and the chosen were received."""
    received, looked_s = 0, CATCH_UP_S
    while looked_s >= CATCH_UP_S or received < chosen:
        begin = time.perf_counter()
        if consumer.receive(LOOK_S if received >= chosen else PATIENCE_S) is not None:
            received += 1
        elif received < chosen:
            raise OSError(f"got {received} of {chosen} chosen messages and then nothing for {PATIENCE_S:g} s")
        else:
            looked_s = time.perf_counter() - begin
    if received > chosen:
        raise OSError(f"{received - chosen} messages came that were to wait")


def _time_of_later(session: Session, queue: Mapping[str, Any], first: MessageConsumer) -> float:
    """Seconds until a selector that comes now has all it chooses of what waits."""
    first.close()
    begin = time.perf_counter()
    with _consumer(session, queue, CHOSEN_LATER) as consumer:
        _read_up(consumer, queue["chosen"])
    return time.perf_counter() - begin


def _receive(consumer: MessageConsumer, count: int) -> Mapping[str, Any]:
    watch = Stopwatch()
    for number in range(count):
        message = consumer.receive(PATIENCE_S)
        if not number:
            watch = Stopwatch()
        if message is None:
            raise OSError(f"got {number} of {count} messages and then nothing for {PATIENCE_S:g} s")
        message.body  # noqa: B018 - reading it is what is measured
    return watch.read(count)


def _memory_mb(what: str) -> float:
    """`VmRSS`: what this process has in memory now; `VmHWM`: the most it ever had."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status[what].split()[0]) / 1024
