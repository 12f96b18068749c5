"""Kafka is silent for so long that nobody knows any more where units go (decision 41): sends wait to hear it."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.errors import SendTimeoutError
from jbm_kafka.providers.sidecar_provider import SEND_TIMEOUT_S
from jbm_kafka.registry.unit_paths import LEASE_S
from tests.support.chaos_topics import read_committed

ORDERS = Queue("orders")
SENDERS = 8
AFTER_S = 60.0
"""A send ends within that time after Kafka has answered, on a busy machine too."""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sends_wait_when_kafka_was_silent_for_longer_than_a_lease(dedicated_broker: Callable[[], LocalBroker]) -> None:
    """Of CONN-3, UNIT-11: they failed after 10 s. Those of one process ask together: none waits for the others' turns.

    What is told to have failed was not sent, and says how long it waited, for what, and what to do.
    """
    broker, silence = dedicated_broker(), threading.Event()
    with ConnectionFactory(broker.bootstrap).create_connection() as connection, ThreadPoolExecutor() as side_by_side:
        producers = [connection.create_session().create_producer(ORDERS) for _ in range(SENDERS)]
        for producer in producers:
            producer.send("before", unit_of_order="u")

        def send(text: str) -> list[Future[object]]:
            return [side_by_side.submit(each.send, text, unit_of_order="u") for each in producers]

        broker.pause()
        silence.wait(LEASE_S + 5)  # the length of the outage itself: nothing is waited for
        begun_s = time.monotonic()
        given_up = [sent.exception(AFTER_S + SEND_TIMEOUT_S) for sent in send("given up")]
        took_s = time.monotonic() - begun_s
        waited_for = send("waited for")
        silence.wait(5)
        broker.resume()
        for sent in waited_for:
            sent.result(AFTER_S)
    for error in given_up:
        assert isinstance(error, SendTimeoutError), error
        assert "nothing was sent: where its messages go" in str(error)
        assert "send again when Kafka answers" in str(error)
    assert took_s >= SEND_TIMEOUT_S
    found = Counter((message.value() or b"").decode() for message in read_committed(broker.bootstrap, ORDERS.name))
    assert found == {"before": SENDERS, "waited for": SENDERS}
