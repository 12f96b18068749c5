"""What a connection counts, and what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Connection, ConnectionFactory, Queue, Session, Topic, Worker
from jbm_kafka.errors import IllegalStateError
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.topics import create_topic, delete_topics_beginning_with
from tests.support.waiting import wait_until

ORDERS, PRICES = Queue("orders"), Topic("prices")
SOON_S = 30.0


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as world:
        yield world


@pytest.fixture
def connection(world: MemoryWorld) -> Iterator[Connection]:
    settings = {"#": AddressSettings(max_delivery_attempts=2, redelivery_delay_ms=60_000, partitions=2)}
    with world.factory(address_settings=settings).create_connection() as connection:
        yield connection


def individual(connection: Connection) -> AbstractContextManager[Session]:
    return connection.create_session(AcknowledgeMode.INDIVIDUAL)


def test_each_message_is_counted_once_by_what_became_of_it(world: MemoryWorld, connection: Connection) -> None:
    with individual(connection) as session:
        producer, consumer = session.create_producer(ORDERS), session.create_consumer(ORDERS)
        for number in range(6):
            producer.send(f"{number}", unit_of_order=f"u{number}")
        producer.send("late", time_to_live_ms=1)
        world.clock.advance(1_000)
        messages = {message.body: message for message in (consumer.receive(SOON_S) for _ in range(6)) if message}
        messages["0"].acknowledge()
        messages["1"].acknowledge()
        messages["2"].reject("no such customer")
        messages["3"].nack()
        world.wait_idle()
        found = connection.statistics().of("orders")
        assert (found.sent, found.handed_over, found.acknowledged, found.returned) == (7, 6, 2, 1)
        assert (found.given_up, found.expired) == (1, 1)
        assert (found.held, found.unacknowledged, found.delayed, found.deliverable) == (3, 2, 1, 0)
        measured = found.send_to_acknowledge_seconds
        assert measured.count in (1, 2)  # both may have been settled together
        assert measured.sum_s == measured.count  # the clock of the world was set forward by a second


def test_what_waits_behind_an_earlier_one_of_its_unit_is_blocked(world: MemoryWorld, connection: Connection) -> None:
    with individual(connection) as session:
        producer, consumer = session.create_producer(ORDERS), session.create_consumer(ORDERS)
        for number in range(4):
            producer.send(f"{number}", unit_of_order="joe")
        producer.send("other")
        one, other = consumer.receive(SOON_S), consumer.receive(SOON_S)
        assert one is not None
        assert other is not None
        world.wait_idle()
        found = connection.statistics().of("orders")
        assert (found.held, found.unacknowledged, found.blocked) == (5, 2, 3)


def test_the_backlog_that_nobody_has_read_is_held_and_deliverable(world: MemoryWorld, connection: Connection) -> None:
    """It is what an autoscaler goes by."""
    count = 5_000
    with connection.create_session(AcknowledgeMode.TRANSACTED) as sending:
        producer = sending.create_producer(ORDERS)
        for _ in range(count):
            producer.send("a")
        assert connection.statistics().of("orders").sent == 0
        sending.commit()
        assert connection.statistics().of("orders").sent == count
    with individual(connection) as session:
        assert session.create_consumer(ORDERS, prefetch=1).receive(SOON_S) is not None
        found = connection.statistics().of("orders")
        assert count <= found.held <= count + 4  # with the transaction's markers
        assert found.deliverable == found.held - found.unacknowledged


def test_commits_count_as_acknowledged_and_rollbacks_as_returned(world: MemoryWorld, connection: Connection) -> None:
    with connection.create_session(AcknowledgeMode.TRANSACTED) as session:
        session.create_producer(ORDERS).send("a")
        session.commit()
        consumer = session.create_consumer(ORDERS)
        assert consumer.receive(SOON_S) is not None
        session.rollback()
        world.clock.advance(60_000)
        assert consumer.receive(SOON_S) is not None
        session.commit()
        found = connection.statistics()
        row = found.of("orders")
        assert (row.handed_over, row.returned, row.acknowledged) == (2, 1, 1)
        assert found.checkpoints >= 2
        assert found.checkpoint_seconds.count == found.checkpoints
        assert found.memory_budget_bytes > 0


def test_a_count_outlives_the_session_and_the_receiver_it_came_from(world: MemoryWorld, connection: Connection) -> None:
    for _ in range(3):
        with individual(connection) as session:
            session.create_producer(ORDERS).send("a")
            message = session.create_consumer(ORDERS).receive(SOON_S)
            assert message is not None
            message.acknowledge()
        world.clock.advance(120_000)  # its membership ends
    row = connection.statistics().of("orders")
    assert (row.sent, row.acknowledged) == (3, 3)


def test_subscriptions_have_rows_and_names_that_are_made_up_have_none(connection: Connection) -> None:
    with connection.create_session() as session:
        session.create_consumer(PRICES)
        session.create_shared_durable_consumer(PRICES, "audit")
        reply_to = session.create_temporary_queue()
        session.create_consumer(reply_to)
        session.create_producer(reply_to).send("an answer")
        rows = {(row.destination, row.subscription) for row in connection.statistics().destinations}
        assert rows == {("prices", ""), ("prices", "audit"), ("jbm.temporary", "")}


def test_handlers_and_listeners_are_timed(connection: Connection) -> None:
    with connection.create_session() as session, connection.create_session() as sending:
        session.create_consumer(ORDERS).set_listener(lambda message: None)
        sending.create_producer(ORDERS).send("a")
        wait_until(
            lambda: connection.statistics().of("orders").handler_seconds.count == 1,
            about="a listener",
            timeout_s=SOON_S,
        )


def test_a_closed_connection_counts_nothing_and_is_not_alive(world: MemoryWorld) -> None:
    connection = world.factory().create_connection()
    assert connection.health().is_ready
    connection.close()
    with pytest.raises(IllegalStateError):
        connection.statistics()
    assert not connection.health().is_alive


def test_a_handler_of_a_worker_is_timed_and_what_it_raises_is_counted(world: MemoryWorld) -> None:
    worker = Worker(world.factory())
    worker.handler(ORDERS)(lambda message: message.json())
    with world.factory().create_connection() as connection, connection.create_session() as session:
        session.create_producer(ORDERS).send("no JSON")
        worker.start()
        wait_until(lambda: connection.statistics().of("orders").given_up == 1, about="a dead letter", timeout_s=SOON_S)
        running = worker.connection
        assert running is not None
        row = running.statistics().of("orders")
        assert row.handler_seconds.count == row.handed_over == row.returned + row.given_up == 10
        worker.stop()


@pytest.mark.thorough
def test_the_backlog_is_known_by_the_fetches_of_a_kafka_client(bootstrap: str, kafka_name: str) -> None:
    """In memory the log's end is at hand; here it is what the client heard of last."""
    queue, count = Queue(kafka_name), 5_000
    create_topic(bootstrap, kafka_name, partitions=2, config={"retention.ms": "-1"})
    factory = ConnectionFactory(bootstrap)  # with no settings of its own: a sidecar of other tests may be open
    try:
        with factory.create_connection() as connection, individual(connection) as session:
            with connection.create_sender() as sender:
                for _ in range(count):
                    sender.send(queue, "a", on_completion=lambda *_: None)
            assert session.create_consumer(queue, prefetch=1).receive(SOON_S) is not None

            def has_all() -> bool:  # of a partition that nothing was fetched of yet nothing is known
                return connection.statistics().of(kafka_name).held == count

            wait_until(has_all, about="the ends of the logs", timeout_s=SOON_S)
            assert connection.statistics().of(kafka_name).deliverable == count - 1
    finally:
        delete_topics_beginning_with(bootstrap, kafka_name)
