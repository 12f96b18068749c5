"""Mistakes that only a broker finds: told with its own limits. All others: test_mistakes.py."""

import os

import pytest

from jbm_kafka import ConnectionFactory, Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.support import left

BODY_BYTES = 3_000_000


def too_large(orders: Queue) -> str:
    """What is said: what the message takes beside its body is a hundred bytes, of ids."""
    return rf"^{orders}: a message of 3000\d+ bytes with its properties is too large; its topic takes 1048588 "


def test_a_plain_message_too_large_tells_its_size_and_the_limit(
    connection: Connection, session: Session, orders: Queue
) -> None:
    producer, body = session.create_producer(orders), os.urandom(BODY_BYTES)
    with pytest.raises(errors.MessageTooLargeError, match=too_large(orders)) as refused:
        producer.send(body)
    assert refused.value.max_message_bytes == 1_048_588
    told: list[Exception | None] = []
    producer.send(body, on_completion=lambda message, error: told.append(error))
    producer.flush()
    assert [str(error) for error in told] == [str(refused.value)]
    assert left(connection, orders) == []


@pytest.mark.parametrize(("session_timeout_ms", "limit"), [(200, "1500"), (3_600_000, "1800000")])
def test_a_session_timeout_that_the_brokers_refuse_is_told_with_their_limits(
    bootstrap: str, kafka_name: str, session_timeout_ms: int, limit: str
) -> None:
    factory = ConnectionFactory(bootstrap, namespace=kafka_name, session_timeout_ms=session_timeout_ms)
    with factory.create_connection() as connection:
        session = connection.create_session()
        with pytest.raises(errors.InvalidSettingError) as refused:
            session.create_consumer(Queue(f"{kafka_name}.orders"))
    said = str(refused.value)
    assert f"session_timeout_ms is {session_timeout_ms}: the brokers at {bootstrap} take 1500 to 1800000" in said
    assert limit in said
    assert refused.value.value == session_timeout_ms
    assert "JoinGroup" not in said


def test_a_missing_queue_is_told_with_the_command_that_makes_it(bootstrap: str, kafka_name: str) -> None:
    factory = ConnectionFactory(bootstrap, namespace=kafka_name, auto_create=False)
    with factory.create_connection() as connection, connection.create_session() as session:
        for call in (session.create_producer, session.create_consumer):
            with pytest.raises(errors.InvalidDestinationError, match="jbm-kafka create nosuch"):
                call(Queue("nosuch"))
