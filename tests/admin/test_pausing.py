"""A destination is paused and resumed: on Kafka and in memory, for who is there and for who comes later."""

from __future__ import annotations

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.core.jms_errors import IllegalStateError
from tests.jms.support import eventually, receive


@pytest.fixture
def factory(url: str, kafka_name: str, admin: Admin) -> ConnectionFactory:
    """What is unread stays so for long, unless it is taken back."""
    return ConnectionFactory(url, namespace=kafka_name, receiver_idle_ms=60_000)


def test_what_is_in_hand_goes_on_and_nothing_more_comes_until_consumption_is_resumed(
    admin: Admin, factory: ConnectionFactory, kafka_name: str
) -> None:
    """PAUSE-2."""
    queue = Queue(kafka_name)
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        producer = session.create_producer(queue)
        for number in range(10):
            producer.send(str(number))
        consumer = session.create_consumer(queue)
        for _ in range(4):  # portions grow, so that some are unread
            receive(consumer).acknowledge()
        in_hand = receive(consumer)
        pause = admin.pause(queue, "consumption", by="ann")
        assert (pause.production, pause.consumption.by if pause.consumption else "") == (None, "ann")
        assert consumer.receive(timeout=0.5) is None
        in_hand.acknowledge()
        producer.send("10")
        assert admin.counts(queue).held == 6
        assert admin.counts(queue).pause == pause
        assert admin.pause(queue, "consumption", by="bob", wait_s=0) == pause  # who was first stays the one
        assert admin.resume(queue).consumption is None
        rest = [receive(consumer) for _ in range(6)]
        assert [int(str(message.body)) for message in rest] == list(range(5, 11))
        assert not any(message.redelivered for message in rest)


def test_a_pause_outlives_every_process_and_reaches_who_comes_later(
    admin: Admin, factory: ConnectionFactory, kafka_name: str
) -> None:
    """Of PAUSE-1, of PAUSE-2."""
    queue = Queue(kafka_name)
    with factory.create_context() as jms:
        jms.create_producer().send(queue, "a")
    admin.pause(kafka_name, wait_s=0)
    with factory.create_connection() as connection:
        session = connection.create_session()
        assert session.create_consumer(queue).receive(timeout=1) is None
        with pytest.raises(IllegalStateError, match=r"paused by .*@.* since .* UTC, and nothing was sent; "):
            session.create_producer(queue).send("b")
    admin.resume(kafka_name)
    with factory.create_context() as jms:
        jms.create_producer().send(queue, "b")
        consumer = jms.create_consumer(queue)
        assert {receive(consumer).body for _ in range(2)} == {"a", "b"}


def test_sends_are_refused_while_production_is_paused_and_go_on_by_themselves(
    admin: Admin, factory: ConnectionFactory, kafka_name: str
) -> None:
    """PAUSE-1."""
    queue = Queue(kafka_name)
    with factory.create_connection() as connection:
        producer = connection.create_session().create_producer(queue)
        transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
        producer.send("a")
        transacted.create_producer(queue).send("b")
        admin.pause(queue, "production", by="ann")
        for refused in (producer, transacted.create_producer(queue)):
            with pytest.raises(IllegalStateError, match="sending is paused by ann since") as told:
                refused.send("c")
            assert (told.value.by, type(told.value.since_ms)) == ("ann", int)
        transacted.commit()  # what it sent before
        with connection.create_session().create_consumer(queue) as consumer:
            assert {receive(consumer).body for _ in range(2)} == {"a", "b"}
        admin.resume(queue, "sending")
        producer.send("d")  # was refused for a second more
        assert admin.counts(queue).held == 1


def test_a_topic_is_paused_with_its_subscriptions(admin: Admin, factory: ConnectionFactory, kafka_name: str) -> None:
    """Of PAUSE-2."""
    topic = Topic(kafka_name)
    with factory.create_connection() as connection:
        session = connection.create_session()
        consumer = session.create_consumer(topic)
        admin.pause(kafka_name, "receiving")
        session.create_producer(topic).send("a")
        assert consumer.receive(timeout=0.5) is None
        admin.resume(topic)
        assert receive(consumer).body == "a"


def test_what_is_deleted_is_paused_no_more(admin: Admin, kafka_name: str) -> None:
    admin.create_queue(kafka_name, partitions=1)
    admin.pause(kafka_name, wait_s=0)
    assert admin.paused(kafka_name).production
    assert admin.paused(kafka_name), "an object without a truth of its own is always true"
    admin.delete_destination(kafka_name)
    admin.create_queue(kafka_name, partitions=1)
    assert admin.paused(kafka_name).production is None
    assert not admin.paused(kafka_name)


