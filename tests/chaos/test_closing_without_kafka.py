"""Closing while Kafka is away: it ends soon, tells what became of everything, and loses nothing."""

import logging
import threading
import time
from collections.abc import Callable

import pytest

from jbm_kafka import AcknowledgeMode, Connection, ConnectionFactory, Queue, Session, Topic
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.errors import JMSError, SendTimeoutError, TransactionInDoubtError
from tests.support.chaos_topics import all_ends
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough

ORDERS = Queue("orders")
CLOSED_S = 20.0
"""Some 5 s, or with what a busy machine takes more; it was half a minute."""
OUTAGE_S = 3.0


def received(session: Session, count: int) -> list[str]:
    """What one more consumer of the session gets first."""
    consumer = session.create_consumer(ORDERS)
    messages = [consumer.receive(timeout=60) for _ in range(count)]
    return [str(message.body) for message in messages if message is not None]


def seconds_to_close(connection: Connection) -> float:
    """How long closing took."""
    begun = time.monotonic()
    connection.close()
    return time.monotonic() - begun


def wait_written(broker: LocalBroker) -> None:
    """Return when nothing is between a commit and its marks: a kill there is Kafka's own trouble, and another test's
    (test_broker_kills.py)."""

    def is_over() -> bool:
        stable = all_ends(broker.bootstrap, stable=True)
        return bool(stable) and stable == all_ends(broker.bootstrap, stable=False)

    wait_until(is_over, about="the marks of every commit", timeout_s=30)


def closing_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is logged from WARNING up, but for what an outage says by itself."""
    records = [record for record in caplog.records if record.levelno >= logging.WARNING]
    return [r.getMessage() for r in records if r.name != "jbm_kafka.kafka" and "Kafka does not answer" not in r.message]


@pytest.mark.timeout(300)
def test_closing_took_half_a_minute_while_the_broker_was_stopped(
    dedicated_broker: Callable[[], LocalBroker], caplog: pytest.LogCaptureFixture
) -> None:
    """Of CONN-3: with receivers, a listening subscription, a client id, a commit and sends under way."""
    broker = dedicated_broker()
    factory = ConnectionFactory(broker.bootstrap, client_id="till-1")
    connection = factory.create_connection()
    connection.start()
    producer = connection.create_session().create_producer(ORDERS)
    for number in range(6):
        producer.send(f"order {number}", unit_of_order="all of them")
    sent: list[Exception | None] = []
    committed: list[Exception] = []
    subscriber = connection.create_session()
    subscriber.create_durable_consumer(Topic("news"), "reader").set_listener(lambda _: None)
    transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
    transacted.create_producer(Queue("done")).send("with the commit")
    assert received(connection.create_session(AcknowledgeMode.CLIENT), 3) == ["order 0", "order 1", "order 2"]

    def commit() -> None:
        try:
            transacted.commit()
        except JMSError as error:
            committed.append(error)

    wait_written(broker)
    broker.kill()
    producer.send("never confirmed", on_completion=lambda _, error: sent.append(error))
    committing = threading.Thread(target=commit)
    committing.start()
    assert seconds_to_close(connection) < CLOSED_S
    committing.join()

    assert [type(error) for error in sent] == [SendTimeoutError]
    assert [type(error) for error in committed] == [TransactionInDoubtError]
    assert len(closing_lines(caplog)) == 1, closing_lines(caplog)
    assert "closed without Kafka" in closing_lines(caplog)[0]

    broker.start()
    # Its client id is another's only when the broker has forgotten the process that held it: so without.
    with ConnectionFactory(broker.bootstrap).create_connection() as again:
        found = received(again.create_session(AcknowledgeMode.CLIENT), 6)
        assert found == [f"order {number}" for number in range(6)]


@pytest.mark.timeout(300)
def test_closing_while_the_broker_restarts_records_what_was_acknowledged(
    dedicated_broker: Callable[[], LocalBroker],
) -> None:
    """Of CONN-3: a broker that stands still for 3 s gets the last checkpoint."""
    broker = dedicated_broker()
    factory = ConnectionFactory(broker.bootstrap)
    with factory.create_connection() as connection:
        producer = connection.create_session().create_producer(ORDERS)
        for number in range(4):
            producer.send(f"order {number}", unit_of_order="all of them")
        session = connection.create_session(AcknowledgeMode.CLIENT)
        assert received(session, 3) == ["order 0", "order 1", "order 2"]
        broker.pause()
        back = threading.Timer(OUTAGE_S, broker.resume)
        back.start()
        session.acknowledge()
    back.join()
    with factory.create_connection() as again:
        assert received(again.create_session(), 1) == ["order 3"]
