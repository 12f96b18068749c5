"""Records that only other clients write are messages like all: handed over, looked at, sent on, dead-lettered."""

import random

from confluent_kafka import Producer

from jbm_kafka import AcknowledgeMode, Queue
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.support import DEAD_LETTERS, copies, eventually, left, receive, send
from tests.support.raw_headers import send_raw

LATIN = [(b"JBMBody", b"text"), (b"stra\xdfe", b"9"), (b"color", b"red")]
HUGE = 1_048_450
"""Bytes of a key that just fits a topic as brokers make them; with anything beside it, it does not."""
SHOWN = ("stra\N{REPLACEMENT CHARACTER}e", b"9")


def test_a_header_name_that_is_not_utf_8_stops_no_queue(bootstrap: str, session: Session, orders: Queue) -> None:
    """MSG-2: it ended the group worker of all partitions in every process. Its message says why a header is missing."""
    queue = Queue(f"{orders.name}.one")
    send(session, queue, "before")
    send_raw(bootstrap, queue.name, key=b"u", value=b"odd", headers=LATIN)
    send(session, queue, "after")
    with session.create_browser(queue) as browser:
        assert [message.body for message in browser] == ["before", "odd", "after"]
    consumer = session.create_consumer(queue)
    assert receive(consumer).body == "before"
    odd = receive(consumer)
    assert (odd.body, odd.unit_of_order, odd.properties["color"]) == ("odd", "u", "red")
    assert "straße" not in odd.properties
    reason = odd.properties["_JBM_DECODE_ERROR"]
    assert reason == "the name of the header 'stra\N{REPLACEMENT CHARACTER}e' is not UTF-8"
    assert receive(consumer).body == "after"
    assert odd.kafka is not None
    assert SHOWN in odd.kafka.headers
    session.create_producer(queue).send(odd)
    again = receive(consumer)
    assert again.kafka is not None
    assert SHOWN in again.kafka.headers


def test_a_message_with_a_header_name_that_is_not_utf_8_becomes_a_dead_letter(
    bootstrap: str, connection: Connection, session: Session, orders: Queue
) -> None:
    """Of MSG-2 and REDELIVER-4: the letter has the header's value, its name as far as it can be read, and says so."""
    queue = Queue(f"{orders.name}.twice")
    session.create_producer(queue)
    send_raw(bootstrap, queue.name, key=b"u", value=b"odd", headers=LATIN)
    consumer = connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(queue)
    for _ in range(2):
        receive(consumer).nack()
    eventually(lambda: bool(copies(connection, DEAD_LETTERS, queue)), "the dead letter")
    [letter] = copies(connection, DEAD_LETTERS, queue)
    assert (letter.body, letter.properties["color"]) == ("odd", "red")
    assert "_JBM_DECODE_ERROR" in letter.properties
    assert letter.kafka is not None
    assert SHOWN in letter.kafka.headers


def test_a_returned_message_with_a_huge_key_stops_no_record(
    bootstrap: str, connection: Connection, orders: Queue
) -> None:
    """MSG-2, of LOG-5: nothing of its worker was recorded any more, for the record about it was refused for ever."""
    queue = Queue(f"{orders.name}.one")
    sender = connection.create_session()
    sender.create_producer(queue)
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 2_000_000})
    producer.produce(queue.name, b"", random.Random(1).randbytes(HUGE))
    assert producer.flush(10) == 0
    send(sender, queue, "after")
    individual = connection.create_session(AcknowledgeMode.INDIVIDUAL)
    consumer = individual.create_consumer(queue)
    receive(consumer).nack(60_000)
    after = receive(consumer)
    assert after.body == "after"
    after.acknowledge()
    eventually(lambda: left(connection, queue) == [b""], "the record of the acknowledgement")
