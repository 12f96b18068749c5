"""PERSISTENT_GROUPACK: sends that are confirmed together."""

import random

import pytest

from jbm_kafka import AcknowledgeMode, DeliveryMode, MessageProducer, Queue, TextMessage, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.support import SOON_S, bodies, left, receive, receive_all


def grouped(session: Session, queue: Queue, threshold: int = 100) -> MessageProducer:
    """A producer of such sends."""
    session.set_group_ack_threshold(threshold)
    producer = session.create_producer(queue)
    producer.delivery_mode = DeliveryMode.PERSISTENT_GROUPACK
    return producer


def test_consumers_may_see_messages_before_their_group_is_full(session: Session, orders: Queue) -> None:
    """SEND-3: and received they are PERSISTENT ones."""
    producer = grouped(session, orders)
    sent = [producer.send(body, unit_of_order="u") for body in "ab"]
    assert [message.delivery_mode for message in sent] == [DeliveryMode.PERSISTENT_GROUPACK] * 2
    got = receive_all(session.create_consumer(orders), 2)
    assert bodies(got) == ["a", "b"]
    assert [message.delivery_mode for message in got] == [DeliveryMode.PERSISTENT] * 2
    assert [message.message_id for message in got] == [message.message_id for message in sent]


def test_the_nth_and_flush_leave_nothing_unconfirmed(connection: Connection, session: Session, orders: Queue) -> None:
    """SEND-3, ORDER-1: all before it are confirmed, and in order."""
    producer = grouped(session, orders, threshold=3)
    assert producer.unacknowledged_sends() == []
    for number in range(6):
        producer.send(str(number), unit_of_order="u")
        if number % 3 == 2:
            assert producer.unacknowledged_sends() == []
    producer.send("6", unit_of_order="u")
    producer.flush()
    assert producer.unacknowledged_sends() == []
    assert left(connection, orders) == list("0123456")


@pytest.mark.parametrize("closes", ["producer", "session"])
def test_closing_waits_for_the_group(connection: Connection, session: Session, orders: Queue, closes: str) -> None:
    """SEND-3: flush and close wait."""
    producer = grouped(session, orders)
    for body in "abc":
        producer.send(body, unit_of_order="u")
    (producer if closes == "producer" else session).close()
    assert producer.unacknowledged_sends() == []
    assert left(connection, orders) == ["a", "b", "c"]


def test_a_send_of_another_mode_keeps_its_place(connection: Connection, session: Session, orders: Queue) -> None:
    """ORDER-1: within one unit, whatever the modes."""
    producer = grouped(session, orders)
    for number in range(30):
        mode = (DeliveryMode.PERSISTENT_GROUPACK, DeliveryMode.PERSISTENT, DeliveryMode.NON_PERSISTENT)[number % 3]
        producer.send(str(number), unit_of_order="u", delivery_mode=mode)
    producer.flush()
    assert left(connection, orders) == [str(number) for number in range(30)]


def test_in_a_transaction_the_commit_confirms(connection: Connection, orders: Queue) -> None:
    with connection.create_session(AcknowledgeMode.TRANSACTED) as session:
        producer = grouped(session, orders, threshold=1)
        producer.send("a")
        assert producer.unacknowledged_sends() == []
        session.commit()
    assert left(connection, orders) == ["a"]


def test_with_a_callback_the_callback_tells(session: Session, orders: Queue) -> None:
    producer = grouped(session, orders, threshold=1)
    told: list[Exception | None] = []
    producer.send("a", on_completion=lambda message, error: told.append(error))
    producer.flush()
    assert told == [None]
    assert producer.unacknowledged_sends() == []


def test_one_message_object_may_be_sent_again_and_again(
    connection: Connection, session: Session, orders: Queue
) -> None:
    producer, message = grouped(session, orders), TextMessage()
    for body in "abc":
        message.body = body
        producer.send(message, unit_of_order="u")
    producer.flush()
    assert left(connection, orders) == ["a", "b", "c"]


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "many", True, None])
def test_a_wrong_threshold_is_refused(session: Session, wrong: int) -> None:
    with pytest.raises(errors.InvalidSettingError, match=r"count is .*: it is an int of messages from 1 to 1000000"):
        session.set_group_ack_threshold(wrong)


def test_a_too_large_message_is_on_the_list_alone(connection: Connection, session: Session, orders: Queue) -> None:
    """SEND-3, SEND-4: of a failure that has nothing to do with the others."""
    producer = grouped(session, orders)
    producer.send("a", unit_of_order="u")
    huge = random.Random(1).randbytes(30_000_000)

    def send_huge() -> None:
        producer.send(huge, unit_of_order="u")
        producer.flush()

    with pytest.raises(errors.MessageTooLargeError, match=r"1 sends are not confirmed, unacknowledged_sends\(\) has"):
        send_huge()  # one of the two finds it
    assert bodies(producer.unacknowledged_sends()) == [huge]
    producer.send("b", unit_of_order="u")
    producer.flush(SOON_S)
    assert left(connection, orders) == ["a", "b"]
    assert receive(session.create_consumer(orders)).body == "a"
