"""A dead letter says why its last attempt failed, whoever gave the message back while an exception was handled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Message, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.admin.dead_letters.letters import DeadLetter
from jbm_kafka.jms.connection import Connection
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.jms.support import receive, send
from tests.support.waiting import wait_until

ORDERS, DLQ = Queue("orders"), Queue("DLQ")
SETTINGS = {"#": AddressSettings(max_delivery_attempts=1, partitions=1)}
CAUSE = "ValueError: no such customer"


def fail(message: Message | None = None) -> None:
    raise ValueError("no such customer")


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as made:
        yield made


@pytest.fixture
def connection(world: MemoryWorld) -> Iterator[Connection]:
    with world.factory(address_settings=SETTINGS).create_connection() as made:
        send(made.create_session(), ORDERS, "bad", unit="joe")
        yield made


def the_letter(world: MemoryWorld) -> DeadLetter:
    with Admin(world.url) as admin:
        ((letter, _),) = admin.dead_letters()
        return letter


def by_listener(connection: Connection) -> None:
    connection.create_session().create_consumer(ORDERS).set_listener(fail)


def by_session_block(connection: Connection) -> None:
    with pytest.raises(ValueError, match="no such"), connection.create_session() as session:
        fail(receive(session.create_consumer(ORDERS)))


def by_transaction(connection: Connection) -> None:
    session = connection.create_session(AcknowledgeMode.TRANSACTED)
    consumer = session.create_consumer(ORDERS)
    with pytest.raises(ValueError, match="no such"), session.transaction():
        fail(receive(consumer))


def by_nack(connection: Connection) -> None:
    message = receive(connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(ORDERS))
    try:
        fail()
    except ValueError:
        message.nack()


def by_rollback(connection: Connection) -> None:
    session = connection.create_session(AcknowledgeMode.TRANSACTED)
    receive(session.create_consumer(ORDERS))
    try:
        fail()
    except ValueError:
        session.rollback()


@pytest.mark.parametrize("give_up", [by_listener, by_session_block, by_transaction, by_nack, by_rollback])
def test_a_dead_letter_says_what_its_last_attempt_failed_with(
    world: MemoryWorld, connection: Connection, give_up: Callable[[Connection], None]
) -> None:
    """It stood in the log of a worker alone, if at all."""
    give_up(connection)
    wait_until(lambda: _has_one(world), about="the dead letter", timeout_s=30)
    letter = the_letter(world)
    assert (letter.last_error, letter.origin.reason) == (CAUSE, "max-delivery-attempts")
    shown = receive(connection.create_session().create_consumer(DLQ))
    assert shown.properties["_JBM_LAST_ERROR"] == CAUSE


def _has_one(world: MemoryWorld) -> bool:
    with Admin(world.url) as admin:
        return admin.exists(DLQ) and any(True for _ in admin.dead_letters())


def test_a_nack_outside_of_any_exception_says_nothing(world: MemoryWorld, connection: Connection) -> None:
    receive(connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(ORDERS)).nack()
    assert the_letter(world).last_error is None


def test_a_letter_that_is_sent_again_tells_nothing_of_it_any_more(world: MemoryWorld, connection: Connection) -> None:
    """It describes the last hop: the next failure has its own."""
    by_nack(connection)
    with Admin(world.url) as admin:
        admin.retry_dead_letters(timeout_s=0)
    again = receive(connection.create_session().create_consumer(ORDERS))
    assert "_JBM_LAST_ERROR" not in again.properties
