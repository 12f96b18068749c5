"""Administration of a Kafka and of a world in memory: they agree."""

from __future__ import annotations

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue, Topic
from jbm_kafka.admin import Admin, Wait
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError, InvalidSettingError
from jbm_kafka.providers import in_memory
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.jms.support import bodies, receive, send

ORDERS = Queue("orders")
ONCE = {"#": AddressSettings(max_delivery_attempts=1, partitions=2)}


@pytest.fixture
def factory(url: str, kafka_name: str, admin: Admin) -> ConnectionFactory:
    """While there is an `admin` a world in memory stays."""
    return ConnectionFactory(url, namespace=kafka_name, address_settings=ONCE)


def test_a_queue_is_made_listed_counted_and_shown(admin: Admin, factory: ConnectionFactory, kafka_name: str) -> None:
    assert admin.create_queue(kafka_name, partitions=3)
    assert not admin.create_queue(kafka_name, partitions=3)
    with pytest.raises(InvalidDestinationError, match="exists with 3 partitions, not 4"):
        admin.create_queue(kafka_name, partitions=4)
    with factory.create_context() as jms:
        for name in ("a", "b"):
            jms.create_producer().send(Queue(kafka_name), name, delivery_delay_ms=0 if name == "a" else 60_000)
    assert admin.destinations() == [Queue(kafka_name)]
    counts = admin.counts(kafka_name)
    assert (counts.held, counts.delayed, counts.is_exact, len(counts.partitions)) == (2, 1, True, 3)
    look = admin.browse(kafka_name)
    assert bodies(look) == ["a"]
    assert look.not_shown == {Wait.TIME: 1}
    assert sorted(str(body) for body in bodies(admin.browse(kafka_name, include="all"))) == ["a", "b"]
    assert not admin.exists("other")
    admin.create_topic(f"{kafka_name}.news")
    assert [admin.exists(each) for each in (Topic(f"{kafka_name}.news"), Topic(kafka_name), Topic("other"))] == [
        True,
        False,
        False,
    ]


def test_a_namespace_lists_no_queue_that_only_its_name_begins_like(url: str, kafka_name: str) -> None:
    """`parked`, as a namespace, listed the queue `parked`, and `ops` a queue `orders`, for there was `ops.orders`."""
    alone, orders = kafka_name, f"{kafka_name}-orders"
    with Admin(url) as without, Admin(url, namespace=kafka_name) as within:
        for name in (alone, orders, f"{kafka_name}.{orders}"):
            without.create_queue(name, partitions=1)
        assert within.destinations() == []
        within.create_queue(orders, partitions=1)
        assert within.destinations() == [Queue(orders)]
        assert {alone, orders, f"{kafka_name}.{orders}"} <= {each.name for each in without.destinations()}


def test_dead_letters_are_sent_again_in_memory() -> None:
    """On Kafka: tests/cli/test_dead_letter_commands.py."""
    with MemoryWorld() as world, Admin(world.url) as admin:
        with world.factory(address_settings=ONCE).create_connection() as connection:
            session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
            send(session, ORDERS, "a", unit="joe")
            with session.create_consumer(ORDERS) as consumer:
                receive(consumer).nack()
            world.wait_idle()
        assert admin.queues_with_dead_letters() == [Queue("DLQ")]
        with pytest.raises(InvalidSettingError, match=r"reason is 'attempts': messages leave for 'max-"):
            admin.retry_dead_letters("DLQ", reason="attempts")  # type: ignore[arg-type]
        report = admin.retry_dead_letters("DLQ")
        assert [(letter.reason, letter.attempts) for letter in report.letters] == [("max-delivery-attempts", 1)]
        assert bodies(admin.browse("orders")) == ["a"]
        assert admin.counts("DLQ").held == 0
        assert admin.queues_with_dead_letters() == []


def test_an_open_administration_keeps_its_world(kafka_name: str) -> None:
    with Admin(f"memory://{kafka_name}") as admin:
        admin.create_queue("orders", partitions=1)
        with ConnectionFactory(f"memory://{kafka_name}").create_context() as jms:
            jms.create_producer().send(ORDERS, "a")
        assert bodies(admin.browse("orders")) == ["a"]
        admin.close()
        assert kafka_name not in in_memory.worlds()


def test_what_a_look_does_not_show_is_told_by_why() -> None:
    settings = {"#": AddressSettings(max_delivery_attempts=1, on_dead_letter="hold", partitions=1)}
    with MemoryWorld() as world, Admin(world.url) as admin:
        with world.factory(address_settings=settings).create_connection() as connection:
            session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
            producer = session.create_producer(ORDERS)
            producer.send("held", unit_of_order="joe")
            producer.send("behind it", unit_of_order="joe")
            with session.create_consumer(ORDERS) as consumer:
                receive(consumer).nack()
            world.wait_idle()
            producer.send("gone", time_to_live_ms=100)
            producer.send("later", delivery_delay_ms=60_000)
            producer.send("now")
        world.clock.advance(1_000)
        look = admin.browse("orders")
        assert bodies(look) == ["now"]
        assert look.not_shown == {Wait.OPERATOR: 1, Wait.UNIT: 1, Wait.EXPIRED: 1, Wait.TIME: 1}


