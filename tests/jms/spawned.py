"""What a test's child process does: in a module that it can import, which a test file is not."""

from multiprocessing import SimpleQueue

from jbm_kafka import ConnectionFactory, Queue

ORDERS = Queue("orders")


def work_in_child(factory: ConnectionFactory, told: "SimpleQueue[object]") -> None:
    """Send and receive in a world of its own."""
    with factory.create_context() as jms:
        jms.create_producer().send(ORDERS, "from the child")
        told.put(jms.create_consumer(ORDERS).receive_body(str, timeout=20))
