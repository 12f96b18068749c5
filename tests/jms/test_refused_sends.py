"""Sends that their topic does not take: who is told, of what, and that nobody else is harmed."""

import random
import time

import pytest

from jbm_kafka import AcknowledgeMode, Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.providers.sidecar_provider import SEND_TIMEOUT_S
from tests.jms.conftest import RUN, Connect
from tests.jms.support import SOON_S, Aside, eventually, left
from tests.support.topics import admin_client, create_topic, delete_topics

RANDOM = random.Random(1)
"""For bodies that no compression makes smaller."""


def deleted(queue: Queue) -> str:
    """What is said of it."""
    return rf"topic '{queue.name}' was deleted.*Send again, which creates it.*jbm-kafka create {queue.name}"


def delete(bootstrap: str, queue: Queue) -> None:
    """Its topic is gone, and the broker takes nothing for it any more."""
    delete_topics(bootstrap, [queue.name])
    client = admin_client(bootstrap)
    eventually(lambda: queue.name not in client.list_topics(timeout=SOON_S).topics, "the topic is still there")


def test_a_commit_after_one_that_was_too_large_is_not_rolled_back(
    bootstrap: str, connection: Connection, orders: Queue
) -> None:
    """Of LOG-5: what the broker refused of another session leaves no gap in the partition, of any number of batches."""
    queue = Queue(create_topic(bootstrap, orders.name, config={"max.message.bytes": "1100000"}))
    large, other = (connection.create_session(AcknowledgeMode.TRANSACTED) for _ in range(2))
    large.create_producer(queue).send("known")
    large.commit()
    admin = ConfluentKafka(bootstrap).admin()
    admin.alter_config(queue.name, {"max.message.bytes": "1000000"})
    admin.close()
    large.create_producer(queue).send(RANDOM.randbytes(1_050_000))
    with pytest.raises(errors.TransactionRolledBackError, match="too large"):
        large.commit()
    bodies = [RANDOM.randbytes(300_000) for _ in range(6)]
    producer = other.create_producer(queue)
    for body in bodies:
        producer.send(body)
    other.commit()
    assert left(connection, queue) == ["known", *bodies]
    with pytest.raises(errors.MessageTooLargeError):  # what the topic takes is known anew
        large.create_producer(queue).send(RANDOM.randbytes(1_050_000))


def test_a_send_to_a_deleted_topic_names_the_remedy_and_the_next_creates_it(
    bootstrap: str, connection: Connection, session: Session, orders: Queue
) -> None:
    """SEND-4: the error is the destination's; what was known of the topic is forgotten with it."""
    producer = session.create_producer(orders)
    producer.send("lost with its topic")
    delete(bootstrap, orders)
    with pytest.raises(errors.InvalidDestinationError, match=deleted(orders)) as caught:
        producer.send("refused")
    assert caught.value.destination == orders.name
    producer.send("a")
    delete(bootstrap, orders)
    told: list[Exception | None] = []
    producer.send("refused", on_completion=lambda message, error: told.append(error))
    producer.flush()
    assert [type(error) for error in told] == [errors.InvalidDestinationError]
    create_topic(bootstrap, orders.name)  # by somebody else, with fewer partitions
    producer.send("b")
    assert left(connection, orders) == ["b"]


def test_a_commit_to_a_deleted_topic_names_the_remedy_and_harms_no_other(
    bootstrap: str, connection: Connection, session: Session, orders: Queue
) -> None:
    """Of LOG-5: and the next commit creates it."""
    whole = Queue(f"{orders.name}.whole")
    lacking, other = (connection.create_session(AcknowledgeMode.TRANSACTED) for _ in range(2))
    producer = lacking.create_producer(orders)
    for queue in (orders, whole):
        session.create_producer(queue).send("known")
    delete(bootstrap, orders)
    producer.send("refused")
    refused = Aside(lacking.commit)
    other.create_producer(whole).send("b")
    other.commit()
    with pytest.raises(errors.TransactionRolledBackError, match=deleted(orders)) as caught:
        refused.result()
    assert caught.value.destination == orders.name
    assert isinstance(caught.value.__cause__, errors.InvalidDestinationError)
    producer.send("c")
    lacking.commit()
    assert left(connection, orders) == ["c"]
    assert sorted(map(str, left(connection, whole))) == ["b", "known"]


