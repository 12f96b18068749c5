"""Values at the edge of what anybody means, each found by someone who tried it."""

import random
import sys

import pytest

from jbm_kafka import AcknowledgeMode, Message, Queue
from jbm_kafka.core.durations import LONGEST_MS
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.support import DEAD_LETTERS, Seen, bodies, copies, eventually, receive, send
from tests.support.topics import create_topic


@pytest.mark.parametrize("delay_ms", [2**63, LONGEST_MS + 1, -1, 1.5, "1s", True])
def test_a_nack_by_no_duration_is_refused_and_the_message_stays_in_hand(
    connection: Connection, session: Session, orders: Queue, delay_ms: object
) -> None:
    send(session, orders, "a")
    with connection.create_session(AcknowledgeMode.INDIVIDUAL) as individual:
        message = receive(individual.create_consumer(orders))
        with pytest.raises(ValueError, match="delay_ms is"):
            message.nack(delay_ms)  # type: ignore[arg-type]
        message.acknowledge()


@pytest.mark.parametrize("option", ["delivery_delay_ms", "time_to_live_ms"])
@pytest.mark.parametrize("value", [2**63 - 1, 2**70])
def test_a_delay_that_no_clock_can_add_is_refused(session: Session, orders: Queue, option: str, value: int) -> None:
    with pytest.raises(ValueError, match=option):
        session.create_producer(orders).send("a", **{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [float("nan"), True, "1s", -0.1])
def test_a_timeout_that_is_none_is_refused(session: Session, orders: Queue, timeout: object) -> None:
    with pytest.raises(ValueError, match="timeout is"):
        session.create_consumer(orders).receive(timeout)  # type: ignore[arg-type]


@pytest.mark.parametrize("timeout", [float("inf"), 1e300])
def test_a_timeout_longer_than_any_wait_is_for_ever(session: Session, orders: Queue, timeout: float) -> None:
    send(session, orders, "a")
    message = session.create_consumer(orders).receive(timeout)
    assert message is not None
    assert message.body == "a"


def test_a_listener_that_exits_has_not_processed_its_message(
    connection: Connection, session: Session, orders: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """Of ACK-11: whatever a listener raises, in AUTO the message comes again; the log says that no process ended."""
    send(session, orders, "a")
    exits = iter([True])

    def then(message: Message) -> None:
        if next(exits, False):
            sys.exit("no reason")

    seen = Seen(then)
    with connection.create_session() as listening:
        listening.create_consumer(orders).set_listener(seen)
        assert bodies(seen.wait(2)) == ["a", "a"]
    assert "its listener called sys.exit(), which ends nothing here" in caplog.text
    assert "attempt 1 of 10, it comes again" in caplog.text


def dead_letters_after_two_tries(connection: Connection, queue: Queue) -> list[object]:
    """Bodies of what the queue's only message left in DLQ."""
    with connection.create_session(AcknowledgeMode.INDIVIDUAL) as individual:
        consumer = individual.create_consumer(queue)
        for _ in range(2):
            receive(consumer).nack()
        eventually(lambda: len(copies(connection, DEAD_LETTERS, queue)) == 1, "no dead letter")
    return bodies(copies(connection, DEAD_LETTERS, queue))


@pytest.mark.kafka_only
def test_a_dead_letter_keeps_a_body_that_fits_when_compressed(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """Of REDELIVER-4: the dead-letter topic takes what the queue's took."""
    queue = Queue(f"{orders.name}.twice")
    body = "x" * 3_000_000
    send(session, queue, body)
    assert dead_letters_after_two_tries(connection, queue) == [body]


@pytest.mark.kafka_only
def test_a_dead_letter_keeps_a_body_as_large_as_its_queue_takes(
    bootstrap: str, connection: Connection, session: Session, orders: Queue
) -> None:
    """Of REDELIVER-4: the dead-letter queue grows with the queues it serves."""
    queue = Queue(create_topic(bootstrap, f"{orders.name}.twice", config={"max.message.bytes": "2500000"}))
    body = random.Random(1).randbytes(2_400_000)  # no compression helps
    session.create_producer(queue).send(body)
    assert dead_letters_after_two_tries(connection, queue) == [body]
