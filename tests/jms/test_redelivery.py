"""Redelivery delays, dead letters, and what is not removed."""

import random
import time
from collections.abc import Callable

import pytest

from jbm_kafka import AcknowledgeMode, ObjectMessage, Queue
from jbm_kafka.codec.bodies import ObjectBody
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.conftest import RUN
from tests.jms.support import (
    DEAD_LETTERS,
    DELAY_MS,
    NOTHING_S,
    bodies,
    copies,
    delays_ms,
    eventually,
    left,
    receive,
    send,
)
from tests.support.topics import create_topic

CLOCK_MS = 20
"""What one clock may tell otherwise than another."""


@pytest.fixture
def individual(connection: Connection) -> Session:
    return connection.create_session(AcknowledgeMode.INDIVIDUAL)


@pytest.mark.parametrize(
    ("mode", "give_up"),
    [
        (AcknowledgeMode.TRANSACTED, Session.rollback),
        (AcknowledgeMode.CLIENT, Session.recover),
        (AcknowledgeMode.CLIENT, Session.close),
    ],
)
def test_what_two_consumers_of_a_session_received_of_one_unit_is_counted_each_time(
    connection: Connection, orders: Queue, mode: AcknowledgeMode, give_up: Callable[[Session], None]
) -> None:
    """REDELIVER-1, REDELIVER-3: the later message too, which the other consumer received."""
    queue = Queue(f"{orders.name}.thrice")
    with connection.create_session() as sender:
        send(sender, queue, "m1", "m2", unit="u")
    for count in (1, 2, 3):
        session = connection.create_session(mode)
        got = [receive(session.create_consumer(queue)), receive(session.create_consumer(queue))]
        assert [(message.body, message.delivery_count) for message in got] == [("m1", count), ("m2", count)]
        give_up(session)
        session.close()
    with connection.create_session() as session:
        consumer = session.create_consumer(queue)

        def are_letters() -> bool:
            assert consumer.receive(NOTHING_S) is None  # the later one leaves when it would be received
            return bodies(copies(connection, DEAD_LETTERS, of=queue)) == ["m1", "m2"]

        eventually(are_letters, "two letters, in order")


def test_after_the_last_attempt_the_message_is_a_dead_letter_once(
    connection: Connection, individual: Session, orders: Queue
) -> None:
    """REDELIVER-3, REDELIVER-8, of REDELIVER-4, UNIT-15 and UNIT-16: all of it is kept, and its unit goes on."""
    queue = Queue(f"{orders.name}.twice")
    sent = individual.create_producer(queue).send(
        "poison", unit_of_order="joe", properties={"n": 1}, time_to_live_ms=600_000, correlation_id="c"
    )
    send(individual, queue, "next", unit="joe")
    consumer = individual.create_consumer(queue)
    for count in (1, 2):
        message = receive(consumer)
        assert (message.body, message.delivery_count) == ("poison", count)
        message.nack()
    assert receive(consumer).body == "next"
    [letter] = copies(connection, DEAD_LETTERS, of=queue)
    assert message.kafka is not None
    expected = {
        "n": 1,
        "_JBM_ORIG_DESTINATION": f"queue:{queue.name}",
        "_JBM_ORIG_MESSAGE_ID": sent.message_id,
        "_JBM_ORIG_PARTITION": message.kafka.partition,
        "_JBM_ORIG_OFFSET": message.kafka.offset,
        "_JBM_DELIVERY_COUNT": 2,
        "_JBM_DEAD_LETTER_REASON": "max-delivery-attempts",
    }
    assert {name: letter.properties[name] for name in expected} == expected
    assert (letter.body, letter.unit_of_order, letter.correlation_id) == ("poison", "joe", "c")
    assert (letter.expiration, letter.delivery_time) == (0, 0)
    assert left(connection, queue) == ["next"]


def test_of_a_body_that_nobody_could_read_the_letter_says_so(
    connection: Connection, individual: Session, orders: Queue
) -> None:
    """Of REDELIVER-4, of MSG-2: it is delivered as often as any other, and the reason tells why in vain."""
    queue = Queue(f"{orders.name}.twice")
    made = ObjectMessage({"a": 1})
    made._body = ObjectBody("json", b"{broken")
    individual.create_producer(queue).send(made, unit_of_order="joe")
    consumer = individual.create_consumer(queue)
    for count in (1, 2):
        message = receive(consumer)
        assert (message.body, message.delivery_count) == (b"{broken", count)
        message.nack()
    eventually(lambda: bool(copies(connection, DEAD_LETTERS, of=queue)), "the letter")
    [letter] = copies(connection, DEAD_LETTERS, of=queue)
    assert (letter.body, letter.unit_of_order) == (b"{broken", "joe")
    assert letter.properties["_JBM_DEAD_LETTER_REASON"] == "undecodable"
    assert letter.properties["_JBM_DELIVERY_COUNT"] == 2
    assert "cannot be read as JSON" in str(letter.properties["_JBM_DECODE_ERROR"])


