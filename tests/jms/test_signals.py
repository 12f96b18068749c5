"""Signals: a handler may close what it interrupted, and Ctrl-C in a receive loses no message and settles none."""

import dis
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from types import CodeType, FrameType
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, DeliveryMode, MessageProducer, Queue, compiled, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from tests.jms.support import SOON_S, bodies, eventually, left, receive, send

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


@pytest.mark.parametrize("mode", DeliveryMode)
def test_ctrl_c_anywhere_in_a_send_lets_the_session_go_on(
    connection: Connection, orders: Queue, mode: DeliveryMode
) -> None:
    """SEND-3: a group waited for ever for the report of a send that was interrupted before it was made.

    Whether that one was sent nobody knows; of the others each is in the log, once what is not confirmed is sent again.
    """
    session = connection.create_session()
    session.set_group_ack_threshold(3)
    producer = session.create_producer(orders)
    producer.delivery_mode = mode
    producer.send("begun")  # the clients of the connection are there
    finished: set[str] = set()
    told: set[str] = set()
    interrupted = unharmed = 0
    for place in range(5_000):
        body = f"m{place}"
        try:
            with interrupted_at(place):
                producer.send(body)
        except KeyboardInterrupt:
            interrupted += 1
        except errors.JMSError as error:
            told.add(str(error))
            resend_unconfirmed(producer)
        else:
            unharmed += 1
            finished.add(body)
        if unharmed == 5:
            break
    with suppress(errors.JMSError):
        producer.flush()
    resend_unconfirmed(producer)
    producer.close()
    assert not session._core.guard.is_interrupted()
    assert all("was interrupted" in text for text in told), told
    assert interrupted > 25 or not compiled.are_left_aside(), "compiled modules have no places to interrupt"
    assert finished <= set(left(connection, orders))


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


COMPILED_ONLY = {"_break_off", "break_off"}
"""What ends a call that an error has ended, and all that it calls: an interrupt within would be the second trouble.

Compiled, as in what is installed, it cannot be interrupted.
"""


def handler(code: CodeType, offset: int) -> int | None:
    """Where an error of the instruction is handled, if it is within a block that does."""
    return next((found.target for found in handlers(code) if found.start <= offset < found.end), None)


@cache
def handlers(code: CodeType) -> Sequence[Any]:
    return dis._parse_exception_table(code)  # type: ignore[attr-defined,no-any-return]


class Interrupts:
    """Raises KeyboardInterrupt in this thread, at the so many-th place of ours or of threading.py where a signal could.

    Python looks for signals at the beginning of a function, after a call, and at the end of a round of a loop: as the
    last act of that instruction. Here it is the first of the next one, so those places count where one block has both.
    """

    def __init__(self, place: int) -> None:
        self._places_left = place
        self._looked: dict[object, int] = {}
        """Of each frame: its instruction before this one, if Python looks for signals at its end."""

    def __call__(self, frame: FrameType, event: str, argument: object) -> object:
        code = frame.f_code
        is_seen = "jbm_kafka" in code.co_filename or code.co_filename == threading.__file__
        within = (code, frame.f_back and frame.f_back.f_code)
        if not is_seen or any(each and each.co_name in COMPILED_ONLY for each in within):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = self._looked.pop(frame, None)
            if before is not None and handler(code, before) == handler(code, frame.f_lasti):
                self._places_left -= 1
                if self._places_left == -1:
                    raise KeyboardInterrupt
            if dis.opname[code.co_code[frame.f_lasti]].startswith(("CALL", "RESUME", "JUMP_BACKWARD")):
                self._looked[frame] = frame.f_lasti
        return self


@contextmanager
def interrupted_at(place: int) -> Iterator[None]:
    sys.settrace(Interrupts(place))  # type: ignore[arg-type]
    try:
        yield
    finally:
        sys.settrace(None)


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
