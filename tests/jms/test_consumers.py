"""Consumers: receive with and without time, iteration, prefetch, several in one session."""

import os
import re
import signal
import threading
import time
from decimal import Decimal
from fractions import Fraction
from typing import SupportsFloat

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Message, Queue, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.receiving.waiting import CATCH_UP_S
from jbm_kafka.jms.session import Session
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.jms.conftest import RUN, Connect
from tests.jms.support import SOON_S, Aside, ask, bodies, eventually, group_worker_behind, receive, receive_all, send
from tests.support.waiting import in_time, wait_until


def test_receive_with_a_short_timeout_finds_what_was_there(session: Session, orders: Queue) -> None:
    send(session, orders, "a")
    message = session.create_consumer(orders).receive(0.001)
    assert message is not None
    assert message.body == "a"


def test_receive_returns_none_when_the_time_is_up_and_at_most_a_second_later(session: Session, orders: Queue) -> None:
    consumer = session.create_consumer(orders)

    def wait_in_vain() -> None:
        begin = time.monotonic()
        assert consumer.receive(0.2) is None
        assert time.monotonic() - begin >= 0.2

    in_time(wait_in_vain, 0.2 + CATCH_UP_S)


def test_receive_without_waiting_gets_what_has_come(session: Session, orders: Queue) -> None:
    consumer = session.create_consumer(orders)
    assert consumer.receive_nowait() is None
    send(session, orders, "a")
    message = consumer.receive(0)
    assert message is not None
    assert message.body == "a"


def test_receive_without_a_timeout_waits_until_something_comes(
    connection: Connection, session: Session, orders: Queue
) -> None:
    consumer = session.create_consumer(orders)
    waiting = Aside(consumer.receive)
    with connection.create_session() as other:
        send(other, orders, "a")
    assert getattr(waiting.result(), "body", None) == "a"


@pytest.mark.parametrize("timeout", [Decimal("0.01"), Fraction(1, 100)], ids=repr)
def test_a_timeout_may_be_a_number_of_another_class(session: Session, orders: Queue, timeout: SupportsFloat) -> None:
    consumer = session.create_consumer(orders)
    assert consumer.receive(timeout) is None
    assert consumer.receive_body(str, timeout) is None
    send(session, orders, "a")
    message = consumer.receive(Decimal("1e400"))
    assert message is not None
    assert message.body == "a"


def test_iteration_receives_until_the_consumer_is_closed(session: Session, orders: Queue) -> None:
    send(session, orders, "a", "b", "c")
    got = []
    consumer = session.create_consumer(orders)
    for message in consumer:
        got.append(message.body)
        if len(got) == 3:
            consumer.close()
    assert got == ["a", "b", "c"]


def test_closing_from_another_thread_ends_a_receive(connection: Connection, orders: Queue) -> None:
    """CONN-1: close from any thread, again and again."""
    session = connection.create_session(AcknowledgeMode.CLIENT)
    consumer = session.create_consumer(orders)
    waiting = Aside(consumer.receive)
    wait_until(lambda: consumer._link.demand.is_waiting, about="it waits", timeout_s=SOON_S)
    consumer.close()
    consumer.close()
    assert waiting.result() is None
    second = session.create_consumer(orders)
    waiting = Aside(second.receive)
    wait_until(lambda: second._link.demand.is_waiting, about="it waits", timeout_s=SOON_S)
    session.close()
    session.close()
    assert waiting.result() is None


@pytest.mark.threads_only
def test_a_session_in_use_refuses_a_second_thread(session: Session, orders: Queue) -> None:
    """CONN-1: a session used by two threads at once is refused."""
    consumer = session.create_consumer(orders)
    waiting = Aside(consumer.receive)
    while not consumer._link.demand.is_waiting:
        assert waiting.is_running
    said = (
        f"the {session.acknowledge_mode.name} session that receives from {orders} is in use by thread "
        f"'{waiting.thread_name}'; use one session per thread"
    )
    for call in (consumer.receive_nowait, session.recover, lambda: session.create_producer(orders)):
        with pytest.raises(errors.IllegalStateError, match=re.escape(said)):
            call()
    consumer.close()
    waiting.result()


def test_prefetch_limits_what_a_consumer_holds(connection: Connection, session: Session, orders: Queue) -> None:
    """ACK-8: an idle consumer with a prefetch of two leaves the rest to others; unread ones go back uncounted."""
    queue = Queue(f"{orders.name}.one")
    for number in range(6):
        send(session, queue, f"m{number}", unit=f"u{number}")
    holder = connection.create_session(AcknowledgeMode.CLIENT)
    greedy = holder.create_consumer(queue, prefetch=2)
    receive(greedy)
    others = receive_all(session.create_consumer(queue), 4)
    assert all(message.delivery_count == 1 for message in others)
    holder.close()


