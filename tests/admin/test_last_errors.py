"""A message that waits for its next attempt tells why its latest one failed, from its topics alone (REDELIVER-10)."""

from __future__ import annotations

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from tests.jms.support import eventually, receive

WHY = "LookupError: no card 4711"
LONG_MS = 3_600_000


@pytest.fixture
def factory(url: str, kafka_name: str, admin: Admin) -> ConnectionFactory:
    settings = {"#": AddressSettings(max_delivery_attempts=2, redelivery_delay_ms=LONG_MS, partitions=1)}
    return ConnectionFactory(url, namespace=kafka_name, address_settings=settings)


@pytest.fixture
def orders(kafka_name: str) -> Queue:
    return Queue(kafka_name)


def fail_once(factory: ConnectionFactory, orders: Queue) -> None:
    """A message of unit joe is handed over and comes back, and the process that had it is gone."""
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        session.create_producer(orders).send("pay", unit_of_order="joe")
        with session.create_consumer(orders) as consumer:
            try:
                raise LookupError("no card 4711")
            except LookupError:
                receive(consumer).nack()


def test_explain_and_browse_tell_it_when_the_process_that_had_it_is_gone(
    admin: Admin, factory: ConnectionFactory, orders: Queue
) -> None:
    """REDELIVER-10: the log of that process had it, and nobody else."""
    fail_once(factory, orders)

    [found] = admin.explain(orders, unit="joe").messages
    assert found.last_error == WHY
    assert found.reasons[0].text.endswith(f"waits for its redelivery delay; its last attempt failed with {WHY}")
    assert [message.last_error for message in admin.browse(orders, include="all")] == [WHY]


def test_a_new_owner_tells_it_and_its_letter_has_it(admin: Admin, factory: ConnectionFactory, orders: Queue) -> None:
    """Of REDELIVER-10, REDELIVER-4: a letter of which another process decides had no last error."""
    fail_once(factory, orders)
    with factory.create_connection() as connection:
        with connection.create_session().create_consumer(orders) as consumer:
            assert consumer.receive(timeout=0.5) is None
            [found] = admin.explain(orders, unit="joe").messages
            assert found.reasons[0].text.endswith(f"its last attempt failed with {WHY}")
            admin.send_to_dead_letter(orders, unit="joe")
        eventually(lambda: bool(list(admin.dead_letters(origin=orders))), "the letter")
    assert [letter.last_error for letter, _ in admin.dead_letters(origin=orders)] == [WHY]


def test_what_never_failed_has_none(admin: Admin, factory: ConnectionFactory, orders: Queue) -> None:
    """Of REDELIVER-10."""
    with factory.create_connection() as connection:
        connection.create_session().create_producer(orders).send("pay")
    assert [message.last_error for message in admin.browse(orders, include="all")] == [None]
