"""What browsers show of messages that another process has in hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from jbm_kafka import AcknowledgeMode, Queue
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from tests.jms.support import bodies, eventually, group_worker_behind, receive, receive_all, send

NEW, DELIVERED = MessageState.NEW, MessageState.DELIVERED


@pytest.fixture
def elsewhere(connect: Callable[..., Connection], tmp_path: Path) -> Connection:
    """Its state folder makes it a sidecar of its own, a process as far as the cluster knows."""
    return connect(state_dir=str(tmp_path))


def has_one_partition(consumer: MessageConsumer) -> bool:
    return len(group_worker_behind(consumer).data.channels) == 1


def states(session: Session, queue: Queue) -> dict[object, MessageState | None]:
    return {message.body: message.state for message in session.create_browser(queue, include="all")}


def test_what_another_process_has_in_hand_is_shown_so_and_its_unit_as_held(
    elsewhere: Connection, session: Session, orders: Queue
) -> None:
    """UNIT-13: a browser asks the owner; also what it settled meanwhile is gone."""
    queue = Queue(f"{orders.name}.one")
    send(session, queue, "a1", "a2", "a3", unit="a")
    send(session, queue, "b1", unit="b")
    send(session, queue, "free")
    theirs = elsewhere.create_session(AcknowledgeMode.CLIENT)
    consumer = theirs.create_consumer(queue, prefetch=2)
    first, second = receive_all(consumer, 2)
    assert (first.body, second.body) == ("a1", "a2")
    assert states(session, queue) == {"a1": DELIVERED, "a2": DELIVERED, "a3": NEW, "b1": NEW, "free": NEW}
    assert bodies(session.create_browser(queue)) == ["b1", "free"]
    first.acknowledge()
    assert "a1" not in states(session, queue), "it was settled before the browser looked"
    theirs.recover()
    consumer.close()
    eventually(lambda: bodies(session.create_browser(queue)) == ["a2", "b1", "free"], "what was given back")


def test_two_owners_of_one_queue_are_seen_by_one_browser(
    elsewhere: Connection, connection: Connection, session: Session, orders: Queue
) -> None:
    """UNIT-13: here one of the two is the process that looks."""
    ours = connection.create_session(AcknowledgeMode.CLIENT).create_consumer(orders, prefetch=1)
    theirs = elsewhere.create_session(AcknowledgeMode.CLIENT).create_consumer(orders, prefetch=1)
    for consumer in (ours, theirs):  # first: a partition of which one has a message in hand would not move before long
        eventually(partial(has_one_partition, consumer), "each process has a partition")
    in_hand: set[object] = set()

    def both_have_one() -> bool:
        producer = session.create_producer(orders)
        for unit in range(16):
            producer.send(f"{unit}", unit_of_order=f"u{unit}")
        for consumer in (ours, theirs):
            message = consumer.receive(0.2)
            if message is not None:
                in_hand.add(message.message_id)
        return len(in_hand) == 2

    eventually(both_have_one, "each process has a partition")
    shown = list(session.create_browser(orders, include="all"))
    assert {message.message_id for message in shown if message.state is DELIVERED} == in_hand
    assert not in_hand & {message.message_id for message in session.create_browser(orders)}


def test_partitions_are_shown_in_the_order_of_receiving(session: Session, orders: Queue) -> None:
    """UNIT-13: merged by when they were sent, the higher priority first, each unit in order."""
    producer = session.create_producer(orders)
    for number in range(12):
        producer.send(f"{number}", unit_of_order=f"u{number % 6}", priority=9 if number == 11 else 4)
    shown = [int(str(message.body)) for message in session.create_browser(orders, include="all")]
    assert [number for number in shown if number % 6 == 5] == [5, 11]
    consumer = session.create_consumer(orders)
    received = [int(str(receive(consumer).body)) for _ in range(12)]
    for unit in range(6):
        assert [n for n in received if n % 6 == unit] == [n for n in shown if n % 6 == unit]
