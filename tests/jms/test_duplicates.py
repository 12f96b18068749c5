"""Messages that are sent again with the duplicate id of one that arrived."""

from __future__ import annotations

import pytest

from jbm_kafka import AcknowledgeMode, Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.support import DEAD_LETTERS as LETTERS
from tests.jms.support import NOTHING_S, bodies, copies, eventually, left, receive, receive_all
from tests.support.chaos_topics import channel_events, group_of


def test_of_two_messages_with_one_duplicate_id_the_first_is_received(session: Session, orders: Queue) -> None:
    """SEND-8: in its unit; the same id in another unit is another."""
    producer = session.create_producer(orders)
    for unit, body in (("joe", "first"), ("ann", "ann's"), ("joe", "again"), ("joe", "next")):
        producer.send(body, unit_of_order=unit, duplicate_id="other" if body == "next" else "order-1")
    consumer = session.create_consumer(orders)
    assert sorted(map(str, bodies(receive_all(consumer, 3)))) == ["ann's", "first", "next"]
    assert consumer.receive(NOTHING_S) is None


def test_without_a_unit_the_id_decides_the_partition(session: Session, orders: Queue) -> None:
    """SEND-8: or the two would not meet; each producer has a partition of its own otherwise."""
    for number in range(20):
        for attempt in ("first", "again"):
            session.create_producer(orders).send(f"{number} {attempt}", duplicate_id=f"order-{number}")
    consumer = session.create_consumer(orders)
    assert sorted(map(str, bodies(receive_all(consumer, 20)))) == sorted(f"{number} first" for number in range(20))
    assert consumer.receive(NOTHING_S) is None


def test_a_transaction_that_is_tried_again_counts_once(connection: Connection, orders: Queue) -> None:
    """SEND-8: what was rolled back leaves nothing in the window."""
    transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
    producer = transacted.create_producer(orders)
    for end in (transacted.rollback, transacted.commit, transacted.commit):
        producer.send(end.__name__, unit_of_order="joe", duplicate_id="order-1")
        end()
    producer.send("last", unit_of_order="joe")
    transacted.commit()
    with connection.create_session() as session:
        consumer = session.create_consumer(orders)
        assert bodies(receive_all(consumer, 2)) == ["commit", "last"]


def test_a_dead_letter_is_a_duplicate_of_nothing(connection: Connection, orders: Queue) -> None:
    """SEND-8, of REDELIVER-4: its copy has no duplicate id, and the window remembers the original's."""
    queue = Queue(f"{orders.name}.twice")
    individual = connection.create_session(AcknowledgeMode.INDIVIDUAL)
    producer = individual.create_producer(queue)
    producer.send("poison", unit_of_order="joe", duplicate_id="order-1")
    consumer = individual.create_consumer(queue)
    for _ in range(2):
        receive(consumer).nack()
    eventually(lambda: bool(copies(connection, LETTERS, of=queue)), "the dead letter")
    producer.send("again", unit_of_order="joe", duplicate_id="order-1")
    producer.send("next", unit_of_order="joe")
    assert receive(consumer).body == "next"


def test_without_a_window_both_are_received(session: Session, orders: Queue) -> None:
    """SEND-8: `duplicate_window_ms=0`."""
    queue = Queue(f"{orders.name}.windowless")
    producer = session.create_producer(queue)
    for body in ("first", "again"):
        producer.send(body, unit_of_order="joe", duplicate_id="order-1")
    assert bodies(receive_all(session.create_consumer(queue), 2)) == ["first", "again"]


def test_a_browser_does_not_show_what_was_settled_as_a_duplicate(connection: Connection, orders: Queue) -> None:
    """SEND-8, of LOG-3."""
    with connection.create_session(AcknowledgeMode.CLIENT) as session:
        producer = session.create_producer(orders)
        for body in ("first", "again", "next"):
            producer.send(body, unit_of_order="joe", duplicate_id=None if body == "next" else "order-1")
        receive_all(session.create_consumer(orders), 2)
    eventually(lambda: left(connection, orders) == ["first", "next"], "the record that it was a duplicate")


@pytest.mark.kafka_only
def test_a_duplicate_is_an_event(session: Session, orders: Queue, bootstrap: str) -> None:
    """SEND-8, of REDELIVER-5: jbm.events tells which message it repeats."""
    queue = Queue(f"{orders.name}.one")
    producer = session.create_producer(queue)
    for _ in range(2):
        producer.send("order", unit_of_order="joe", duplicate_id="order-1")
    consumer = session.create_consumer(queue)
    receive(consumer)
    assert consumer.receive(NOTHING_S) is None
    told: list[dict[str, object]] = []

    def is_told() -> bool:
        told[:] = [each for row in channel_events(bootstrap, queue.name) for each in row["messages"]]
        return bool(told)

    eventually(is_told, f"an event of {group_of(queue.name)}")
    [event] = told
    assert (event["fate"], event["offset"], event["unit"]) == ("duplicate", 1, b"joe")
    assert event["reason"] == "it has the duplicate id of offset 0"


def test_an_empty_duplicate_id_is_refused(session: Session, orders: Queue) -> None:
    producer = session.create_producer(orders)
    with pytest.raises(errors.MessageFormatError, match="duplicate_id is '': it is a text that is not empty, or None"):
        producer.send("a", duplicate_id="")
