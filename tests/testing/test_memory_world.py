"""A world in memory whose clock stands still until the test moves it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.core.jms_errors import (
    IllegalStateError,
    InvalidSettingError,
    InvalidTypeError,
    MessageTooLargeError,
    TransactionRolledBackError,
)
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from jbm_kafka.providers import in_memory
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.jms.support import bodies, receive, send

ORDERS, QUICK, DLQ = Queue("orders"), Queue("quick"), Queue("DLQ")
DAY_MS = 86_400_000
SETTINGS = {
    "#": AddressSettings(max_delivery_attempts=2, redelivery_delay_ms=DAY_MS, partitions=2),
    "quick": AddressSettings(redelivery_delay_ms=0),
}


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as made:
        yield made


@pytest.fixture
def connection(world: MemoryWorld) -> Iterator[Connection]:
    with world.factory(address_settings=SETTINGS).create_connection() as made:
        yield made


@pytest.fixture
def session(connection: Connection) -> Session:
    return connection.create_session(AcknowledgeMode.INDIVIDUAL)


@pytest.mark.parametrize("round_", range(20))
def test_a_nacked_message_comes_with_the_millisecond_it_is_due_and_not_before(
    world: MemoryWorld, session: Session, round_: int
) -> None:
    """Again and again: what the test did before is never counted from after, and what is due is always found."""
    send(session, ORDERS, "a", unit="joe")
    consumer = session.create_consumer(ORDERS)
    receive(consumer).nack(delay_ms=30_000)
    world.clock.advance(29_999)
    assert consumer.receive_nowait() is None
    world.clock.advance(1)
    again = consumer.receive_nowait()
    assert again is not None
    assert again.delivery_count == 2


def test_a_dead_letter_is_there_when_the_world_is_idle(world: MemoryWorld, session: Session) -> None:
    send(session, ORDERS, "bad")
    consumer = session.create_consumer(ORDERS)
    receive(consumer).nack()
    world.clock.advance(DAY_MS)
    receive(consumer).nack()
    world.wait_idle()
    [letter] = session.create_browser(Queue("DLQ"))
    assert (letter.body, letter.properties["_JBM_ORIG_DESTINATION"]) == ("bad", "queue:orders")
    assert bodies(session.create_browser(ORDERS, include="all")) == []


def given_up(connection: Connection) -> MessageConsumer:
    """A consumer of a queue whose first message has just been given back for the last time; one waits behind it."""
    session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
    send(session, QUICK, "bad", unit="joe")
    send(session, QUICK, "next", unit="joe")
    consumer = session.create_consumer(QUICK)
    receive(consumer).nack()
    receive(consumer).nack()
    return consumer


@pytest.mark.parametrize("round_", range(10))
def test_a_dead_letter_is_found_at_once_by_whoever_looks_into_its_queue(connection: Connection, round_: int) -> None:
    """It was still leaving: `receive_nowait` gave None now and then, and the tests of users failed by chance."""
    given_up(connection)
    letter = connection.create_session().create_consumer(DLQ).receive_nowait()
    assert letter is not None
    assert letter.body == "bad"


@pytest.mark.parametrize("round_", range(10))
def test_what_waits_behind_it_is_found_at_once_too(connection: Connection, round_: int) -> None:
    """The page told users to call `wait_idle` before."""
    following = given_up(connection).receive_nowait()
    assert following is not None
    assert following.body == "next"


def test_a_browser_sees_a_dead_letter_at_once(connection: Connection) -> None:
    """It said that the queue was empty."""
    given_up(connection)
    assert [message.body for message in connection.create_session().create_browser(DLQ)] == ["bad"]


def test_an_admin_sees_a_dead_letter_at_once(connection: Connection, world: MemoryWorld) -> None:
    given_up(connection)
    with Admin(world.url) as admin:
        assert [message.body for _, message in admin.dead_letters()] == ["bad"]


def test_a_world_that_never_rests_keeps_nobody_from_an_answer(connection: Connection) -> None:
    """The look waits for what is on its way, and not for what somebody else goes on sending."""
    busy, is_over = Queue("busy"), threading.Event()

    def work() -> None:
        session = connection.create_session()
        producer, consumer = session.create_producer(busy), session.create_consumer(busy)
        while not is_over.is_set():
            producer.send("a")
            consumer.receive(1.0)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        assert connection.create_session().create_consumer(Queue("quiet")).receive_nowait() is None
    finally:
        is_over.set()
        worker.join()


def test_a_delivery_delay_ends_and_a_message_expires_by_the_same_clock(world: MemoryWorld, session: Session) -> None:
    producer = session.create_producer(ORDERS)
    producer.send("later", delivery_delay_ms=1_000)
    producer.send("short-lived", time_to_live_ms=2_000)
    consumer = session.create_consumer(ORDERS)
    world.clock.advance(2_000)
    assert receive(consumer).body == "later"
    assert consumer.receive_nowait() is None
    world.wait_idle()
    assert bodies(session.create_browser(Queue("ExpiryQueue"))) == ["short-lived"]


def test_time_does_not_pass_by_itself(world: MemoryWorld, session: Session) -> None:
    before_ms = world.clock.now_ms()
    send(session, ORDERS, "a")
    consumer = session.create_consumer(ORDERS)
    receive(consumer).nack(delay_ms=1)
    assert consumer.receive(0.3) is None
    assert world.clock.now_ms() == before_ms


def test_messages_outlive_their_connections_while_the_world_is_open(world: MemoryWorld) -> None:
    for name in ("a", "b"):
        with world.factory().create_context() as jms:
            jms.create_producer().send(ORDERS, name)
    with world.factory().create_context() as jms:
        consumer = jms.create_consumer(ORDERS)
        assert {receive(consumer).body, receive(consumer).body} == {"a", "b"}


def test_a_connection_that_outlives_its_world_is_told(connection: Connection, world: MemoryWorld) -> None:
    consumer = connection.create_session().create_consumer(ORDERS)
    world.close()
    assert world.url.removeprefix("memory://") not in in_memory.worlds()
    with pytest.raises(IllegalStateError, match=f"^the memory world {world.url} is closed; make a new MemoryWorld"):
        consumer.receive(5.0)


def test_after_its_end_a_world_was_made_anew_in_silence_and_took_messages(world: MemoryWorld) -> None:
    said = f"^the memory world {world.url} is closed; make a new MemoryWorld"
    factory = world.factory()
    connection = factory.create_connection()
    connection.start()
    session = connection.create_session()
    producer, consumer = session.create_producer(ORDERS), session.create_consumer(ORDERS)
    transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
    transacted.create_producer(ORDERS).send("never committed")
    browser = session.create_browser(ORDERS)
    world.close()
    world.close()
    calls: list[Callable[[], object]] = [
        lambda: producer.send("a"),
        lambda: producer.send("a", on_completion=print),
        lambda: consumer.receive(1),
        lambda: session.create_producer(Queue("other")),
        lambda: session.create_consumer(Queue("other")),
        lambda: list(browser),
        factory.create_connection,
        world.factory,
        lambda: world.clock.advance(1),
        lambda: Admin(world.url),
    ]
    for call in calls:
        with pytest.raises(IllegalStateError, match=said):
            call()
    with pytest.raises(TransactionRolledBackError, match=f"^rolled back: {said[1:]}"):
        transacted.commit()
    connection.close()
    with MemoryWorld(world.url.removeprefix("memory://")) as again:
        again.factory().create_connection().close()


def test_a_name_in_use_is_refused(world: MemoryWorld) -> None:
    with pytest.raises(InvalidSettingError, match="is in use, with another clock"):
        MemoryWorld(world.url.removeprefix("memory://"))


@pytest.mark.parametrize("duration", [-1, 0.5, "1", True, 10**20])
def test_a_clock_goes_forward_by_whole_milliseconds(world: MemoryWorld, duration: object) -> None:
    before_ms = world.clock.now_ms()
    kind = InvalidSettingError if duration in (-1, 10**20) else InvalidTypeError
    with pytest.raises(kind, match="it is an int of milliseconds from 0 to 31622400000000"):
        world.clock.advance(duration)  # type: ignore[arg-type]
    assert world.clock.now_ms() == before_ms


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"^name is 5: it is a str, or None"):
        MemoryWorld(5)  # type: ignore[arg-type]


def test_messages_are_stamped_by_the_clock_of_the_world(world: MemoryWorld, session: Session) -> None:
    world.clock.advance(DAY_MS)
    send(session, ORDERS, "a", unit="joe")
    assert receive(session.create_consumer(ORDERS)).timestamp == world.clock.now_ms()


def test_a_size_is_compared_as_if_the_message_were_compressed(session: Session) -> None:
    """docs/testing.md said that there is no compression, and two megabytes of one letter passed."""
    producer = session.create_producer(ORDERS)
    producer.send("x" * 2_000_000)
    with pytest.raises(MessageTooLargeError):
        producer.send(secrets.token_bytes(2_000_000))


def test_a_second_factory_with_other_settings_is_told_why_they_are_shared(world: MemoryWorld) -> None:
    """It was told of a sidecar, which no page for applications knows."""
    with world.factory(address_settings=SETTINGS).create_connection(), world.factory().create_connection():
        other = world.factory(address_settings={"#": AddressSettings(max_delivery_attempts=5)})
        with pytest.raises(InvalidSettingError, match=r"^address_settings is .* share these settings: ") as told:
            other.create_connection()
    assert "sidecar" not in str(told.value)
