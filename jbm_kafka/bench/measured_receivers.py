"""The receivers that are measured; each call receives so many messages and returns how long that took.

The clock runs from the first message to the last. Before it runs, every client has joined and waits for messages.
The result also has the processor time of the whole process and the machine's load: the share consumer, whose broker
does most of its work, was seen at 112,000 and at 458,000 msg/s within half an hour, by what else the machine did.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, ShareConsumer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs leave them out
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.connect import client_of, factory_of, within
from jbm_kafka.jms.base.modes import AcknowledgeMode

PATIENCE_S = 60.0
"""How long nothing may come before a receiver gives up."""


class Stopwatch:
    """Begins when it is made."""

    def __init__(self) -> None:
        self._begin = time.perf_counter(), time.process_time()

    def read(self, messages: int) -> dict[str, Any]:
        """The result of a client for so many messages."""
        wall, processor = self._begin
        return {
            "messages": messages,
            "seconds": time.perf_counter() - wall,
            "cpu_seconds": time.process_time() - processor,
            "load_average": os.getloadavg()[0],
        }


def receive_raw(cluster: Cluster, topic: str, *, count: int, partitions: int) -> Mapping[str, Any]:
    """Kafka's consumer in a loop of `consume(1000)` that touches key, value and headers. Nothing is acknowledged."""
    consumer = Consumer({**client_of(cluster), "group.id": "jbm-bench-raw", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    seen, watch = 0, Stopwatch()
    while seen < count:
        records = consumer.consume(1000, PATIENCE_S)
        if not seen:
            watch = Stopwatch()
        if not records:
            raise _missing("consume", seen, count)
        for record in records:
            if record.error() is None:
                record.key()
                record.value()
                record.headers()
                seen += 1
    said = watch.read(seen)
    consumer.close()
    return said


def receive_share(
    cluster: Cluster, topic: str, *, count: int, group: str, is_body_only: bool = False
) -> Mapping[str, Any]:
    """Kafka's own unordered queue: a share consumer that acknowledges each message explicitly.

    It reads key, value and headers of each, as the raw loop does; or the value alone.
    """
    _begin_at_the_start(cluster, group)
    consumer = ShareConsumer({**client_of(cluster), "group.id": group, "share.acknowledgement.mode": "explicit"})
    consumer.subscribe([topic])
    seen, watch, heard = 0, Stopwatch(), time.perf_counter()
    while seen < count:
        records = consumer.poll(1.0)
        now = time.perf_counter()
        if not seen:
            watch = Stopwatch()
        if not records and now - heard > PATIENCE_S:
            raise _missing("share consumer", seen, count)
        for record in records:
            if record.error() is None:
                record.value()
                if not is_body_only:
                    record.key()
                    record.headers()
                consumer.acknowledge(record)
                seen += 1
                heard = now
    said = watch.read(seen)
    consumer.close()
    return said


def receive_jbm(
    cluster: Cluster,
    queue: str,
    *,
    count: int,
    namespace: str,
    is_body_only: bool = False,
    checkpoint_interval_ms: int = 50,
) -> Mapping[str, Any]:
    """An AUTO session in a `receive` loop; changelog and checkpoints are on.

    It reads body, unit, id and one property of each message, as the raw loop reads value, key and headers; or the body
    alone.

    The namespace makes the channel group a new one, which begins at the start of the topic.
    """
    factory = factory_of(within(cluster, namespace), checkpoint_interval_ms=checkpoint_interval_ms)
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.AUTO)
        consumer = session.create_consumer(session.create_queue(queue))
        if consumer.receive(PATIENCE_S) is None:
            raise _missing("jbm", 0, count)
        watch = Stopwatch()
        seen = 1
        while seen < count:
            message = consumer.receive(PATIENCE_S)
            if message is None:
                raise _missing("jbm", seen, count)
            message.body  # noqa: B018 - reading it is what is measured
            if not is_body_only:
                message.unit_of_order  # noqa: B018
                message.message_id  # noqa: B018
                message.properties["region"]
            seen += 1
        said = watch.read(seen)
    return {**said, "seconds_closed": watch.read(seen)["seconds"]}


def receive_in_mode(
    cluster: Cluster,
    queue: str,
    *,
    count: int,
    namespace: str,
    mode: str = "AUTO",
    acknowledges_each: int = 0,
    selector: str | None = None,
) -> Mapping[str, Any]:
    """As `receive_jbm`, in another acknowledge mode or with a selector, and the body alone is read.

    `acknowledges_each`: after so many messages `message.acknowledge()` is called, as CLIENT asks; 0: never.
    `selector`: one that chooses every message of the load.
    """
    with factory_of(within(cluster, namespace)).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode[mode])
        consumer = session.create_consumer(session.create_queue(queue), selector)
        message = consumer.receive(PATIENCE_S)
        watch, seen = Stopwatch(), 1
        while message is not None and seen < count:
            message = consumer.receive(PATIENCE_S)
            if message is None:
                break
            message.body  # noqa: B018 - reading it is what is measured
            seen += 1
            if acknowledges_each and seen % acknowledges_each == 0:
                message.acknowledge()
        if message is None:
            raise _missing(f"jbm {mode}", seen, count)
        said = watch.read(seen)
    return {**said, "seconds_closed": watch.read(seen)["seconds"]}


def _begin_at_the_start(cluster: Cluster, group: str) -> None:
    """A share group begins at the end of the log unless its configuration says otherwise."""
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin = AdminClient({**client_of(cluster)})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(PATIENCE_S)


def _missing(client: str, seen: int, count: int) -> OSError:
    return OSError(f"{client}: got {seen} of {count} messages and then nothing for {PATIENCE_S:g} s")
