"""Sends that their topic does not take: who is told, of what, and that nobody else is harmed."""

import random

import pytest

from jbm_kafka import AcknowledgeMode, Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.kafka import ConfluentKafka
from tests.jms.support import left
from tests.support.topics import create_topic

RANDOM = random.Random(1)
"""For bodies that no compression makes smaller."""


def test_a_commit_after_one_that_was_too_large_is_not_rolled_back(
    bootstrap: str, connection: Connection, orders: Queue
) -> None:
    """Of LOG-5: what the broker refused of another session leaves no gap in the partition, of any number of batches."""
    queue = Queue(create_topic(bootstrap, orders.name, config={"max.message.bytes": "1100000"}))
    large, other = (connection.create_session(AcknowledgeMode.TRANSACTED) for _ in range(2))
    large.create_producer(queue).send("known")
    large.commit()
    admin = ConfluentKafka(bootstrap).admin()
    admin.alter_config(queue.name, {"max.message.bytes": "1000000"})
    admin.close()
    bodies: list[object] = ["known"]
    for _ in range(2):
        large.create_producer(queue).send(RANDOM.randbytes(1_050_000))
        with pytest.raises(errors.TransactionRolledBackError, match="too large"):
            large.commit()
        bodies += [RANDOM.randbytes(300_000) for _ in range(6)]
        producer = other.create_producer(queue)
        for body in bodies[-6:]:
            producer.send(body)  # type: ignore[arg-type]
        other.commit()
    assert left(connection, queue) == bodies
