"""Signals: a handler may close what it interrupted, and Ctrl-C loses no message, settles none unseen, and holds up no
close.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from jbm_kafka import (
    AcknowledgeMode,
    AddressSettings,
    ConnectionFactory,
    DeliveryMode,
    Message,
    MessageProducer,
    Queue,
    compiled,
    errors,
)
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.jms.support import SOON_S, bodies, eventually, left, receive, send
from tests.support.interrupts import interrupted_at, places

AT_ONCE_S = 9.0
"""Leaving a group in order takes some of it on a busy machine; Docker kills after ten seconds."""


def signal_while_it_waits(consumer: MessageConsumer, *, to_another_thread: bool = False) -> threading.Thread:
    """SIGUSR1 comes when a receive waits. To another thread of the process it does not wake the main one, as one does
    not that comes just before the main thread sleeps.
    """

    def run() -> None:
        eventually(lambda: consumer._link.demand.is_waiting, "no receive waits")
        if to_another_thread:
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        else:
            os.kill(os.getpid(), signal.SIGUSR1)

    return threading.Thread(target=run)


@contextmanager
def handling(then: Callable[[], None]) -> Iterator[None]:
    """SIGUSR1 calls it on the main thread."""
    before = signal.signal(signal.SIGUSR1, lambda *_: then())
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("to_another_thread", [False, True])
@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.TRANSACTED])
@pytest.mark.parametrize("closed", ["consumer", "session", "connection"])
def test_closing_from_a_signal_handler_ends_the_receive_at_once(
    warm: ConnectionFactory, orders: Queue, mode: AcknowledgeMode, closed: str, to_another_thread: bool
) -> None:
    """CONN-1: it hung for 30 seconds, waiting for the very call that it had interrupted; and for ever, where the signal
    had not woken the main thread.
    """
    connection = warm.create_connection()
    session = connection.create_session(mode)
    consumer = session.create_consumer(orders)
    connection.start()
    signalling = signal_while_it_waits(consumer, to_another_thread=to_another_thread)
    close = {"consumer": consumer.close, "session": session.close, "connection": connection.close}[closed]
    with handling(close):
        signalling.start()
        begin = time.monotonic()
        assert consumer.receive() is None
        assert time.monotonic() - begin < AT_ONCE_S
        signalling.join()
    with pytest.raises(errors.IllegalStateError, match="closed"):
        consumer.receive(0)
    connection.close()
    eventually(lambda: not any(thread.name == "jbm-closing" for thread in threading.enumerate()), "still closing")


def test_a_handler_ends_a_request_whose_signal_did_not_wake_it(warm: ConnectionFactory, orders: Queue) -> None:
    """Of CONN-1: it waited for a reply that might never come."""
    with warm.create_connection() as connection, warm.create_connection() as other:
        session, asked = connection.create_session(), other.create_session().create_consumer(orders)

        def signal_when_asked() -> None:
            receive(asked)
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

        signalling = threading.Thread(target=signal_when_asked)
        with handling(session.close):
            signalling.start()
            with pytest.raises(errors.IllegalStateError, match="the session was closed before the reply came"):
                session.request(orders, "anybody?", timeout=None)
            signalling.join()
    eventually(lambda: not any(thread.name == "jbm-closing" for thread in threading.enumerate()), "still closing")


def test_closing_from_a_signal_handler_that_interrupts_the_holder_of_the_lock(
    warm: ConnectionFactory, orders: Queue
) -> None:
    """The lock is not free before the handler has returned."""
    connection = warm.create_connection()
    session = connection.create_session(AcknowledgeMode.CLIENT)
    session.create_consumer(orders)
    with handling(connection.close), session._core.lock:
        os.kill(os.getpid(), signal.SIGUSR1)
        assert session.is_closed
    eventually(lambda: connection.is_closed, "not closed")
    eventually(lambda: not any(thread.name == "jbm-closing" for thread in threading.enumerate()), "still closing")


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.CLIENT])
def test_ctrl_c_anywhere_in_a_receive_settles_nothing_unseen_and_loses_nothing(
    connection: Connection, session: Session, orders: Queue, mode: AcknowledgeMode, waits: bool
) -> None:
    """ACK-1: taken from the buffer and not returned yet, it was settled by the next receive or close; and where it came
    within `threading.Event.set`, every thread of the process waited for ever.

    The interrupt comes at each place in turn that a receive passes, until some run to their end. With `waits` the
    message comes when it waits already.
    """
    queue = Queue(f"{orders.name}.one")
    receiving = connection.create_session(mode)
    consumer = receiving.create_consumer(queue)
    seen: list[object] = []
    unharmed = 0
    for place in range(5_000):
        body = f"m{place}"
        if not waits:
            send(session, queue, body)
        try:
            sending = partial(send, session, queue, body) if waits else (lambda: None)
            with sending_once_it_waits(consumer, sending), interrupted_at(place):
                message = consumer.receive()
        except KeyboardInterrupt:
            message = receive(consumer)
        else:
            unharmed += 1
        assert message is not None
        assert message.body == body
        assert message.delivery_count == 1
        seen.append(message.body)
        if mode is AcknowledgeMode.CLIENT:
            message.acknowledge()
        if unharmed == 5:
            break
    assert seen == [f"m{number}" for number in range(len(seen))]
    assert len(seen) > 25 or not compiled.are_left_aside(), "compiled modules have no places to interrupt"
    receiving.close()


@pytest.mark.parametrize("has_callback", [False, True])
@pytest.mark.parametrize("mode", DeliveryMode)
def test_ctrl_c_anywhere_in_a_send_lets_the_session_go_on(
    warm: ConnectionFactory, connection: Connection, orders: Queue, mode: DeliveryMode, has_callback: bool
) -> None:
    """SEND-3, SEND-9: what was interrupted before it was made was waited for: by a group for ever, and by flushes and
    the closing for a minute each.

    Whether that one was sent nobody knows; of the others each is in the log, once what is not confirmed is sent again.
    """
    sending = warm.create_connection()
    session = sending.create_session()
    session.set_group_ack_threshold(3)
    producer = session.create_producer(orders)
    producer.delivery_mode = mode
    producer.send("begun")  # a client of the connection is there; with a callback another one is wanted
    finished: set[str] = set()
    told: set[str] = set()
    completed: list[object] = []
    interrupted = 0
    for place in places(finished):
        body = f"m{place}"
        try:
            with interrupted_at(place):
                producer.send(body, on_completion=completed_in(completed) if has_callback else None)
        except KeyboardInterrupt:
            interrupted += 1
        except errors.JMSError as error:
            told.add(str(error))
            resend_unconfirmed(producer)
        else:
            finished.add(body)
    begin = time.monotonic()
    try:
        producer.flush(SOON_S)
    except errors.JMSError as error:
        told.add(str(error))
        resend_unconfirmed(producer)
    producer.close()
    assert not session._core.guard.is_interrupted()
    sending.close()
    assert time.monotonic() - begin < AT_ONCE_S
    assert all("was interrupted" in text for text in told), told
    assert interrupted > 25 or not compiled.are_left_aside(), "compiled modules have no places to interrupt"
    assert not has_callback or finished <= set(completed)
    assert completed == sorted(completed, key=number_of)
    assert finished <= set(left(connection, orders))


def completed_in(completed: list[object]) -> Callable[[Message, errors.JMSError | None], None]:
    """A callback that notes what Kafka has confirmed."""

    def note(message: Message, error: errors.JMSError | None) -> None:
        if error is None:
            completed.append(message.body)

    return note


def test_ctrl_c_anywhere_in_a_commit_leaves_all_of_it_or_nothing_and_a_rollback_goes_on() -> None:
    """ACK-7: interrupted while it moved a message to the transaction, it had it twice, and each rollback asserted.

    In memory: what a commit passes on this thread is the same.
    """
    taken, given = Queue("taken.one"), Queue("given.one")
    settings = {"#": AddressSettings(partitions=1, max_delivery_attempts=-1)}
    finished: list[object] = []
    with MemoryWorld() as world:
        factory = world.factory(address_settings=settings)
        with factory.create_connection() as connection, factory.create_connection() as other:
            session = connection.create_session(AcknowledgeMode.TRANSACTED)
            consumer, producer = session.create_consumer(taken), session.create_producer(given)
            filling = other.create_session()
            for place in places(finished):
                send(filling, taken, f"m{place}")
                message = receive(consumer)
                producer.send(str(message.body))
                try:
                    with interrupted_at(place):
                        session.commit()
                except KeyboardInterrupt:
                    session.rollback()
                else:
                    finished.append(message.body)
            begin = time.monotonic()
            session.close()
            assert time.monotonic() - begin < AT_ONCE_S
            was_given = left(other, given)
            assert set(finished) <= set(was_given)
            assert sorted([*was_given, *left(other, taken)], key=number_of) == [f"m{each}" for each in range(place + 1)]


def number_of(body: object) -> int:
    return int(str(body)[1:])


def resend_unconfirmed(producer: MessageProducer) -> None:
    for message in producer.unacknowledged_sends():
        producer.send(message)


@contextmanager
def sending_once_it_waits(consumer: MessageConsumer, sending: Callable[[], object]) -> Iterator[None]:
    """Beside the block; after it at the latest."""
    is_over = threading.Event()

    def run() -> None:
        while not (consumer._link.demand.is_waiting or is_over.wait(0.001)):
            pass
        sending()

    beside = threading.Thread(target=run)
    beside.start()
    try:
        yield
    finally:
        is_over.set()
        beside.join()


WORKER = """
import faulthandler, signal, sys
from jbm_kafka import ConnectionFactory, Queue

