"""Private subscriptions and temporary queues: many of them cost little; what they do is what all others do."""

import threading
from collections.abc import Callable

import pytest

from jbm_kafka import AcknowledgeMode, Queue, Topic
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.support import DEAD_LETTERS, NOTHING_S, bodies, receive, receive_all

Connect = Callable[..., Connection]
MANY = 200


def test_many_private_subscriptions_have_few_threads(session: Session, prices: Topic) -> None:
    """TOPIC-1: each had five, and took a second to make and another to close."""
    producer = session.create_producer(prices)
    first = session.create_consumer(prices)
    before = threading.active_count()
    consumers = [session.create_consumer(prices) for _ in range(MANY)]
    assert threading.active_count() - before <= 4
    producer.send("hello")
    assert bodies([receive(each) for each in (first, *consumers)]) == ["hello"] * (MANY + 1)
    for each in consumers:
        each.close()
    producer.send("again")
    assert receive(first).body == "again"


def test_many_temporary_queues_have_few_threads(session: Session) -> None:
    """TEMP-1: each with a consumer had one."""
    queues = [session.create_temporary_queue() for _ in range(50)]
    first = session.create_consumer(queues[0])
    before = threading.active_count()
    consumers = [first, *(session.create_consumer(each) for each in queues[1:])]
    assert threading.active_count() - before <= 4
    producer = session.create_producer(None)
    for each in queues:
        producer.send(each.name, destination=each)
    assert [receive(each).body for each in consumers] == [each.name for each in queues]


def test_what_a_private_subscription_received_is_acknowledged_with_what_was_sent(
    connect: Connect, session: Session, prices: Topic, orders: Queue
) -> None:
    """Of ACK-7: both or neither; a rollback brings it again, counted."""
    worker = connect().create_session(AcknowledgeMode.TRANSACTED)
    source, sink = worker.create_consumer(prices), session.create_consumer(orders)
    session.create_producer(prices).send("1")
    for end in (worker.rollback, worker.commit):
        message = receive(source)
        worker.create_producer(orders).send(f"from {message.body!s}, {message.delivery_count}")
        assert sink.receive(NOTHING_S) is None
        end()
    assert receive(sink).body == "from 1, 2"
    assert source.receive(NOTHING_S) is None


def test_it_has_attempts_and_dead_letters_of_its_own(connect: Connect, session: Session, prices: Topic) -> None:
    """Of REDELIVER-4, UNIT-12: the letter says what kind of subscription gave it up, and the unit goes on."""
    topic = Topic(f"{prices.name}.twice")
    mine = connect().create_session(AcknowledgeMode.CLIENT)
    listener, other = mine.create_consumer(topic), session.create_consumer(topic)
    letters = session.create_consumer(DEAD_LETTERS)
    producer = session.create_producer(topic)
    for text in ("one", "two"):
        producer.send(text, unit_of_order="joe")
    assert bodies(receive_all(other, 2)) == ["one", "two"]
    for count in (1, 2):
        message = receive(listener)
        assert (message.body, message.delivery_count) == ("one", count)
        mine.recover()
    letter = receive(letters)
    while letter.properties.get("_JBM_ORIG_DESTINATION") != str(topic):
        letter = receive(letters)
    assert (letter.body, letter.properties["_JBM_ORIG_SUBSCRIPTION_KIND"]) == ("one", "private")
    assert receive(listener).body == "two"
    mine.acknowledge()


@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.INDIVIDUAL, AcknowledgeMode.CLIENT])
def test_what_it_leaves_unacknowledged_is_gone_with_it(connect: Connect, prices: Topic, mode: AcknowledgeMode) -> None:
    """Of TOPIC-1: and its session and connection go on."""
    mine = connect().create_session(mode)
    consumer = mine.create_consumer(prices)
    mine.create_producer(prices).send("left")
    message = receive(consumer)
    consumer.close()
    message.acknowledge()
    again = mine.create_consumer(prices)
    mine.create_producer(prices).send("new")
    assert receive(again).body == "new"