def test_prefetch_of_a_session_is_the_default_of_its_consumers(connection: Connection, orders: Queue) -> None:
    """ACK-8: a session default, overridable per consumer."""
    session = connection.create_session(AcknowledgeMode.TRANSACTED)
    session.set_default_prefetch(1)
    send(session, orders, "a", "b", unit="u")
    session.commit()
    consumer = session.create_consumer(orders)
    receive(consumer)
    with pytest.raises(
        errors.ResourceAllocationError,
        match=r"transaction holds 1 message of .*, its whole prefetch of 1; commit or roll",
    ):
        consumer.receive(SOON_S)
    for wrong in (0, True, "many"):
        with pytest.raises(ValueError, match=r"count is .*from 1 to 1000000"):
            session.set_default_prefetch(wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=r"prefetch is .*from 1 to 1000000"):
            session.create_consumer(orders, prefetch=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL])
def test_a_full_prefetch_waits_for_an_acknowledgement_and_warns_once(
    connection: Connection, orders: Queue, mode: AcknowledgeMode, caplog: pytest.LogCaptureFixture
) -> None:
    """ACK-8: another thread may acknowledge, so the receive can succeed and is not refused."""
    session = connection.create_session(mode)
    send(session, orders, "a", "b", unit="u")
    consumer = session.create_consumer(orders, prefetch=1)
    first = receive(consumer)
    assert consumer.receive_nowait() is None
    assert not [record for record in caplog.records if "prefetch" in record.getMessage()]
    for _ in range(2):
        assert consumer.receive(0.1) is None
    [warning] = [record.getMessage() for record in caplog.records if "prefetch" in record.getMessage()]
    assert warning.startswith(f"{orders}: ")
    assert "prefetch of 1 " in warning
    waiting = Aside(lambda: consumer.receive(SOON_S))
    first.acknowledge()
    assert getattr(waiting.result(), "body", None) == "b"


def test_a_prefetch_of_one_reserves_nothing_beside_what_is_in_hand(connect: Connect, orders: Queue) -> None:
    """ACK-8: the next message is for whoever asks, not for the buffer of a receiver that is still at work."""
    # A sidecar of its own: it does not take back a buffer that nobody reads, before the test has ended.
    connection = connect(namespace=f"{RUN}-idle", receiver_idle_ms=600_000)
    busy, idle = (connection.create_session(AcknowledgeMode.CLIENT) for _ in range(2))
    at_work, free = busy.create_consumer(orders, prefetch=1), idle.create_consumer(orders, prefetch=1)
    send(busy, orders, "a", unit="u1")
    assert receive(at_work).body == "a"
    send(busy, orders, "b", unit="u2")
    assert receive(free).body == "b"


def test_what_a_receiver_leaves_unread_is_for_others_after_its_idle_time() -> None:
    """CONN-1, `receiver_idle_ms`: who asks no more keeps nobody's messages, and stays a member."""
    with MemoryWorld() as world, world.factory(receiver_idle_ms=2_000).create_connection() as connection:
        connection.start()
        queue, session = Queue("orders"), connection.create_session()
        idle = session.create_consumer(queue)
        other = connection.create_session().create_consumer(queue)
        send(session, queue, "a", "b")
        assert receive(idle).body == "a"
        ask(idle)
        eventually(lambda: len(idle._link.buffer) == 1, "nothing was granted ahead")
        world.clock.advance(1_900)
        assert other.receive(0) is None
        world.clock.advance(200)
        assert receive(other).body == "b"
        assert group_worker_behind(idle).has_joined


@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.CLIENT, AcknowledgeMode.TRANSACTED])
def test_two_consumers_of_one_session_keep_a_unit_in_order(
    connection: Connection, orders: Queue, mode: AcknowledgeMode
) -> None:
    """UNIT-3, ORDER-1: the second gets later messages only after the application received the earlier ones."""
    with connection.create_session() as sender:
        send(sender, orders, *(f"m{number}" for number in range(12)), unit="u")
    session = connection.create_session(mode)
    first = session.create_consumer(orders)
    got = [receive(first), receive(first)]
    second = session.create_consumer(orders)
    for number in range(10):
        got.append(receive((second, first)[number % 2]))
    assert bodies(got) == [f"m{number}" for number in range(12)]


def test_two_consumers_polled_without_waiting_keep_a_unit_in_order(connection: Connection, orders: Queue) -> None:
    """UNIT-3: whoever of them polls, and however often in vain."""
    with connection.create_session() as sender:
        send(sender, orders, *(f"m{number}" for number in range(8)), unit="u")
    session = connection.create_session(AcknowledgeMode.CLIENT)
    consumers = session.create_consumer(orders), session.create_consumer(orders)
    got: list[Message] = []
    deadline = time.monotonic() + SOON_S
    while len(got) < 8:
        assert time.monotonic() < deadline, bodies(got)
        for consumer in consumers:
            message = consumer.receive_nowait()
            if message is not None:
                got.append(message)
    assert bodies(got) == [f"m{number}" for number in range(8)]