@pytest.fixture(scope="module")
def million(bootstrap: str) -> Queue:
    """Its topic takes 1,000,000 bytes."""
    return Queue(create_topic(bootstrap, f"{RUN}-million", config={"max.message.bytes": "1000000"}))


def send_both_ways(connection: Connection, queue: Queue, body: bytes, properties: dict[str, object]) -> list[str]:
    """How a plain send ends, and a transacted one with its commit."""
    outcomes = []
    for mode in (AcknowledgeMode.AUTO, AcknowledgeMode.TRANSACTED):
        with connection.create_session(mode) as session:
            producer = session.create_producer(queue)
            producer.disable_message_id = True  # no header of a length that only we know
            try:
                producer.send(body, properties=properties)
                outcomes.append("taken")
            except errors.MessageTooLargeError as error:
                outcomes.append("too large" if "raise max.message.bytes" in str(error) else str(error))
            if session.transacted:
                session.commit()
    return outcomes


FRAME_BYTES = 72
"""What a record without key and headers has beside a value of this size, and its batch."""


@pytest.mark.parametrize(
    ("body", "properties", "outcome"),
    [
        (b"x" * 2_000_000, {}, "taken"),
        (RANDOM.randbytes(2_000_000), {}, "too large"),
        (RANDOM.randbytes(1_000_000 - FRAME_BYTES), {}, "taken"),
        (RANDOM.randbytes(1_000_000 - FRAME_BYTES + 1), {}, "too large"),
        (RANDOM.randbytes(900_000), {"p": RANDOM.randbytes(200_000).hex()}, "too large"),
        (b"", {"p": "x" * 2_000_000}, "taken"),
    ],
    ids=["shrinks", "does not", "just fits", "just does not", "with its properties", "properties shrink"],
)
def test_plain_and_transacted_sends_are_judged_alike_by_size(
    connection: Connection, million: Queue, body: bytes, properties: dict[str, object], outcome: str
) -> None:
    """SEND-4: and what a transacted send takes the commit does not fail for."""
    assert send_both_ways(connection, million, body, properties) == [outcome, outcome]


@pytest.mark.parametrize(
    "body",
    [
        b"".join(number.to_bytes(8, "big") for number in range(180_000)),
        bytes(RANDOM.choices(b"01", k=1_400_000)),
        b"".join(RANDOM.choices([RANDOM.randbytes(4) for _ in range(100)], k=220_000)),
        b"".join(RANDOM.choices([RANDOM.randbytes(20) for _ in range(100)], k=80_000)),
    ],
    ids=["numbers", "two letters", "many short words", "longer words"],
)
def test_a_transacted_send_that_compression_may_just_make_fit_does_not_fail_its_commit(
    connection: Connection, million: Queue, body: bytes
) -> None:
    """ACK-7: kinds of data of which the producer's compression makes much more than the best ones do."""
    assert send_both_ways(connection, million, body, {}) in (["taken", "taken"], ["taken", "too large"])


@pytest.mark.parametrize("where", ["at the client", "at the topic"])
def test_a_transacted_send_counts_on_no_compression_where_there_is_none(
    bootstrap: str, connect: Connect, orders: Queue, where: str
) -> None:
    at_topic = {"compression.type": "uncompressed"} if where == "at the topic" else {}
    queue = Queue(create_topic(bootstrap, orders.name, config={"max.message.bytes": "1000000", **at_topic}))
    kafka = {} if at_topic else {"compression.type": "none"}
    connection = connect(kafka=kafka, namespace=orders.name)
    assert send_both_ways(connection, queue, b"x" * 2_000_000, {}) == ["too large", "too large"]


def test_a_send_larger_than_the_send_queue_waited_half_a_minute_and_blamed_kafka(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """SEND-4: it is refused at once, with the sizes, for it would never find room."""
    producer = session.create_producer(orders)
    began_s = time.monotonic()
    with pytest.raises(errors.MessageTooLargeError, match=r"a body of 100000000 bytes .* at most 67108864") as refused:
        producer.send(bytes(100_000_000))
    assert time.monotonic() - began_s < SEND_TIMEOUT_S / 3
    assert (refused.value.size_bytes, refused.value.max_message_bytes) == (100_000_000, 2**26)
    producer.send("next")
    assert left(connection, orders) == ["next"]
