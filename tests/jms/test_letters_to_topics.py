"""Dead-letter and expiry addresses that are topics: each subscription gets its copy, and a letter never multiplies."""

import re
import uuid
from collections.abc import Callable, Iterator

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Message, Queue, Topic, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from tests.jms.support import NOTHING_S, bodies, eventually, left, receive, send

Connect = Callable[..., Connection]


@pytest.fixture
def run() -> str:
    return f"letters-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def orders(run: str) -> Queue:
    return Queue(f"{run}.orders")


@pytest.fixture
def letters(run: str) -> Topic:
    return Topic(f"{run}.letters")


@pytest.fixture
def factory(bootstrap: str, run: str, letters: Topic) -> ConnectionFactory:
    """What fails goes to the topic at its first attempt; there it may fail twice."""
    settings = AddressSettings(
        partitions=1, max_delivery_attempts=1, dead_letter_address=letters, expiry_address=letters
    )
    return ConnectionFactory(
        bootstrap,
        client_id=run,
        namespace=run,
        address_settings={"#": settings, letters.name: AddressSettings(max_delivery_attempts=2)},
        session_timeout_ms=3_000,
        checkpoint_interval_ms=20,
    )


@pytest.fixture
def connection(factory: ConnectionFactory) -> Iterator[Connection]:
    with factory.create_connection() as made:
        made.start()
        yield made


@pytest.fixture
def session(connection: Connection) -> Session:
    return connection.create_session(AcknowledgeMode.INDIVIDUAL)


def fail(session: Session, queue: Queue, *texts: str) -> None:
    """Send and refuse messages; whoever looks later finds their letters."""
    send(session, queue, *texts, unit="joe")
    with session.create_consumer(queue) as consumer:
        for _ in texts:
            receive(consumer).nack()


def take(consumer: MessageConsumer, count: int) -> list[Message]:
    """Receive and acknowledge so many."""
    found = []
    for _ in range(count):
        found.append(receive(consumer))
        found[-1].acknowledge()
    return found


def test_each_subscription_of_the_topic_gets_the_letter_once(
    connection: Connection, session: Session, orders: Queue, letters: Topic
) -> None:
    """Of REDELIVER-3, of REDELIVER-4: also a durable one that is closed meanwhile."""
    desk = session.create_durable_consumer(letters, "desk")
    session.create_durable_consumer(letters, "archive").close()
    fail(session, orders, "one", "two")
    found = take(desk, 2)
    assert bodies(found) == ["one", "two"], "one unit, in order"
    assert [message.destination for message in found] == [letters, letters]
    assert [message.unit_of_order for message in found] == ["joe", "joe"]
    assert [message.properties["_JBM_ORIG_DESTINATION"] for message in found] == [str(orders)] * 2
    assert [message.properties["_JBM_ORIG_OFFSET"] for message in found] == [0, 1]
    assert {message.properties["_JBM_DEAD_LETTER_REASON"] for message in found} == {"max-delivery-attempts"}
    assert {message.properties["_JBM_DELIVERY_COUNT"] for message in found} == {1}
    assert {message.delivery_count for message in found} == {1}
    archive = session.create_durable_consumer(letters, "archive")
    assert bodies(take(archive, 2)) == ["one", "two"]
    assert (desk.receive(NOTHING_S), archive.receive(NOTHING_S)) == (None, None)
    assert left(connection, orders) == []


def test_what_expired_goes_to_the_topic_too(session: Session, orders: Queue, letters: Topic) -> None:
    """Of SEND-5: with its original destination, id and actual expiry time, and without its expiry."""
    desk = session.create_durable_consumer(letters, "desk")
    sent = session.create_text_message("late")
    session.create_producer(orders).send(sent, time_to_live_ms=1)
    with session.create_consumer(orders) as consumer:
        assert consumer.receive(NOTHING_S) is None
        message = receive(desk)
    assert (message.body, message.destination, message.expiration) == ("late", letters, 0)
    assert message.properties["_JBM_ORIG_DESTINATION"] == str(orders)
    assert message.properties["_JBM_ORIG_MESSAGE_ID"] == sent.message_id == message.message_id
    assert int(str(message.properties["_JBM_ACTUAL_EXPIRY"])) > 0


def test_a_letter_that_nobody_subscribed_for_is_told_and_is_in_the_log_only(
    connection: Connection, session: Session, orders: Queue, letters: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    """TOPIC-1 holds for letters: who subscribes later gets what leaves from then on."""
    told = f"messages leave for {letters}, which has no subscription"
    fail(session, orders, "nobody's")
    eventually(lambda: left(connection, orders) == [], "the departure")
    eventually(lambda: told in caplog.text, "the warning")
    fail(session, orders, "nobody's either")
    eventually(lambda: left(connection, orders) == [], "the departure")
    desk = session.create_durable_consumer(letters, "desk")
    fail(session, orders, "somebody's")
    message = receive(desk)
    assert message.body == "somebody's"
    assert message.kafka is not None
    assert message.kafka.offset >= 2, "the others are in the log"
    assert caplog.text.count(told) == 1


def test_a_letter_that_fails_at_every_subscription_never_multiplies(
    session: Session, orders: Queue, letters: Topic
) -> None:
    """Decision 43, of REDELIVER-3: the topic is its own dead-letter address, so it is tried there without end."""
    one, two = (session.create_durable_consumer(letters, name) for name in ("one", "two"))
    fail(session, orders, "bad")
    for attempt in range(1, 5):  # its own limit is 2
        for consumer in (one, two):
            message = receive(consumer)
            assert (message.body, message.delivery_count) == ("bad", attempt)
            message.nack()


@pytest.mark.parametrize("made_before", [True, False])
def test_an_address_of_the_other_kind_is_refused_with_the_cause(
    bootstrap: str, run: str, orders: Queue, made_before: bool
) -> None:
    """A name is a queue or a topic: what is a queue is no topic, and the other way round."""
    other = f"{run}.other"
    made, wanted = (Queue(other), Topic(other)) if made_before else (Topic(other), Queue(other))
    settings = AddressSettings(partitions=1, dead_letter_address=wanted)
    factory = ConnectionFactory(bootstrap, namespace=run, address_settings={orders.name: settings})
    with factory.create_connection() as connection:
        session = connection.create_session()
        session.create_producer(made).send("x")
        written = other if made_before else f"topic:{other}"
        with pytest.raises(
            errors.InvalidDestinationError,
            match=r"address '.*' cannot be used: .* and a name is either; "
            rf"write dead_letter_address={re.escape(written)} where it is set, or: jbm-kafka settings set",
        ):
            session.create_consumer(orders)


def test_without_auto_create_the_remedy_makes_a_topic(
    bootstrap: str, run: str, session: Session, orders: Queue
) -> None:
    """A topic that was made as a queue would be refused again."""
    send(session, orders, "x")
    settings = AddressSettings(partitions=1, dead_letter_address=Topic(f"{run}.missing"))
    factory = ConnectionFactory(bootstrap, namespace=f"{run}-b", address_settings={"#": settings}, auto_create=False)
    remedy = f"jbm-kafka create {run}.missing --topic" if "memory" not in bootstrap else "auto_create=True"
    with (
        factory.create_connection() as connection,
        pytest.raises(errors.InvalidDestinationError, match=re.escape(remedy)),
    ):
        connection.create_session().create_consumer(orders)