def test_what_waits_is_judged_by_the_clock_of_its_world() -> None:
    with MemoryWorld() as world, Admin(world.url) as admin:
        with world.factory().create_context() as jms:
            jms.create_producer().send(ORDERS, "a", delivery_delay_ms=1_000)
        assert admin.counts("orders").delayed == 1
        world.clock.advance(1_000)
        assert admin.counts("orders").delayed == 0
        assert bodies(admin.browse("orders")) == ["a"]


def test_settings_of_a_kafka_client_are_refused_here_too() -> None:
    with pytest.raises(InvalidSettingError, match="memory://w has none"):
        Admin("memory://w", kafka={"linger.ms": 5})


def test_a_look_that_was_iterated_before_showed_an_empty_queue() -> None:
    with MemoryWorld() as world, Admin(world.url) as admin, world.factory().create_context() as jms:
        producer = jms.create_producer()
        for text in ("a", "b"):
            producer.send(ORDERS, text, unit_of_order="ann")
        look = admin.browse(ORDERS)
        for _ in range(2):
            assert (bodies(look), look.not_shown) == (["a"], {Wait.UNIT: 1})
        producer.send(ORDERS, "c", unit_of_order="joe")
        begun = iter(look)
        assert next(begun).body == "a"
        assert bodies(look) == ["a", "c"]
        assert bodies(begun) == ["c"], "each goes on by itself"


def test_dead_letters_that_were_iterated_before_were_gone() -> None:
    with MemoryWorld() as world, Admin(world.url) as admin, world.factory().create_context() as jms:
        jms.create_producer().send(ORDERS, "2 books")
        admin.send_to_dead_letter(ORDERS, everything=True)
        letters = admin.dead_letters()
        assert [[message.body for _, message in letters] for _ in range(2)] == [["2 books"], ["2 books"]]
        admin.remove("DLQ", everything=True)
        assert list(letters) == []


def test_a_retry_that_finds_nothing_says_so() -> None:
    with MemoryWorld() as world, Admin(world.url) as admin, world.factory().create_context() as jms:
        jms.create_producer().send(ORDERS, "2 books")
        admin.send_to_dead_letter(ORDERS, everything=True)
        for dry_run in (True, False):
            report = admin.retry_dead_letters(origin="ordres", dry_run=dry_run)
            told = "nothing in queue:DLQ is of origin='queue:ordres'; Admin.dead_letters() tells what there is"
            assert (report.letters, report.warnings) == ([], [told])
        (told,) = admin.retry_dead_letters("orders").warnings
        assert told.startswith("nothing is in queue:orders; ")
        assert admin.retry_dead_letters(origin="orders").sent == 1
        assert not admin.retry_dead_letters().warnings, "nothing is there, and nothing was named"


def test_an_address_that_was_given_and_not_used_was_not_told_of() -> None:
    """Who receives goes by his own settings, and a dry run did not say where to."""
    with MemoryWorld() as world, Admin(world.url) as admin, world.factory().create_context() as jms:
        for name in ("orders", "elsewhere"):
            admin.create_queue(name)
        producer = jms.create_producer()
        producer.send(ORDERS, "a")
        dry = admin.expire(ORDERS, everything=True, expiry_address="elsewhere", dry_run=True)
        assert dry.address == "elsewhere"
        with jms.create_consumer(ORDERS):
            report = admin.expire(ORDERS, everything=True, expiry_address="elsewhere")
        assert (len(report.messages), report.address) == (1, "ExpiryQueue")
        told = "expiry_address='elsewhere' was not used, they went to ExpiryQueue: processes receive from queue:orders"
        assert [each.startswith(told) for each in report.warnings] == [True]


def test_where_messages_go_may_be_a_topic() -> None:
    with MemoryWorld() as world, Admin(world.url) as admin, world.factory().create_context():
        admin.create_queue(ORDERS)
        admin.create_topic("news")
        assert not admin.expire(ORDERS, everything=True, expiry_address=Topic("news")).messages
        assert not admin.send_to_dead_letter(ORDERS, everything=True, dead_letter_address=Queue("DLQ")).messages


def test_a_closed_admin_was_entered() -> None:
    admin = Admin("memory://closed")
    admin.close()
    with pytest.raises(IllegalStateError, match="the admin is closed; make a new one"), admin:
        pass
