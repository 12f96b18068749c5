"""A cluster in memory with what is to be moved to another one."""

from __future__ import annotations

from typing import Any

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.jms.context import Context
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.jms.support import receive

ORDERS, PRICES = Queue("orders"), Topic("prices")
MINUTE_MS = 60_000
RULES = {
    "orders": AddressSettings(
        partitions=2, redelivery_delay_ms=MINUTE_MS, max_delivery_attempts=3, on_dead_letter="hold"
    ),
    "given-up": AddressSettings(partitions=1, max_delivery_attempts=1),
    "prices": AddressSettings(partitions=1),
}


class Place:
    """A cluster in memory, with who administers it."""

    def __init__(self) -> None:
        self.world = MemoryWorld()
        self.admin = Admin(self.world.url)

    def close(self) -> None:
        self.admin.close()
        self.world.close()

    def context(self, **settings: Any) -> Context:
        factory = self.world.factory(address_settings=RULES, **settings)
        return factory.create_context(AcknowledgeMode.INDIVIDUAL)

    @property
    def cluster(self) -> MemoryCluster:
        kafka = self.admin._core.kafka
        assert isinstance(kafka, MemoryKafka)
        return kafka.cluster

    def catch_up(self, other: Place) -> None:
        """Its clock shows no less than the other's."""
        self.world.clock.advance(max(other.world.clock.now_ms() - self.world.clock.now_ms(), 0))

    def seen(self, destination: Queue | Topic, **which: Any) -> list[tuple[object, ...]]:
        """All that is held, with all that is known of it."""
        return [
            (m.body, m.unit_of_order, m.delivery_count, m.redelivered, m.delivery_time, m.expiration, m.message_id,
             m.timestamp, m.priority, dict(m.properties))
            for m in self.admin.browse(destination, include="all", **which)
        ]  # fmt: skip

    def receive_all(self, destination: Queue | Topic, **settings: Any) -> list[tuple[object, int]]:
        """Body and delivery count of all that may be had now, which is acknowledged."""
        found = []
        with self.context(**settings) as jms:
            consumer = (
                jms.create_consumer(destination)
                if isinstance(destination, Queue)
                else jms.create_durable_consumer(destination, "audit")
            )
            while (message := consumer.receive_nowait()) is not None:
                found.append((message.body, message.delivery_count))
                message.acknowledge()
        return found


def in_every_state(here: Place) -> None:
    """Of each unit its letter, named by what becomes of it, and some second messages behind them."""
    with here.context() as jms:
        producer = jms.create_producer()
        nacks = {"settled": [], "held": [0, 0, 0], "delayed": [0, 5 * MINUTE_MS], "counted": [0]}
        consumer = jms.create_consumer(ORDERS)
        for unit, delays in nacks.items():
            producer.send(ORDERS, unit, unit_of_order=unit)
            for delay_ms in delays:
                receive(consumer).nack(delay_ms)
            if not delays:
                receive(consumer).acknowledge()
        for unit in ("settled", "counted", "delayed", "held"):
            producer.send(ORDERS, f"{unit}2", unit_of_order=unit)
        producer.send(ORDERS, "later", unit_of_order="later", delivery_delay_ms=10 * MINUTE_MS)
        producer.send(ORDERS, "expired", unit_of_order="expired", time_to_live_ms=1_000)
        producer.send(ORDERS, "urgent", priority=9, properties={"n": 1}, correlation_id="x")
    here.world.clock.advance(2_000)
