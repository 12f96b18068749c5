"""Units on hold are released by an operator: on Kafka and in memory, while somebody receives and while nobody does."""

from __future__ import annotations

import os
import platform
import time
from functools import partial

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.core.channel.process_names import process_name
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from jbm_kafka.kafka import ConfluentKafka
from tests.jms.support import bodies, eventually, receive
from tests.kafka.world import consume_until, member

HOLD = {"#": AddressSettings(max_delivery_attempts=2, on_dead_letter="hold", partitions=2)}
PATIENCE_S = 20.0


@pytest.fixture
def factory(url: str, kafka_name: str, admin: Admin) -> ConnectionFactory:
    return ConnectionFactory(url, namespace=kafka_name, address_settings=HOLD)


@pytest.fixture
def orders(kafka_name: str) -> Queue:
    return Queue(kafka_name)


def hold(session: Session, orders: Queue) -> None:
    """Unit joe waits for an operator, with one message behind the one that failed."""
    producer = session.create_producer(orders)
    producer.send("bad", unit_of_order="joe")
    producer.send("behind it", unit_of_order="joe")
    with session.create_consumer(orders) as consumer:
        for _ in range(2):
            receive(consumer).nack()
        assert consumer.receive(timeout=0.5) is None


def test_a_release_waited_a_minute_for_a_frozen_process_without_a_word(
    bootstrap: str, kafka_name: str, orders: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """Of UNIT-16: for whom, and how long at most; and at the end it said "nobody answered"."""
    with Admin(bootstrap, namespace=kafka_name) as admin:
        factory = ConnectionFactory(bootstrap, namespace=kafka_name, address_settings=HOLD)
        with factory.create_connection() as connection:
            hold(connection.create_session(AcknowledgeMode.INDIVIDUAL), orders)
        topic, group = orders.kafka_topic(kafka_name), orders.group_id(kafka_name)
        frozen = member(ConfluentKafka(bootstrap), group, topic, partitions=2)
        consume_until(lambda: bool(frozen.assignment()), frozen)
        name = process_name(platform.node(), os.getpid())
        caplog.clear()
        with pytest.raises(JMSError, match=f"{name} did not answer for partition [01] within 4 s: "):
            admin.release(orders, "joe", timeout_s=4)
        (line,) = [line for line in caplog.messages if "waits for" in line]
        assert line.startswith(f"release {topic} waits for {name}, which has partition ")
        assert line.endswith(" and did not answer yet; 1 s more at most")
        frozen.close()


def letters(admin: Admin, orders: Queue) -> list[tuple[object, str | None, int | None]]:
    """Those of the queue, as they come."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        found = [
            (message.body, letter.reason, letter.origin.delivery_count)
            for letter, message in admin.dead_letters(origin=orders)
        ]
        if found or time.monotonic() > until_s:
            return found


def fail_twice(consumer: MessageConsumer) -> None:
    """A handler that failed for another reason each time."""
    for why in ("first", "last"):
        try:
            raise KeyError(why)
        except KeyError:
            receive(consumer).nack()


def test_why_it_failed_is_told_while_it_is_on_hold_and_in_its_letter(
    admin: Admin, factory: ConnectionFactory, orders: Queue
) -> None:
    """The letter of a released message had no last error, and `explain` told none."""

    def told(why: str) -> bool:
        found = admin.explain(orders, unit="joe").messages
        return any(row.reasons[0].text.endswith(f"; its last attempt failed with {why}") for row in found)

    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        session.create_producer(orders).send("bad", unit_of_order="joe")
        with session.create_consumer(orders) as consumer:
            fail_twice(consumer)
            eventually(lambda: told("KeyError: 'last'"), "explain tells why it failed")
            admin.release(orders, "joe")
            assert letters(admin, orders) == [("bad", "max-delivery-attempts", 2)]
            assert [letter.last_error for letter, _ in admin.dead_letters(origin=orders)] == ["KeyError: 'last'"]


def test_what_an_operator_gives_up_while_it_is_on_hold_keeps_why_it_failed(
    admin: Admin, factory: ConnectionFactory, orders: Queue
) -> None:
    """Its letter had no last error, though the process that counted the attempt still ran."""
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        session.create_producer(orders).send("bad", unit_of_order="ann")
        with session.create_consumer(orders) as consumer:
            fail_twice(consumer)
            eventually(lambda: admin.counts(orders).for_operator == 1, "it is on hold")
            assert len(admin.send_to_dead_letter(orders, unit="ann").messages) == 1
            assert letters(admin, orders) == [("bad", "operator", 2)]
            assert [letter.last_error for letter, _ in admin.dead_letters(origin=orders)] == ["KeyError: 'last'"]


def test_a_release_dead_letters_what_holds_the_unit_while_somebody_receives(
    admin: Admin, factory: ConnectionFactory, orders: Queue
) -> None:
    """UNIT-16."""
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        hold(session, orders)
        with session.create_consumer(orders) as consumer:
            assert consumer.receive(timeout=0.5) is None
            dry = admin.release(orders, "joe", dry_run=True)
            assert [(each.unit, each.attempts) for each in dry.messages] == [("joe", 2)]
            report = admin.release(orders, "joe")
            assert (report.messages, report.gone) == (dry.messages, [])
            message = receive(consumer)
            assert message.body == "behind it"
            message.acknowledge()
    assert letters(admin, orders) == [("bad", "max-delivery-attempts", 2)]
    assert not admin.release(orders, "joe").messages


def test_a_release_while_nobody_receives(admin: Admin, factory: ConnectionFactory, orders: Queue) -> None:
    """UNIT-16."""
    with factory.create_connection() as connection:
        hold(connection.create_session(AcknowledgeMode.INDIVIDUAL), orders)
    assert not admin.release(orders, "nobody").messages
    assert [each.unit for each in admin.release(orders, everything=True).messages] == ["joe"]
    assert letters(admin, orders) == [("bad", "max-delivery-attempts", 2)]
    assert bodies(admin.browse(orders)) == ["behind it"]
    with factory.create_context() as jms:
        assert receive(jms.create_consumer(orders)).body == "behind it"


def test_a_released_message_may_be_tried_again(admin: Admin, factory: ConnectionFactory, orders: Queue) -> None:
    """UNIT-16."""
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        hold(session, orders)
        (held,) = admin.release(orders, everything=True, dry_run=True).messages
    admin.release(orders, message_id=held.message_id, again=True)
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        with session.create_consumer(orders) as consumer:
            message = receive(consumer)
            assert (message.body, message.redelivered) == ("bad", True)
            message.nack()
            message = receive(consumer)
            assert message.body == "bad"
            message.acknowledge()
            assert receive(consumer).body == "behind it"


@pytest.mark.parametrize("named", [{"dead_letter_address": "elsewhere"}, {}], ids=["an address", "none"])
def test_a_release_while_nobody_receives_goes_by_the_settings_of_the_registry(
    admin: Admin, factory: ConnectionFactory, orders: Queue, caplog: pytest.LogCaptureFixture, named: dict[str, str]
) -> None:
    """Of UNIT-16, REDELIVER-6: they win over what the caller names, as over a factory's. Where the caller names no
    address the log said that the factory says DLQ, and advised to unset what holds for all."""
    with factory.create_connection() as connection:
        hold(connection.create_session(AcknowledgeMode.INDIVIDUAL), orders)
    admin.set_address_settings("#", AddressSettings(dead_letter_address="lost"))
    admin.create_queue("lost", partitions=1)
    assert [each.unit for each in admin.release(orders, "joe", **named).messages] == ["joe"]  # type: ignore[arg-type]
    assert bodies(admin.browse("lost")) == ["bad"]
    assert named or [line for line in caplog.messages if "as the registry says" in line] == []


@pytest.mark.parametrize("is_shared", [False, True], ids=["unshared", "shared"])
def test_units_of_a_subscription_are_released(admin: Admin, url: str, kafka_name: str, is_shared: bool) -> None:
    """UNIT-16: while nobody receives from it; the other subscription of the topic goes on with its own copy."""
    prices = Topic(kafka_name)
    mine = ConnectionFactory(url, namespace=kafka_name, client_id="billing", address_settings=HOLD)
    with mine.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        make = session.create_shared_durable_consumer if is_shared else session.create_durable_consumer
        make(prices, "other").close()
        with make(prices, "audit") as consumer:
            producer = session.create_producer(prices)
            for body in ("bad", "behind it"):
                producer.send(body, unit_of_order="joe")
            for _ in range(2):
                receive(consumer).nack()
            assert consumer.receive(timeout=0.5) is None
        counts = partial(admin.counts, prices, subscription="audit", client_id="billing")
        eventually(lambda: counts().members == 0, "its consumer is closed")
        assert counts().for_operator == 1
        assert not admin.release(prices, subscription="other", client_id="billing", everything=True).messages
        report = admin.release(prices, "joe", subscription="audit", client_id="billing")
        assert ([each.unit for each in report.messages], report.queue) == (["joe"], prices)
        with make(prices, "audit") as consumer:
            assert receive(consumer).body == "behind it"
        with make(prices, "other") as consumer:
            assert receive(consumer).body == "bad"
    theirs = [message.body for letter, message in admin.dead_letters() if letter.origin.destination == str(prices)]
    assert theirs == ["bad"]
