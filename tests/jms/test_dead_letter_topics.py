"""Dead letters reach a topic that takes little, and one that was deleted while its queue was received from."""

import random
from collections.abc import Iterator

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.jms.connection import Connection
from tests.conftest import MakeTopic
from tests.jms.support import copies, eventually, left, receive, send
from tests.support.topics import admin_client, delete_topics


@pytest.fixture
def letters(make_topic: MakeTopic, kafka_name: str) -> Queue:
    """Takes less than what our producer puts into one batch."""
    return Queue(make_topic(".letters", config={"max.message.bytes": "10000"}))


@pytest.fixture(params=["auto_create", "no auto_create"])
def connection(request: pytest.FixtureRequest, bootstrap: str, kafka_name: str, letters: Queue) -> Iterator[Connection]:
    settings = AddressSettings(partitions=1, max_delivery_attempts=1, dead_letter_address=letters.name)
    factory = ConnectionFactory(
        bootstrap,
        namespace=kafka_name,
        address_settings={"#": settings},
        auto_create=request.param == "auto_create",
        session_timeout_ms=3_000,
        checkpoint_interval_ms=20,
    )
    with factory.create_connection() as connection:
        connection.start()
        yield connection


@pytest.fixture
def orders(make_topic: MakeTopic) -> Queue:
    return Queue(make_topic(".orders"))


@pytest.mark.parametrize("connection", ["auto_create"], indirect=True)
def test_letters_that_fit_leave_although_their_batch_would_not(
    connection: Connection, orders: Queue, letters: Queue
) -> None:
    """Of REDELIVER-4: of 12 letters that failed together 10 never left, each fitted and their batch did not."""
    session = connection.create_session(AcknowledgeMode.TRANSACTED)
    chance = random.Random(1)
    texts = ["".join(chance.choices("0123456789abcdef", k=5_000)) for _ in range(12)]
    send(session, orders, *texts)
    session.commit()
    consumer = session.create_consumer(orders)
    for _ in texts:
        receive(consumer)
    session.rollback()
    eventually(lambda: len(copies(connection, letters, orders)) == 12, "the letters")
    assert sorted(str(letter.body) for letter in copies(connection, letters, orders)) == sorted(texts)


@pytest.mark.thorough
def test_a_dead_letter_topic_deleted_meanwhile_is_found_again(
    request: pytest.FixtureRequest,
    bootstrap: str,
    make_topic: MakeTopic,
    connection: Connection,
    orders: Queue,
    letters: Queue,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of REDELIVER-4: made anew where that is allowed, else told with the remedy and tried again; other units go on."""
    is_ours_to_create = "[auto_create]" in request.node.nodeid
    session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
    send(session, orders, "bad", unit="bad")
    send(session, orders, "good", unit="good")
    consumer = session.create_consumer(orders)
    bad, good = receive(consumer), receive(consumer)
    delete_topics(bootstrap, [letters.name])
    # A copy that is written while the topic goes would go with it.
    eventually(lambda: letters.name not in admin_client(bootstrap).list_topics(timeout=10).topics, "the deletion")
    bad.nack()
    good.acknowledge()
    if not is_ours_to_create:
        eventually(lambda: "jbm-kafka create" in caplog.text, "the remedy")
        eventually(lambda: left(connection, orders) == ["bad"], "the other unit")
        make_topic(".letters")
    eventually(lambda: left(connection, orders) == [], "the departure")
    assert [letter.body for letter in copies(connection, letters, orders)] == ["bad"]
