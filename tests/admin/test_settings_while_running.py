"""Address settings in the registry: a running process goes by them, on a Kafka and in a world in memory."""

from __future__ import annotations

import logging

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.jms.consumer import MessageConsumer
from tests.jms.support import bodies, eventually, group_worker_behind, receive

ORDERS = Queue("orders")
OURS = {"orders": AddressSettings(max_delivery_attempts=5, partitions=1)}


@pytest.fixture
def orders(kafka_name: str) -> Queue:
    return Queue(f"{kafka_name}.orders")


@pytest.fixture
def factory(url: str, kafka_name: str, admin: Admin, orders: Queue) -> ConnectionFactory:
    ours = {orders.name: AddressSettings(max_delivery_attempts=5, partitions=1)}
    return ConnectionFactory(url, namespace=kafka_name, address_settings=ours)


def taken_over(consumer: MessageConsumer, **wanted: object) -> None:
    """Return when the process goes by these settings."""

    def is_so() -> bool:
        now = group_worker_behind(consumer).data.settings
        return now is not None and all(getattr(now, name) == value for name, value in wanted.items())

    eventually(is_so, f"{wanted} does not hold")


def test_a_running_process_goes_by_what_is_set_and_loses_no_count(
    admin: Admin, factory: ConnectionFactory, orders: Queue, kafka_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """REDELIVER-6, of REDELIVER-3: the attempt before the change counts, and the next failure is the last."""
    failed = f"{kafka_name}.failed"
    with factory.create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        jms.create_producer().send(orders, "poison", unit_of_order="joe")
        consumer = jms.create_consumer(orders)
        receive(consumer).nack()
        with caplog.at_level(logging.WARNING, "jbm_kafka"):
            admin.set_address_settings("#", AddressSettings(max_delivery_attempts=2, dead_letter_address=failed))
            taken_over(consumer, max_delivery_attempts=2, dead_letter_address=failed)
        assert [line for line in caplog.messages if "is 2, as the registry says for '#', and not 5" in line]
        message = receive(consumer)
        assert message.delivery_count == 2
        message.nack()
        eventually(lambda: admin.exists(failed) and bodies(admin.browse(failed)) == ["poison"], "it did not leave")
        admin.unset_address_settings("#", "max_delivery_attempts")
        taken_over(consumer, max_delivery_attempts=5, dead_letter_address=failed)


def test_what_is_set_holds_after_a_restart_and_for_what_is_made_and_sent_from_then_on(
    admin: Admin, factory: ConnectionFactory, orders: Queue
) -> None:
    """REDELIVER-6, of UNIT-10: with nobody running when it was set."""
    admin.set_address_settings(orders.name, AddressSettings(partitions=3, default_unit_of_order="all"))
    for _ in range(2):
        with factory.create_context() as jms:
            sent = jms.create_producer().send(orders, "a")
            assert sent.unit_of_order == "all"
    assert len(admin.counts(orders).partitions) == 3
    assert admin.address_settings() == {orders.name: AddressSettings(partitions=3, default_unit_of_order="all")}
    admin.unset_address_settings(orders.name)
    assert admin.address_settings() == {}


def test_a_delay_that_is_set_holds_for_the_next_failure(
    admin: Admin, factory: ConnectionFactory, orders: Queue
) -> None:
    """Of REDELIVER-6: and not for what waits already."""
    with factory.create_context(AcknowledgeMode.INDIVIDUAL) as jms:
        for name in ("a", "b"):
            jms.create_producer().send(orders, name, unit_of_order=name)
        consumer = jms.create_consumer(orders)
        first, second = receive(consumer), receive(consumer)
        admin.set_address_settings("#", AddressSettings(redelivery_delay_ms=3_600_000))
        taken_over(consumer, redelivery_delay_ms=3_600_000)
        second.nack()
        admin.set_address_settings("#", AddressSettings(redelivery_delay_ms=0))
        taken_over(consumer, redelivery_delay_ms=0)
        first.nack()
        again = receive(consumer)
        assert (again.body, again.delivery_count) == (first.body, 2)
        assert consumer.receive(0) is None
        again.acknowledge()


def test_a_topic_given_as_a_queue_for_an_address_is_refused_and_nothing_is_recorded(
    admin: Admin, kafka_name: str
) -> None:
    """It was recorded, and every receiver of the queue was refused from then on."""
    letters = f"{kafka_name}.letters"
    admin.create_topic(letters)
    with pytest.raises(InvalidSettingError, match=f"write expiry_address=topic:{letters} where it is set"):
        admin.set_address_settings("orders", AddressSettings(expiry_address=letters))
    assert admin.address_settings() == {}
    admin.set_address_settings("orders", AddressSettings(expiry_address=Topic(letters)))


def test_letters_were_sent_to_a_topic_that_nobody_subscribed_to_without_a_word(
    admin: Admin, factory: ConnectionFactory, kafka_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of REDELIVER-6: recorded, for who may subscribe later; warned of when it is set, not when one is lost."""
    letters = Topic(f"{kafka_name}.letters")
    told = f" is {letters}, which has no subscription: nobody gets what leaves for it"
    settings = AddressSettings(dead_letter_address=letters, expiry_address=letters)
    admin.set_address_settings("orders", settings)
    first, second = caplog.messages
    assert (told in first, told in second) == (True, True)
    assert (first.partition(" ")[0], second.partition(" ")[0]) == ("dead_letter_address", "expiry_address")
    assert first.endswith(f"of {letters.name} first (create_shared_durable_consumer), or name a queue")
    assert admin.address_settings("orders") == {"orders": settings}
    with factory.create_context(AcknowledgeMode.CLIENT) as jms:
        jms.create_shared_durable_consumer(letters, "audit").close()
    caplog.clear()
    admin.set_address_settings("orders", settings)
    assert caplog.messages == []


def test_what_cannot_be_set_is_refused_and_nothing_is_recorded(admin: Admin) -> None:
    with pytest.raises(InvalidSettingError, match=r"'a#'.*whole words"):
        admin.set_address_settings("a#", AddressSettings())
    with pytest.raises(InvalidSettingError, match="below 2"):
        admin.set_address_settings("a", AddressSettings(max_delivery_attempts=2**64))
    with pytest.raises(
        InvalidSettingError, match="'attempts' is not an address setting; known are max_delivery_attempts"
    ):
        admin.unset_address_settings("a", "attempts")
    assert admin.address_settings() == {}


def test_letters_were_sent_to_a_misspelt_queue_without_a_word(
    admin: Admin, kafka_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The command of the terminal said so, and Python did not."""
    letters = Queue(f"{kafka_name}.lettres")
    settings = AddressSettings(dead_letter_address=letters.name)
    admin.set_address_settings("orders", settings)
    (told,) = caplog.messages
    assert told.startswith(f"dead_letter_address is {letters}, which is not there: ")
    assert admin.address_settings("orders") == {"orders": settings}
    admin.create_queue(letters)
    caplog.clear()
    admin.set_address_settings("orders", settings)
    assert caplog.messages == []
