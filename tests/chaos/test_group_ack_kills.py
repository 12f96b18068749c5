"""PERSISTENT_GROUPACK under a broker that is killed: what is on the list is exactly what was not confirmed."""

from collections.abc import Callable

import pytest

from jbm_kafka import ConnectionFactory, DeliveryMode, MessageProducer, Queue, errors
from jbm_kafka.devbroker import LocalBroker
from tests.jms.support import Aside, bodies, eventually
from tests.support.chaos_topics import read_committed
from tests.support.topics import create_topic

pytestmark = pytest.mark.thorough

THRESHOLD = 5
QUEUE = Queue("orders")
StartBroker = Callable[[], LocalBroker]


def in_the_log(broker: LocalBroker) -> list[str]:
    return [(message.value() or b"").decode() for message in read_committed(broker.bootstrap, QUEUE.name)]


def send(producer: MessageProducer, *numbers: int) -> None:
    for number in numbers:
        producer.send(str(number), unit_of_order="u", properties={"number": number})


@pytest.fixture
def broker(dedicated_broker: StartBroker) -> LocalBroker:
    started = dedicated_broker()
    create_topic(started.bootstrap, QUEUE.name)
    return started


@pytest.mark.timeout(300)  # a send is given up after half a minute
def test_after_a_kill_the_list_is_exactly_what_was_not_confirmed(broker: LocalBroker) -> None:
    """SEND-3, SEND-4: sent again it completes the unit, in order; nothing else is on it, and nothing is missing."""
    with ConnectionFactory(broker.bootstrap).create_connection() as connection:
        session = connection.create_session()
        session.set_group_ack_threshold(THRESHOLD)
        producer = session.create_producer(QUEUE)
        producer.delivery_mode = DeliveryMode.PERSISTENT_GROUPACK
        send(producer, *range(THRESHOLD))
        assert in_the_log(broker) == ["0", "1", "2", "3", "4"]
        broker.kill()
        send(producer, 5, 6, 7, 8)
        assert bodies(producer.unacknowledged_sends()) == ["5", "6", "7", "8"]
        with pytest.raises(errors.SendTimeoutError, match="5 sends are not confirmed"):
            send(producer, 9)
        failed = producer.unacknowledged_sends()
        assert bodies(failed) == ["5", "6", "7", "8", "9"]
        broker.start()
        for message in failed:
            producer.send(message)
        producer.flush()
        assert producer.unacknowledged_sends() == []
    written = in_the_log(broker)
    first = sorted(range(10), key=lambda number: written.index(str(number)))
    assert first == list(range(10)), written
    assert len(written) == 10, "nothing of the killed broker's was written, so nothing may be there twice"


@pytest.mark.timeout(300)
def test_a_short_outage_is_waited_for(broker: LocalBroker) -> None:
    """SEND-3: the n-th waits, and nothing fails; and nothing is there twice."""
    with ConnectionFactory(broker.bootstrap).create_connection() as connection:
        session = connection.create_session()
        session.set_group_ack_threshold(THRESHOLD)
        producer = session.create_producer(QUEUE)
        producer.delivery_mode = DeliveryMode.PERSISTENT_GROUPACK
        send(producer, 0, 1)
        broker.pause()  # to start one again may take longer than a send is tried for
        send(producer, 2, 3)
        fifth = Aside(lambda: send(producer, 4))
        eventually(lambda: "4" in bodies(producer.unacknowledged_sends()), "the fifth is not sent")
        assert fifth.is_running
        broker.resume()
        fifth.result()
        assert producer.unacknowledged_sends() == []
    assert in_the_log(broker) == ["0", "1", "2", "3", "4"]
