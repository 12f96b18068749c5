"""Senders: one for all threads of a process."""

import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest

from jbm_kafka import AcknowledgeMode, Connection, ConnectionFactory, DeliveryMode, Message, Queue, Session
from jbm_kafka.errors import IllegalStateError, InvalidSettingError, JMSError
from tests.jms.support import SOON_S, receive_all

THREADS, EACH = 16, 25


def test_threads_send_at_once_by_one_sender(connection: Connection, session: Session, orders: Queue) -> None:
    """CONN-1, ORDER-1: none is refused, and each thread's unit is in the order of its calls."""
    start = threading.Barrier(THREADS)

    def work(thread: int) -> None:
        start.wait(SOON_S)
        for number in range(EACH):
            # Without waiting, then waited for: the next one of the unit must not pass the one before.
            mode = DeliveryMode.NON_PERSISTENT if number % 2 else DeliveryMode.PERSISTENT
            sender.send(orders, f"{thread}/{number}", unit_of_order=f"u{thread}", delivery_mode=mode)

    with connection.create_sender() as sender, ThreadPoolExecutor(THREADS) as threads:
        for each in [threads.submit(work, thread) for thread in range(THREADS)]:
            each.result(SOON_S)
    found: dict[str, list[int]] = defaultdict(list)
    for message in receive_all(session.create_consumer(orders), THREADS * EACH):
        thread, number = message.body.split("/")
        found[thread].append(int(number))
    assert found == {str(thread): list(range(EACH)) for thread in range(THREADS)}


def test_one_unit_sent_by_threads_in_turn_keeps_the_order_of_the_calls(
    connection: Connection, session: Session, orders: Queue
) -> None:
    """ORDER-1: one that nobody waited for, then one of another thread that does wait."""
    with connection.create_sender() as sender:
        taken = [sender._take(), sender._take()]  # as two threads have them that are in a call at once
        for number in range(100):
            mode = DeliveryMode.NON_PERSISTENT if number % 2 == 0 else DeliveryMode.PERSISTENT
            taken[number % 2].send(f"{number}", destination=orders, unit_of_order="joe", delivery_mode=mode)
    consumer = session.create_consumer(orders)
    assert [message.body for message in receive_all(consumer, 100)] == [f"{number}" for number in range(100)]


def test_without_a_unit_messages_are_spread(connection: Connection, session: Session, orders: Queue) -> None:
    with connection.create_sender() as sender:
        for number in range(8):
            sender.send(orders, f"{number}")
    messages = receive_all(session.create_consumer(orders), 8)
    assert {message.kafka.partition for message in messages if message.kafka} == {0, 1}


def test_a_sender_of_a_factory_has_a_connection_of_its_own(warm: ConnectionFactory, orders: Queue) -> None:
    reported: list[tuple[Message, JMSError | None]] = []
    with warm.create_sender() as sender:
        sender.send(orders, "a", on_completion=lambda message, error: reported.append((message, error)))
    assert [(message.body, error) for message, error in reported] == [("a", None)], "close() waits for callbacks"
    assert sender.is_closed
    with pytest.raises(IllegalStateError, match="the sender is closed"):
        sender.send(orders, "b")


def test_closing_waits_for_the_sends_of_other_threads(connection: Connection, session: Session, orders: Queue) -> None:
    """CONN-1: whatever a send returned for is in the queue, and a send that comes too late says so."""
    sender, sent, refused = connection.create_sender(), list[str](), list[IllegalStateError]()
    begun = threading.Event()

    def work(thread: int) -> None:
        for number in range(10_000):
            try:
                sender.send(orders, body := f"{thread}/{number}")
            except IllegalStateError as error:
                refused.append(error)
                return
            sent.append(body)
            begun.set()

    with ThreadPoolExecutor(4) as threads:
        for thread in range(4):
            threads.submit(work, thread)
        assert begun.wait(SOON_S)
        sender.close()
    assert len(refused) == 4
    messages = receive_all(session.create_consumer(orders), len(sent))
    assert sorted(message.body for message in messages) == sorted(sent)


def test_a_group_of_sends_is_no_senders(connection: Connection, orders: Queue) -> None:
    with connection.create_sender() as sender, pytest.raises(InvalidSettingError, match="a group of sends is one prod"):
        sender.send(orders, "a", delivery_mode=DeliveryMode.PERSISTENT_GROUPACK)


def test_a_closed_connection_ends_its_senders(warm: ConnectionFactory, orders: Queue) -> None:
    connection = warm.create_connection()
    sender = connection.create_sender()
    sender.send(orders, "a")
    connection.close()
    assert sender.is_closed
    with pytest.raises(IllegalStateError, match="the connection is closed"):
        sender.send(orders, "b")
    sender.close()


def test_a_sender_sends_to_queues_while_its_connection_receives(connection: Connection, orders: Queue) -> None:
    with connection.create_session(AcknowledgeMode.AUTO) as session, connection.create_sender() as sender:
        consumer = session.create_consumer(orders)
        sender.send(orders, {"qty": 3}, properties={"region": "EU"}, priority=7)
        [message] = receive_all(consumer, 1)
    assert (message.body, message.properties["region"], message.priority) == ({"qty": 3}, "EU", 7)
