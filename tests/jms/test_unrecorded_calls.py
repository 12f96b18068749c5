"""What an application hears while Kafka refuses to record what it says: each call that would be in vain, and once the
listener."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Message, MessageConsumer, Queue
from jbm_kafka.errors import JMSError, JMSSecurityError, TransactionRolledBackError
from jbm_kafka.jms.connection import Connection
from jbm_kafka.providers.in_memory import use_world
from tests.jms.support import receive, receive_all, send
from tests.support.amqp_server import amqp_server
from tests.support.waiting import wait_until

ORDERS = Queue("orders")
CHANGELOG = ORDERS.changelog_topic()
SOON_S = 10.0


class Denied:
    """A world in which the changelog of the orders may be made read-only."""

    def __init__(self, name: str) -> None:
        self.url, self.name = f"memory://{name}", name
        self._used = use_world(name)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While the block runs nobody may write there."""
        self._used.cluster.faults.denied = frozenset({CHANGELOG})
        try:
            yield
        finally:
            self._used.cluster.faults.denied = frozenset()

    def let_go(self) -> None:
        self._used.let_go()


@pytest.fixture
def world(kafka_name: str) -> Iterator[Denied]:
    made = Denied(kafka_name)
    yield made
    made.let_go()


@pytest.fixture
def connection(world: Denied) -> Iterator[Connection]:
    settings = {"#": AddressSettings(partitions=1)}
    with ConnectionFactory(world.url, address_settings=settings).create_connection() as made:
        send(made.create_session(), ORDERS, *"abcdefgh")
        yield made


def received_again(consumer: MessageConsumer) -> Message:
    """The first message that comes once it is recorded again."""

    def received() -> Message | None:
        try:
            return receive(consumer)
        except JMSSecurityError:
            return None

    return wait_until(received, about="it receives again", timeout_s=SOON_S)


def test_nothing_was_recorded_and_no_call_said_so(world: Denied, connection: Connection) -> None:
    """LOG-12: messages went out and were acknowledged, and a new owner began again at the first."""
    heard: list[JMSError] = []
    connection.exception_listener = heard.append
    session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
    consumer = session.create_consumer(ORDERS)
    first, second = receive(consumer), receive(consumer)
    with world.writing():
        first.acknowledge()
        wait_until(lambda: bool(heard), about="the exception listener is called", timeout_s=SOON_S)
        assert (type(heard[0]), heard[0].topic) == (JMSSecurityError, CHANGELOG)
        for _ in range(3):
            with pytest.raises(JMSSecurityError, match=CHANGELOG):
                consumer.receive(timeout=0.01)
        with pytest.raises(JMSSecurityError, match=CHANGELOG):
            second.acknowledge()
        with pytest.raises(JMSSecurityError, match=CHANGELOG):
            session.acknowledge()
        health = connection.health()
        assert (health.is_alive, health.is_ready) == (True, False)
        assert CHANGELOG in health.reasons[0]
    wait_until(lambda: connection.health().is_ready, about="it is recorded again", timeout_s=SOON_S)
    second.acknowledge()
    assert receive(consumer).body == "c"
    assert len(heard) == 1


def test_a_listener_that_gets_nothing_more_is_told_once(world: Denied, connection: Connection) -> None:
    heard: list[JMSError] = []
    connection.exception_listener = heard.append
    session = connection.create_session(AcknowledgeMode.AUTO)
    got: list[object] = []
    with world.writing():
        session.create_consumer(ORDERS).set_listener(lambda message: got.append(message.body))
        wait_until(lambda: bool(heard), about="the exception listener is called", timeout_s=SOON_S)
    wait_until(lambda: len(got) == 8, about="the others come", timeout_s=SOON_S)
    assert got == list("abcdefgh")
    assert [type(error) for error in heard] == [JMSSecurityError]


def test_a_blocking_acknowledgement_waits_for_no_right(world: Denied) -> None:
    factory = ConnectionFactory(world.url, block_on_acknowledge=True)
    with factory.create_connection() as connection:
        send(connection.create_session(), ORDERS, "a")
        consumer = connection.create_session(AcknowledgeMode.CLIENT).create_consumer(ORDERS)
        message = receive(consumer)
        with world.writing(), pytest.raises(JMSSecurityError, match=CHANGELOG):
            message.acknowledge()


def test_a_commit_is_rolled_back_and_says_for_want_of_which_right(world: Denied, connection: Connection) -> None:
    session = connection.create_session(AcknowledgeMode.TRANSACTED)
    consumer = session.create_consumer(ORDERS)
    first = receive(consumer).body
    with world.writing(), pytest.raises(TransactionRolledBackError, match=CHANGELOG) as raised:
        session.commit()
    assert isinstance(raised.value.__cause__, JMSSecurityError)
    assert received_again(consumer).body == first
    session.commit()


def test_an_amqp_client_is_told_by_the_end_of_its_link(world: Denied, connection: Connection) -> None:
    with amqp_server(world.name) as url, ConnectionFactory(url).create_connection() as remote:
        consumer = remote.create_session(AcknowledgeMode.CLIENT).create_consumer(ORDERS)
        message = receive(consumer)
        with world.writing():
            message.acknowledge()
            with pytest.raises(JMSSecurityError, match=CHANGELOG):
                receive_all(consumer, 8)
        received_again(consumer)