faulthandler.enable()
bootstrap, queue = sys.argv[1:]
with ConnectionFactory(bootstrap).create_connection() as connection:
    consumer = connection.create_session().create_consumer(Queue(queue))
    signal.signal(signal.SIGTERM, lambda *_: connection.close())
    print("ready", flush=True)
    for message in consumer:
        print(message.body, flush=True)
"""


def test_sigterm_ends_a_worker_at_once_and_loses_nothing(
    bootstrap: str, connection: Connection, session: Session, orders: Queue
) -> None:
    """As docs/graceful-shutdown.md shows it: a real process in a receive, and its time until exit."""
    queue = Queue(f"{orders.name}.one")
    send(session, queue, *(f"m{number}" for number in range(50)))
    worker = subprocess.Popen([sys.executable, "-c", WORKER, bootstrap, queue.name], stdout=subprocess.PIPE, text=True)
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        seen = [worker.stdout.readline().strip() for _ in range(50)]
        begin = time.monotonic()
        worker.terminate()
        try:
            assert worker.wait(SOON_S) == 0
        except subprocess.TimeoutExpired:
            worker.send_signal(signal.SIGABRT)  # it says where each of its threads is
            raise
        assert time.monotonic() - begin < AT_ONCE_S
        assert seen == [f"m{number}" for number in range(50)]
    finally:
        worker.kill()
        worker.wait(SOON_S)
        worker.stdout.close()  # type: ignore[union-attr]
    send(session, queue, "later")
    assert left(connection, queue) == ["later"]
    assert bodies([receive(session.create_consumer(queue))]) == ["later"]