@pytest.mark.parametrize("waits", [True, False])
def test_two_consumers_of_one_session_receive_again_after_their_group_worker_has_ended(
    connection: Connection, session: Session, orders: Queue, waits: bool
) -> None:
    """CONN-1: a group worker leaves when nobody receives for a while; what was asked of it is asked of the next."""
    client = connection.create_session(AcknowledgeMode.CLIENT)
    first, second = client.create_consumer(orders), client.create_consumer(orders)
    group_worker = group_worker_behind(first)
    group_worker.stop()
    assert group_worker.join(SOON_S)
    assert second._link.group_worker is group_worker
    send(session, orders, "a")
    got: list[Message | None] = []

    def polled() -> bool:
        got.append(first.receive(0))
        return got[-1] is not None

    if waits:
        assert getattr(Aside(first.receive).result(), "body", None) == "a"
    else:
        eventually(polled, "nothing came")


def test_consumers_of_two_queues_in_one_session_each_get_their_own(connection: Connection, orders: Queue) -> None:
    session = connection.create_session(AcknowledgeMode.CLIENT)
    names = [Queue(f"{orders.name}.{name}") for name in ("x", "y")]
    for queue in names:
        send(session, queue, f"for {queue.name}")
    consumers = [session.create_consumer(queue) for queue in names]
    assert [receive(consumer).body for consumer in consumers] == [f"for {queue.name}" for queue in names]
    session.acknowledge()


def test_a_session_whose_consumer_closed_with_messages_in_hand_serves_the_next(
    connection: Connection, orders: Queue
) -> None:
    """Of UNIT-7: the closed one is forgotten once its messages are settled."""
    session = connection.create_session(AcknowledgeMode.CLIENT)
    send(session, orders, "a", "b", unit="u")
    for body in ("a", "b"):
        consumer = session.create_consumer(orders)
        message = receive(consumer)
        consumer.close()
        message.acknowledge()
        assert message.body == body
    assert session._core.links.all == []


def test_units_go_to_two_sessions_and_each_stays_in_one(connection: Connection, orders: Queue) -> None:
    """UNIT-2, UNIT-3, UNIT-5: a unit is with one session until it is acknowledged, then with any."""
    with connection.create_session() as sender:
        for number in range(3):
            for unit in ("a", "b"):
                send(sender, orders, f"{unit}{number}", unit=unit)
    one, two = (connection.create_session(AcknowledgeMode.CLIENT) for _ in range(2))
    first, second = one.create_consumer(orders, prefetch=1), two.create_consumer(orders, prefetch=1)
    x, y = receive(first), receive(second)
    assert {x.body, y.body} == {"a0", "b0"}
    x.acknowledge()
    y.acknowledge()
    got = {"a": 1, "b": 1}
    consumers = [(one, first), (two, second)]
    for turn in range(4):
        session, consumer = consumers[turn % 2]
        message = receive(consumer)
        unit = str(message.unit_of_order)
        assert message.body == f"{unit}{got[unit]}"
        got[unit] += 1
        session.acknowledge()


def test_a_receive_on_a_stopped_connection_waits_for_its_start(
    warm: ConnectionFactory, connection: Connection, orders: Queue
) -> None:
    """CONN-1: start gates delivery; receives on a stopped one return None in time."""
    with connection.create_session() as session:
        send(session, orders, "a")
    other = warm.create_connection()
    try:
        consumer = other.create_session().create_consumer(orders)
        assert consumer.receive(0.1) is None
        assert consumer.receive_nowait() is None
        waiting = Aside(consumer.receive)
        while not consumer._link.demand.is_waiting:
            assert waiting.is_running
        other.start()
        assert getattr(waiting.result(), "body", None) == "a"
    finally:
        other.close()


@pytest.mark.threads_only
def test_ctrl_c_interrupts_a_receive(connection: Connection, orders: Queue) -> None:
    session = connection.create_session()
    consumer = session.create_consumer(orders)

    def interrupt() -> None:
        eventually(lambda: consumer._link.demand.is_waiting, "no receive waits")
        os.kill(os.getpid(), signal.SIGINT)

    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    with pytest.raises(KeyboardInterrupt):
        consumer.receive()
    interrupting.join()
    assert consumer.receive_nowait() is None  # the session is usable


def test_a_receive_on_a_connection_that_nobody_started_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    """Of CONN-1: JMS delivers nothing there and calls it no error; most who meet it have forgotten `start()`."""
    connection = ConnectionFactory("memory://not-started").create_connection()
    consumer = connection.create_session().create_consumer(Queue("orders"))
    for _ in range(2):
        assert consumer.receive(0.05) is None
    [warning] = [record.getMessage() for record in caplog.records if "not started" in record.getMessage()]
    assert warning.startswith("queue:orders: ")
    assert "call its start()" in warning
    connection.close()


@pytest.mark.parametrize("timeout", [float("inf"), 1e300])
def test_a_timeout_longer_than_any_wait_is_for_ever(session: Session, orders: Queue, timeout: float) -> None:
    send(session, orders, "a")
    message = session.create_consumer(orders).receive(timeout)
    assert message is not None
    assert message.body == "a"