def test_dead_letters_arrive_where_production_is_paused(admin: Admin, url: str, kafka_name: str) -> None:
    """Of PAUSE-1: they did not, and their units waited in a queue that nobody had paused."""
    orders, failed = Queue(f"{kafka_name}.orders"), Queue(f"{kafka_name}.failed")
    settings = AddressSettings(partitions=1, max_delivery_attempts=1, dead_letter_address=failed.name)
    factory = ConnectionFactory(url, namespace=kafka_name, address_settings={"#": settings})
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        session.create_producer(orders).send("bad")
        message = receive(session.create_consumer(orders))
        admin.pause(failed, "production")
        message.nack()
        eventually(lambda: [letter.body for letter in admin.browse(failed)] == ["bad"], "the letter")
        with pytest.raises(IllegalStateError, match="is paused by"):
            session.create_producer(failed).send("another")


def test_a_retry_sent_into_a_queue_whose_sending_was_paused(admin: Admin, url: str, kafka_name: str) -> None:
    """PAUSE-1. Of REDELIVER-9: its letters stay, and say so."""
    orders = Queue(f"{kafka_name}.orders")
    settings = AddressSettings(partitions=1, max_delivery_attempts=1)
    factory = ConnectionFactory(url, namespace=kafka_name, address_settings={"#": settings})
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        session.create_producer(orders).send("bad")
        receive(session.create_consumer(orders)).nack()
        eventually(lambda: len(list(admin.dead_letters(origin=orders))) == 1, "the letter")
    admin.pause(orders, "production")
    for dry_run in (True, False):
        report = admin.retry_dead_letters(origin=orders, dry_run=dry_run)
        assert report.letters == []
        (kept,) = report.kept
        assert "sending is paused by" in kept.why
    assert admin.counts(orders).held == 0
    admin.resume(orders)
    assert admin.retry_dead_letters(origin=orders).sent == 1


def test_a_dead_letter_arrives_at_a_queue_that_was_paused_before_its_process_began(
    admin: Admin, url: str, kafka_name: str
) -> None:
    """Of PAUSE-1: that process looks the queue up while it is paused."""
    orders, failed = Queue(f"{kafka_name}.orders"), Queue(f"{kafka_name}.failed")
    admin.create_queue(failed.name, partitions=1)
    admin.pause(failed, "production", wait_s=0)
    settings = AddressSettings(partitions=1, max_delivery_attempts=1, dead_letter_address=failed.name)
    factory = ConnectionFactory(url, namespace=kafka_name, address_settings={"#": settings})
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        session.create_producer(orders).send("bad")
        receive(session.create_consumer(orders)).nack()
        eventually(lambda: [letter.body for letter in admin.browse(failed)] == ["bad"], "the letter")


def test_a_queue_whose_production_is_paused_is_received_from(
    admin: Admin, factory: ConnectionFactory, kafka_name: str
) -> None:
    """Of PAUSE-1: where its messages had units the receiver failed, for its topic was unknown while it was paused."""
    queue = Queue(kafka_name)
    with factory.create_context() as jms:
        jms.create_producer().send(queue, "a", unit_of_order="joe")
    admin.pause(queue, "production")
    with factory.create_connection() as connection:
        assert receive(connection.create_session().create_consumer(queue)).body == "a"


def test_a_paused_queue_does_not_look_empty_without_a_word_and_each_consumer_says_so_once(
    admin: Admin, factory: ConnectionFactory, kafka_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Queue(kafka_name)
    with factory.create_context() as jms:
        jms.create_producer().send(queue, "a")
        consumers = [jms.create_consumer(queue) for _ in range(2)]
        pause = admin.pause(queue, "consumption", by="ann")
        assert pause.consumption is not None
        for consumer in consumers * 2:
            assert consumer.receive(timeout=0.5) is None
        told = [each.getMessage() for each in caplog.records if "receiving is paused by ann since" in each.getMessage()]
        assert len(told) == len(consumers)
        assert told[0].startswith(f"{queue}: ")
        assert f"resume {kafka_name}" in told[0] or f"Admin.resume('{kafka_name}')" in told[0]


def test_the_end_of_a_pause_was_not_in_the_log_nor_was_the_next_one(
    admin: Admin, factory: ConnectionFactory, kafka_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Who read it went on to look why all was paused; and a consumer that had heard of one pause heard of no other."""
    queue = Queue(kafka_name)
    with factory.create_context() as jms:
        consumers = [jms.create_consumer(queue) for _ in range(2)]
        told = 0
        for body in ("a", "b"):
            admin.pause(queue, "consumption", by="ann")
            for consumer in consumers:
                assert consumer.receive(timeout=0.5) is None
            admin.resume(queue)
            jms.create_producer().send(queue, body)
            assert receive(consumers[0]).body == body
            lines = [
                each.getMessage() for each in caplog.records if each.getMessage().startswith(f"{queue}: receiving")
            ]
            assert [line.partition(" by ")[0] for line in lines[told:]] == [
                f"{queue}: receiving is paused",
                f"{queue}: receiving is paused",
                f"{queue}: receiving is not paused any more, and goes on",
            ]
            told = len(lines)
