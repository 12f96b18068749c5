"""Closed, a connection leaves no Kafka client behind: each has some five threads, and as many sockets."""

import subprocess
import sys

import pytest

from jbm_kafka import Queue

OPENS_AND_CLOSES = """
import gc, os, sys
from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue

gc.disable()
factory, queue = ConnectionFactory(sys.argv[1]), Queue(sys.argv[2])
for _ in range(3):
    with factory.create_connection() as connection:
        connection.start()
        session = connection.create_session(AcknowledgeMode.TRANSACTED)
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        producer.send("waited for")
        session.commit()
        assert consumer.receive(30).body == "waited for"
        session.commit()
        connection.create_session().create_producer(queue).send("not", on_completion=lambda *_: None)
        assert consumer.receive(30).body == "not"
        session.commit()
    print(len(os.listdir("/proc/self/task")), flush=True)
"""


@pytest.mark.thorough
@pytest.mark.kafka_only
def test_a_closed_connection_leaves_no_thread_even_without_the_collector(bootstrap: str, orders: Queue) -> None:
    """They were left to Python's collector, which looks at old objects seldom: ten connections, a hundred threads."""
    program = [sys.executable, "-c", OPENS_AND_CLOSES, bootstrap, orders.name]
    first, *later = (int(line) for line in subprocess.run(program, check=True, capture_output=True).stdout.split())
    assert first <= 4
    assert later == [first] * 2
