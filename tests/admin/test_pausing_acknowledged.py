"""A pause keeps back what a consumer has unread for good, in PRE, and takes back what it has in NO (PAUSE-2)."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.ports.pre_acknowledged_link import PreAcknowledgedLink
from tests.jms.support import (
    NOTHING_S,
    Aside,
    Seen,
    bodies,
    eventually,
    group_worker_behind,
    left,
    receive,
    receive_all,
    send,
    standing_still,
)

BODIES = ["a", "b", "c", "d", "e"]
MODES = [AcknowledgeMode.PRE, AcknowledgeMode.NO]


@pytest.fixture
def queue(kafka_name: str) -> Queue:
    return Queue(kafka_name)


@pytest.fixture
def factory(url: str, kafka_name: str) -> ConnectionFactory:
    """One partition, so that all comes in order; what is unread stays so for long, unless it is taken back."""
    settings = {"#": AddressSettings(partitions=1)}
    return ConnectionFactory(url, namespace=kafka_name, receiver_idle_ms=60_000, address_settings=settings)


@pytest.fixture
def connection(factory: ConnectionFactory) -> Iterator[Connection]:
    with factory.create_connection() as made:
        yield made


def consumer_with_buffer(
    connection: Connection, queue: Queue, mode: AcknowledgeMode = AcknowledgeMode.PRE, prefetch: int = 100
) -> MessageConsumer:
    """Four of five messages lie in its buffer, or less when its prefetch is smaller; it got the first."""
    session = connection.create_session(mode)
    send(session, queue, *BODIES)
    consumer = session.create_consumer(queue, prefetch=prefetch)
    assert receive(consumer).body == "a"
    count = min(4, prefetch)
    with consumer._link.lock:
        consumer._link.request(count - len(consumer._link.buffer))
    eventually(lambda: len(consumer._link.buffer) == count, "they do not come")
    return consumer


@pytest.mark.parametrize("mode", MODES)
def test_what_lies_in_the_buffer_waits_for_the_resume_and_comes_in_order(
    admin: Admin, connection: Connection, queue: Queue, mode: AcknowledgeMode, caplog: pytest.LogCaptureFixture
) -> None:
    """PAUSE-2: in PRE all that the buffer held was received."""
    consumer = consumer_with_buffer(connection, queue, mode)
    admin.pause(queue, "consumption", by="ann")
    assert consumer.receive(timeout=NOTHING_S) is None
    assert consumer.receive_nowait() is None
    told = [each for each in caplog.records if "receiving is paused by ann since" in each.getMessage()]
    assert len(told) == 1
    admin.resume(queue)
    assert bodies(receive_all(consumer, 4)) == BODIES[1:]
    assert consumer.receive(timeout=NOTHING_S) is None
    eventually(lambda: left(connection, queue) == [], "not over")


def test_a_receive_that_waits_gets_what_was_kept_back_at_the_resume(
    admin: Admin, connection: Connection, queue: Queue
) -> None:
    """Of PAUSE-2: nothing else would wake it."""
    consumer = consumer_with_buffer(connection, queue)
    admin.pause(queue, "consumption")
    waiting = Aside(lambda: bodies(filter(None, [consumer.receive()])))
    eventually(lambda: consumer._link.demand.is_waiting, "it does not wait")
    admin.resume(queue)
    assert waiting.result() == ["b"]


@pytest.mark.parametrize("mode", MODES)
def test_a_listener_gets_nothing_of_the_buffer_before_the_resume(
    admin: Admin, connection: Connection, queue: Queue, mode: AcknowledgeMode
) -> None:
    """Of PAUSE-2."""
    consumer = consumer_with_buffer(connection, queue, mode)
    admin.pause(queue, "consumption")
    seen = Seen()
    consumer.set_listener(seen)
    receiver = connection.create_session().create_consumer(queue)
    assert receiver.receive(timeout=NOTHING_S) is None
    receiver.close()
    assert seen.messages == []
    admin.resume(queue)
    assert bodies(seen.wait(4)) == BODIES[1:]


def test_closing_in_a_pause_drops_what_is_unread_and_says_so(
    admin: Admin, connection: Connection, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """ACK-4, of PAUSE-2: it is over, so a resume brings it to nobody."""
    consumer = consumer_with_buffer(connection, queue)
    admin.pause(queue, "consumption")
    with caplog.at_level(logging.WARNING, "jbm_kafka.jms.settling.at_most_once"):
        consumer.close()
    [line] = [each.getMessage() for each in caplog.records if each.name == "jbm_kafka.jms.settling.at_most_once"]
    assert line.startswith(f"{queue.name}: a consumer in PRE closed with 4 messages unread"), line
    admin.resume(queue, wait_s=3)
    assert connection.create_session().create_consumer(queue).receive(timeout=NOTHING_S) is None


def test_no_more_than_the_prefetch_is_unread_after_a_pause(admin: Admin, connection: Connection, queue: Queue) -> None:
    """ACK-8: while its buffer was kept back the consumer looked empty, and a receive asked for one more."""
    consumer = consumer_with_buffer(connection, queue, prefetch=1)
    admin.pause(queue, "consumption")
    assert consumer.receive(timeout=NOTHING_S) is None
    with consumer._link.lock:
        consumer._link.request(1)
    admin.resume(queue)
    eventually(lambda: bool(consumer._link.buffer), "it was not let out")
    turns: list[None] = []
    group_worker_behind(consumer).post(lambda: turns.append(None))
    eventually(lambda: bool(turns), "the group worker does not run")
    assert len(consumer._link.buffer) == 1
    assert bodies(receive_all(consumer, 4)) == BODIES[1:]


def test_a_connection_that_is_stopped_and_started_in_a_pause_hands_over_nothing(
    admin: Admin, connection: Connection, queue: Queue
) -> None:
    """Of PAUSE-2, CONN-1: and one that is stopped hands over nothing when its queue is resumed."""
    consumer = consumer_with_buffer(connection, queue)
    admin.pause(queue, "consumption")
    connection.stop()
    connection.start()
    assert consumer.receive(timeout=NOTHING_S) is None
    connection.stop()
    admin.resume(queue, wait_s=3)
    assert consumer.receive(timeout=NOTHING_S) is None
    connection.start()
    assert bodies(receive_all(consumer, 4)) == BODIES[1:]


def test_what_is_acknowledged_when_a_pause_begins_and_arrives_in_it_comes_after_the_rest(
    admin: Admin, url: str, kafka_name: str, queue: Queue
) -> None:
    """ACK-4, of PAUSE-2: with `block_on_acknowledge` it is on its way until that is durable, and is over already."""
    settings = {"#": AddressSettings(partitions=1)}
    factory = ConnectionFactory(
        url, namespace=kafka_name, address_settings=settings, receiver_idle_ms=60_000, block_on_acknowledge=True
    )
    with factory.create_connection() as connection:
        consumer = consumer_with_buffer(connection, queue)
        link = consumer._link
        assert isinstance(link, PreAcknowledgedLink)
        with standing_still(consumer):
            coming = [link.buffer.ready.pop()]
            assert link.announce(coming)
        admin.pause(queue, "consumption")
        assert link.arrive(coming)
        assert consumer.receive(timeout=NOTHING_S) is None
        admin.resume(queue)
        assert bodies(receive_all(consumer, 4)) == BODIES[1:]


def test_a_consumer_whose_process_left_the_group_hears_of_a_pause_before_its_buffer_is_read(
    admin: Admin, url: str, kafka_name: str, queue: Queue
) -> None:
    """Of PAUSE-2: nobody had told it, for a group worker that nobody uses ends; and it has all when that is resumed."""
    settings = {"#": AddressSettings(partitions=1)}
    factory = ConnectionFactory(url, namespace=kafka_name, address_settings=settings, membership_idle_ms=100)
    with factory.create_connection() as connection:
        consumer = consumer_with_buffer(connection, queue)
        before = group_worker_behind(consumer)
        eventually(lambda: not before.is_alive, "it serves on")
        admin.pause(queue, "consumption")
        assert consumer.receive(timeout=NOTHING_S) is None
        admin.resume(queue)
        assert bodies(receive_all(consumer, 4)) == BODIES[1:]
        eventually(lambda: not group_worker_behind(consumer).is_alive, "it serves on")
        assert consumer.receive(timeout=NOTHING_S) is None