def test_without_a_dead_letter_address_it_is_removed(
    connection: Connection, individual: Session, orders: Queue
) -> None:
    """REDELIVER-3: None removes."""
    queue = Queue(f"{orders.name}.removed")
    send(individual, queue, "poison", "next", unit="u")
    consumer = individual.create_consumer(queue)
    receive(consumer).nack()
    assert receive(consumer).body == "next"
    eventually(lambda: left(connection, queue) == ["next"], "it is still there")
    assert copies(connection, DEAD_LETTERS, of=queue) == []


def test_on_the_dead_letter_queue_failures_never_remove(
    connection: Connection, individual: Session, orders: Queue
) -> None:
    """REDELIVER-3: nor copy to itself; more failures than any default allows."""
    unit = orders.name
    send(individual, DEAD_LETTERS, "letter", unit=unit)
    consumer = individual.create_consumer(DEAD_LETTERS)
    failures = 0
    while failures < 12:
        message = receive(consumer)
        if message.unit_of_order == unit:
            failures += 1
            assert message.delivery_count == failures
            message.nack()
    while (message := receive(consumer)).unit_of_order != unit:
        pass
    message.acknowledge()


def test_on_dead_letter_hold_keeps_the_unit_blocked(connection: Connection, individual: Session, orders: Queue) -> None:
    """Of UNIT-16: until an operator releases it; other units go on."""
    queue = Queue(f"{orders.name}.one.held")
    send(individual, queue, "poison", "behind", unit="a")
    consumer = individual.create_consumer(queue)
    receive(consumer).nack()
    send(individual, queue, "other", unit="b")
    assert receive(consumer).body == "other"
    assert consumer.receive(NOTHING_S) is None
    assert copies(connection, DEAD_LETTERS, of=queue) == []


def test_delays_grow_by_the_multiplier_up_to_the_cap(individual: Session, orders: Queue) -> None:
    """REDELIVER-2: 50, 500, then the cap of 800 ms."""
    queue = Queue(f"{orders.name}.growing")
    send(individual, queue, "a")
    consumer = individual.create_consumer(queue)
    message = receive(consumer)
    for wanted_ms in (50, 500, 800, 800):
        begin = time.monotonic()
        message.nack()
        message = receive(consumer)
        assert (time.monotonic() - begin) * 1000 >= wanted_ms - CLOCK_MS
        assert delays_ms(consumer) == [wanted_ms]


def test_delays_are_spread(individual: Session, orders: Queue) -> None:
    """REDELIVER-2: by half of ten minutes around them."""
    queue = Queue(f"{orders.name}.spread")
    for number in range(8):
        send(individual, queue, f"m{number}", unit=f"u{number}")
    consumer = individual.create_consumer(queue)
    for message in [receive(consumer) for _ in range(8)]:
        message.nack()
    eventually(lambda: len(delays_ms(consumer)) == 8, "they did not come back")
    delays = delays_ms(consumer)
    assert all(300_000 <= delay <= 900_000 for delay in delays), delays
    assert len(set(delays)) > 4, "by chance, each on its own"
    assert consumer.receive(NOTHING_S) is None


def test_rollback_waits_the_delay_and_counts_each(connection: Connection, session: Session, orders: Queue) -> None:
    """REDELIVER-1, REDELIVER-2, of UNIT-4: the unit waits; nothing is skipped."""
    queue = Queue(f"{orders.name}.delayed")
    send(session, queue, "a", "b", unit="u")
    transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
    consumer = transacted.create_consumer(queue)
    receive(consumer)
    receive(consumer)
    begin = time.monotonic()
    transacted.rollback()
    again = [receive(consumer), receive(consumer)]
    assert (time.monotonic() - begin) * 1000 >= DELAY_MS - CLOCK_MS
    assert [(m.body, m.delivery_count) for m in again] == [("a", 2), ("b", 2)]
    transacted.commit()


def test_acknowledgements_are_durable_at_once_when_asked(orders: Queue, connect: Callable[..., Connection]) -> None:
    """Of ACK-9: with block_on_acknowledge the call returns when the changelog has it, in every mode."""
    # A sidecar of its own, whose checkpoints would not come by themselves before the test looks.
    connection = connect(namespace=f"{RUN}-slow", checkpoint_interval_ms=60_000, block_on_acknowledge=True)
    for mode in (AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL, AcknowledgeMode.AUTO):
        queue = Queue(f"{orders.name}.{mode.value}")
        session = connection.create_session(mode)
        send(session, queue, "a", "b")
        consumer = session.create_consumer(queue)
        first = receive(consumer)
        if mode is AcknowledgeMode.AUTO:
            receive(consumer)
        else:
            first.acknowledge()
        assert left(connection, queue) == ["b"], mode


def test_bodies_of_dead_letters_are_the_same_bytes(connection: Connection, individual: Session, orders: Queue) -> None:
    """Of REDELIVER-4: bytes too."""
    queue = Queue(f"{orders.name}.twice")
    individual.create_producer(queue).send(b"\x00\xff", unit_of_order="u")
    send(individual, queue, "next", unit="u")
    consumer = individual.create_consumer(queue)
    receive(consumer).nack()
    receive(consumer).nack()
    receive(consumer)
    assert bodies(copies(connection, DEAD_LETTERS, of=queue)) == [b"\x00\xff"]


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
