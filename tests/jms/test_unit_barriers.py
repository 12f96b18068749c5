"""What a session gives back holds back what the group worker had granted it of the same units (Hand)."""

from collections.abc import Callable

import pytest

from jbm_kafka import AcknowledgeMode, Message, Queue
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.jms.conftest import Connect
from tests.jms.support import (
    Aside,
    ask,
    bodies,
    eventually,
    group_worker_behind,
    receive,
    receive_all,
    send,
    standing_still,
)


def one_unread(sender: Session, consumer: MessageConsumer, body: str) -> None:
    """The consumer asked, and has that message of the unit in its buffer."""
    ask(consumer)
    send(sender, consumer.destination, body, unit="u")
    eventually(lambda: len(consumer._link.buffer) == 1, "what was asked for did not come")


@pytest.mark.parametrize("is_made_later", [False, True])
def test_a_rollback_after_a_close_holds_back_what_another_consumer_has_unread(
    connection: Connection, session: Session, orders: Queue, is_made_later: bool
) -> None:
    """UNIT-1, UNIT-3, UNIT-5: the closed one's message comes first, and the next commit settles each once."""
    transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
    first = transacted.create_consumer(orders)
    second = None if is_made_later else transacted.create_consumer(orders)
    send(session, orders, "m1", unit="u")
    assert receive(first).body == "m1"
    first.close()
    if second is None:
        second = transacted.create_consumer(orders)
    one_unread(session, second, "m2")
    with standing_still(second):
        transacted.rollback()
        early = second.receive(0)
    assert early is None
    again = receive_all(second, 2)
    assert bodies(again) == ["m1", "m2"]
    assert [message.delivery_count for message in again] == [2, 1]
    transacted.commit()
    send(session, orders, "m3", unit="u")
    assert receive(second).body == "m3"


def _stop_and_start(connection: Connection, consumer: MessageConsumer, other: MessageConsumer) -> MessageConsumer:
    connection.stop()
    connection.start()
    return consumer


def _close(connection: Connection, consumer: MessageConsumer, other: MessageConsumer) -> MessageConsumer:
    consumer.close()
    return other


@pytest.mark.parametrize("give_up", [_stop_and_start, _close])
def test_what_goes_back_unread_comes_again_before_later_ones_of_its_unit(
    connect: Connect, session: Session, orders: Queue, give_up: Callable[..., MessageConsumer]
) -> None:
    """UNIT-1, CONN-1, of UNIT-7: also when the same session asks again before the group worker has taken it back."""
    queue = Queue(f"{orders.name}.one")
    connection = connect()
    client = connection.create_session(AcknowledgeMode.CLIENT)
    first = client.create_consumer(queue)
    other = first if give_up is _stop_and_start else client.create_consumer(queue)
    one_unread(session, first, "m1")
    group_worker = group_worker_behind(first)
    send(session, queue, "m2", unit="u")
    eventually(lambda: group_worker.turn.fetching.ahead() > 0, "the next was not read")
    with standing_still(first):
        asking = give_up(connection, first, other)
        received = Aside(lambda: receive(asking))
        eventually(lambda: asking._link.demand.is_waiting and asking._link.demand.credit > 0, "it does not ask")
    got = [received.result(), receive(asking)]
    assert [(m.body, m.delivery_count) for m in got if isinstance(m, Message)] == [("m1", 1), ("m2", 1)]
    client.acknowledge()
    send(session, queue, "m3", unit="u")
    assert receive(asking).body == "m3"


def test_what_a_receive_took_of_a_consumer_that_is_closed_by_then_goes_to_another_in_order(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """UNIT-3: the closed one's buffer was given back before, and nobody would look there again."""
    client = connection.create_session(AcknowledgeMode.CLIENT)
    first, second = client.create_consumer(orders), client.create_consumer(orders)
    one_unread(session, first, "m1")
    with client._core.in_use():
        taken = first._inbox.poll()
        assert taken is not None
        first._link.is_closed = True
        first._link.give_back_unread()
        client._core.links.close(first._link)
        send(session, orders, "m2", unit="u")
        first._link.put_back(taken)
    got = receive_all(second, 2)
    assert [(message.body, message.delivery_count) for message in got] == [("m1", 1), ("m2", 1)]
    client.acknowledge()


def test_what_a_consumer_has_unread_while_it_is_closed_comes_to_one_made_meanwhile_in_order(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """UNIT-3: it was no sibling of that one any more, and its unread messages had not gone back."""
    client = connection.create_session(AcknowledgeMode.CLIENT)
    first = client.create_consumer(orders)
    one_unread(session, first, "m1")
    first._link.is_closed = True
    second = client.create_consumer(orders)
    send(session, orders, "m2", unit="u")
    got = receive_all(second, 2)
    assert bodies(got) == ["m1", "m2"]
    first.close()
    client.acknowledge()


def test_what_waits_at_a_barrier_has_its_place_in_the_prefetch() -> None:
    """ACK-8: a receive asked for the whole prefetch anew while its buffer had something that it could not take yet."""
    with MemoryWorld() as world, world.factory().create_connection() as connection:
        connection.start()
        orders, session = Queue("orders"), connection.create_session(AcknowledgeMode.INDIVIDUAL)
        consumer = session.create_consumer(orders, prefetch=2)
        for unit in ("u", "v"):  # the receiver is fast: two are asked for at once
            send(session, orders, unit, unit=unit)
        first, second = receive_all(consumer, 2)
        first.nack()
        ask(consumer)
        eventually(lambda: len(consumer._link.buffer) == 1, "it does not come again")
        for body in ("x", "y", "z"):
            send(session, orders, body)
        with standing_still(consumer):
            second.nack()
            third = Aside(lambda: receive(consumer))
            eventually(lambda: consumer._link.demand.credit > 0, "it does not ask")
        third.result()
        world.wait_idle()
        receive(consumer)
        assert consumer.receive(0) is None, "a third one in hand"
