"""A receive's time is kept also by a cluster that does not answer."""

from collections.abc import Callable

import pytest

from jbm_kafka import Queue
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.jms.receiving.waiting import CATCH_UP_S
from tests.jms.conftest import make_factory
from tests.jms.support import NOTHING_S, receive, send
from tests.support.waiting import in_time

SLOW_S = 0.7
"""What a busy machine adds."""
MEMBER_MS = 30_000
"""A member all the while."""


@pytest.mark.thorough
def test_a_receive_is_at_most_a_second_late_while_the_broker_stands_still(
    dedicated_broker: Callable[[], LocalBroker], kafka_name: str
) -> None:
    broker, queue = dedicated_broker(), Queue(f"{kafka_name}.one")
    # Who stops being a member meanwhile has to join first, and may take 10 s longer.
    with make_factory(broker.bootstrap, session_timeout_ms=MEMBER_MS).create_connection() as connection:
        session = connection.create_session()
        consumer = session.create_consumer(queue)
        send(session, queue, "a")
        assert receive(consumer).body == "a"
        assert consumer.receive(NOTHING_S) is None
        broker.pause()
        try:
            for _ in range(2):
                assert in_time(lambda: consumer.receive(NOTHING_S), NOTHING_S + CATCH_UP_S + SLOW_S) is None
        finally:
            broker.resume()
        send(session, queue, "b")
        assert receive(consumer).body == "b"
