"""`persist_delivery_count_before_delivery`: what an application gets, and what else is recorded. In memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from tests.jms.support import (
    SOON_S,
    ask,
    bodies,
    eventually,
    group_worker_behind,
    receive,
    receive_all,
    send,
    standing_still,
)

ORDERS = Queue("orders")


@pytest.fixture
def careful() -> Iterator[Connection]:
    """A connection of a world of its own, started."""
    factory = ConnectionFactory(
        "memory://recorded-attempts",
        persist_delivery_count_before_delivery=True,
        address_settings={"#": AddressSettings(partitions=1)},
    )
    with factory.create_connection() as connection:
        connection.start()
        yield connection


def recorded(consumer: MessageConsumer) -> list[int]:
    """The offsets that would be attempts if the process died now."""
    [channel] = group_worker_behind(consumer).data.channels.values()
    return sorted(channel.checkpoints.attempted or ())


@pytest.mark.parametrize("mode", AcknowledgeMode)
def test_polling_finds_all_that_is_there_in_every_mode(careful: Connection, mode: AcknowledgeMode) -> None:
    """REDELIVER-7: a receive that waits for nothing waits for the record of what it gets."""
    session = careful.create_session(mode)
    consumer = session.create_consumer(ORDERS)
    with careful.create_session() as sender:
        send(sender, ORDERS, *"abcdef", unit="u")
        sender.create_producer(ORDERS).send("expired", time_to_live_ms=1)
    got = []
    while (message := consumer.receive_nowait()) is not None:
        got.append((message.body, message.delivery_count))
        if mode in (AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL):
            message.acknowledge()
    assert got == [(body, 1) for body in "abcdef"]
    if mode is AcknowledgeMode.TRANSACTED:
        session.commit()


def test_only_what_was_received_is_recorded_however_much_is_prefetched(careful: Connection) -> None:
    """REDELIVER-7, ACK-8: and it is recorded until it is acknowledged or goes back."""
    session = careful.create_session(AcknowledgeMode.CLIENT)
    consumer = session.create_consumer(ORDERS)
    with careful.create_session() as sender:
        send(sender, ORDERS, *"abcdefgh")
    second = receive_all(consumer, 4)[1]
    assert len(consumer._link.buffer) > 0
    assert recorded(consumer) == [0, 1, 2, 3]
    second.acknowledge()
    assert receive(consumer).body == "e"
    assert recorded(consumer) == [2, 3, 4]
    session.recover()
    counts = {str(message.body): message.delivery_count for message in receive_all(consumer, 6)}
    assert counts == {"c": 2, "d": 2, "e": 2, "f": 1, "g": 1, "h": 1}
    assert recorded(consumer) == [2, 3, 4, 5, 6, 7]


def test_while_a_listener_works_nothing_is_recorded_of_the_session_s_other_listeners(careful: Connection) -> None:
    """REDELIVER-7: if its message kills the process, theirs has no attempt."""
    queues = Queue("a"), Queue("b")
    with careful.create_session() as sender:
        for queue in queues:
            send(sender, queue, "m1", "m2", "m3")
    got: list[object] = []
    works, may_go, has_all = threading.Event(), threading.Event(), threading.Event()

    def listen(message: object) -> None:
        got.append(message)
        works.set()
        may_go.wait(SOON_S)
        if len(got) == 6:
            has_all.set()

    session = careful.create_session()
    consumers = [session.create_consumer(queue) for queue in queues]
    for consumer in consumers:
        consumer.set_listener(listen)
    assert works.wait(SOON_S)
    asked = [recorded(consumer) for consumer in consumers]
    may_go.set()
    assert sorted(asked) == [[], [0]]
    assert has_all.wait(SOON_S)


def test_what_goes_back_with_an_earlier_one_while_it_is_recorded_is_not_received(careful: Connection) -> None:
    """UNIT-1, REDELIVER-7: the later message waits, and comes after the earlier one."""
    session = careful.create_session(AcknowledgeMode.CLIENT)
    consumer = session.create_consumer(ORDERS)
    with careful.create_session() as sender:
        send(sender, ORDERS, "a", "b", unit="u")
    first = receive(consumer)
    ask(consumer)
    eventually(lambda: len(consumer._link.buffer) == 1, "the later message is not prefetched")
    with standing_still(consumer):
        with consumer._link.lock:
            assert consumer._link.pop() is None, "its attempt is asked for"
        first.nack()
    assert bodies(receive_all(consumer, 2)) == ["a", "b"]
    session.acknowledge()
