"""One unit held by a delay with many messages behind it: what do the others pay?

First the receiver gives the unit's head back with a delay and reads everything behind it, which then waits. Only then
the others' messages are sent, and only when they are all there the receiver goes on: so both runs, with and without
the held unit, receive the same backlog under the same conditions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Any

from jbm_kafka.bench.load import HELD_UNIT
from jbm_kafka.bench.measured_receivers import PATIENCE_S, Stopwatch
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import factory_of, within
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.receiving.waiting import CATCH_UP_S

LOOK_S = 0.05


def receive_others(
    cluster: Cluster,
    queue: str,
    *,
    others: int,
    delay_ms: int,
    is_held: bool,
    namespace: str,
    checkpoint_interval_ms: int = 50,
) -> Mapping[str, Any]:
    """Throughput of `others` messages while one unit is held, or without it; tells when it is ready for them."""
    factory = factory_of(within(cluster, namespace), checkpoint_interval_ms=checkpoint_interval_ms)
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.AUTO)
        destination = session.create_queue(queue)
        begin = time.perf_counter()
        if is_held:
            holder = connection.create_session(AcknowledgeMode.INDIVIDUAL)
            with holder.create_consumer(destination, prefetch=1) as first:
                head = first.receive(PATIENCE_S)
                assert head is not None, "the held unit's head did not come"
                head.nack(delay_ms=delay_ms)
        consumer = session.create_consumer(destination)
        _wait_caught_up(consumer)
        absorbed_s = time.perf_counter() - begin
        print('{"ready": true}', flush=True)
        sys.stdin.readline()
        said = _receive(consumer, others)
    return {**said, "absorbed_seconds": absorbed_s}


def _wait_caught_up(consumer: MessageConsumer) -> None:
    """Return when everything sent so far was read: a receive that finds nothing before it gave up looking says so."""
    looked_s = CATCH_UP_S
    while looked_s >= CATCH_UP_S:
        begin = time.perf_counter()
        if consumer.receive(LOOK_S) is not None:
            raise OSError(f"a message of the unit {HELD_UNIT!r} came although its head is delayed")
        looked_s = time.perf_counter() - begin


def _receive(consumer: MessageConsumer, count: int) -> dict[str, Any]:
    watch = Stopwatch()
    for number in range(count):
        message = consumer.receive(PATIENCE_S)
        if not number:
            watch = Stopwatch()
        if message is None:
            raise OSError(f"got {number} of {count} messages and then nothing for {PATIENCE_S:g} s")
        if message.redelivered:
            raise OSError("the delay of the held unit ended before the others were received; the figures say nothing")
        message.body  # noqa: B018 - reading it is what is measured
    return watch.read(count)
