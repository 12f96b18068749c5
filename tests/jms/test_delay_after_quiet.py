"""A delayed message is held for its delay however long its queue was quiet before."""

from __future__ import annotations

from jbm_kafka import Queue
from jbm_kafka.testing.memory_world import MemoryWorld

HOUR_MS = 3_600_000
LOOK_S = 0.3
SOON_S = 20.0


def test_a_delay_that_begins_after_a_quiet_hour_is_not_over_at_once() -> None:
    """SEND-6: by when it was read, and not by when the channel last heard of the time."""
    with MemoryWorld() as world, world.factory().create_connection() as connection:
        session = connection.create_session()
        producer, consumer = session.create_producer(Queue("orders")), session.create_consumer(Queue("orders"))
        connection.start()
        producer.send("first")
        assert consumer.receive(timeout=SOON_S) is not None
        world.clock.advance(HOUR_MS)
        producer.delivery_delay_ms = 600_000
        producer.send("later", unit_of_order="joe")
        assert consumer.receive(timeout=LOOK_S) is None
        world.clock.advance(599_999)
        assert consumer.receive(timeout=LOOK_S) is None
        world.clock.advance(1)
        message = consumer.receive(timeout=SOON_S)
        assert message is not None
        assert message.body == "later"
