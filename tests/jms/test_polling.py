"""A receive that finds its buffer empty asks whoever owns the partitions: polling gets what is there."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jbm_kafka import AcknowledgeMode, Message, Queue
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.receiving.waiting import CATCH_UP_S
from jbm_kafka.jms.session import Session
from tests.jms.conftest import make_factory
from tests.jms.support import SOON_S, ask, bodies, eventually, group_worker_behind, receive, send, standing_still
from tests.support.waiting import in_time

POLLS = 3
"""A busy machine may hold up the answer to one of them for longer than a poll waits."""


def poll(consumer: MessageConsumer) -> Message:
    """What a few polls get, which must be something: where it was wrong none ever got anything."""
    for _ in range(POLLS):
        message = consumer.receive(0)
        if message is not None:
            return message
    raise AssertionError("nothing came")


def leave(consumer: MessageConsumer) -> None:
    """What a pause that is long enough does: its process leaves the group."""
    group_worker = group_worker_behind(consumer)
    group_worker.stop()
    assert group_worker.join(SOON_S)


def test_a_receive_gets_its_message_where_another_consumer_of_the_session_was_there_just_before(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """The worker took back what the first had unread, and with it what it had asked for since: it waited for ever."""
    polling = connection.create_session(AcknowledgeMode.AUTO)
    consumer = polling.create_consumer(orders)
    send(session, orders, "one")
    receive(consumer)
    got: list[Message | None] = []
    receiving = threading.Thread(target=lambda: got.append(consumer.receive(60)))
    with standing_still(consumer):
        polling.create_consumer(orders).close()
        receiving.start()
        eventually(lambda: consumer._link.demand.is_waiting, "it does not receive")
    send(session, orders, "two")
    eventually(lambda: bool(got), "nothing came, though the queue holds a message")
    receiving.join()
    assert got[0] is not None
    assert got[0].body == "two"


@pytest.mark.parametrize("mode", list(AcknowledgeMode))
def test_each_poll_receives_one_while_there_are_any(
    connection: Connection, session: Session, orders: Queue, mode: AcknowledgeMode
) -> None:
    """CONN-1: the polls with 20 messages waiting returned None for ever."""
    send(session, orders, *(f"m{number}" for number in range(20)), unit="u")
    polling = connection.create_session(mode)
    consumer = polling.create_consumer(orders)
    got: list[Message] = []
    for _ in range(20):
        message = poll(consumer)
        got.append(message)
        if mode is AcknowledgeMode.INDIVIDUAL:
            message.acknowledge()
    assert bodies(got) == [f"m{number}" for number in range(20)]


def test_a_poll_after_a_pause_that_took_the_buffer_back_receives(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """What was granted ahead went back after three seconds, and the next poll only asked for it again."""
    queue = Queue(f"{orders.name}.one")
    consumer = session.create_consumer(queue)
    with connection.create_session() as other:
        send(other, queue, "a", "b")
    assert receive(consumer).body == "a"
    ask(consumer)
    eventually(lambda: len(consumer._link.buffer) == 1, "nothing was granted ahead")
    group_worker = group_worker_behind(consumer)
    group_worker.post(lambda: group_worker.settle.return_unread(consumer._link))
    assert poll(consumer).body == "b"


def test_what_is_granted_too_late_for_a_poll_is_there_for_the_next(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """The answer of a group worker that stood still stays in the buffer."""
    queue = Queue(f"{orders.name}.one")
    consumer = session.create_consumer(queue)
    with connection.create_session() as other:
        send(other, queue, "a")
    with standing_still(consumer):
        assert in_time(lambda: consumer.receive(0), 2 * CATCH_UP_S) is None
    assert poll(consumer).body == "a"


def test_a_poll_of_an_empty_queue_leaves_nothing_asked_for(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """What comes later is for whoever receives then, not for three seconds in the buffer of one that does not."""
    queue = Queue(f"{orders.name}.one")
    polling, other = connection.create_session().create_consumer(queue), session.create_consumer(queue)
    assert polling.receive(0) is None
    assert not polling._link.is_asking
    with connection.create_session() as sender:
        send(sender, queue, "a")
    assert receive(other).body == "a"
    assert not polling._link.buffer


@pytest.fixture(scope="module")
def stock_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Delays a group's first rebalance by three seconds, as brokers do unless they are told not to."""
    properties = {"group.initial.rebalance.delay.ms": "3000"}
    with LocalBroker(Path(tmp_path_factory.mktemp("stock")), properties=properties) as broker:
        yield broker.bootstrap


@pytest.mark.parametrize("timeout_s", [0, 1])
def test_a_receive_that_must_join_first_finds_what_is_there(
    stock_broker: str, kafka_name: str, tmp_path: Path, timeout_s: int
) -> None:
    """`receive(1)` every five seconds by two processes returned None each time: joining took longer than it waited."""
    queue = Queue(kafka_name)
    factories = [make_factory(stock_broker, state_dir=str(tmp_path / name)) for name in ("a", "b")]
    with factories[0].create_connection() as one, factories[1].create_connection() as two:
        with one.create_session() as sender:
            send(sender, queue, *(f"m{number}" for number in range(4)))
        consumers = [connection.create_session().create_consumer(queue) for connection in (one, two)]
        for consumer in consumers:
            leave(consumer)
        for _ in range(2):
            found = [consumers[0].receive(timeout_s)]
            leave(consumers[0])
            while found[-1] is None:  # to join took longer than the ten seconds that it may; the next begins anew
                assert len(found) < POLLS, "nothing came"
                found.append(consumers[0].receive(timeout_s))
                leave(consumers[0])
