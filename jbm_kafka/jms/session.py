"""Sessions: one thread of work over consumers and producers, with one way to acknowledge."""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.core.errors import IllegalStateError, InvalidSelectorError, JMSError
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.engine.outbox import Outbox
from jbm_kafka.jms.arguments import checked_prefetch
from jbm_kafka.jms.browser import QueueBrowser
from jbm_kafka.jms.call_guard import CallGuard
from jbm_kafka.jms.closing import close_beside
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.known_attributes import KnownAttributes
from jbm_kafka.jms.listening import ListenerThread
from jbm_kafka.jms.messages import BytesMessage, Message, TextMessage
from jbm_kafka.jms.modes import AcknowledgeMode
from jbm_kafka.jms.producer import MessageProducer, as_destination
from jbm_kafka.jms.settling import Settling
from jbm_kafka.jms.settling_in_hand import settling_for
from jbm_kafka.jms.siblings import forgotten_if_refused, release_closed, tell_siblings
from jbm_kafka.ports import Outgoing

if TYPE_CHECKING:
    from jbm_kafka.jms.connection import Connection

CALL_TIMEOUT_S = 30.0
"""How long closing waits for a call of another thread; longer than a call goes on once the session is closed."""
_numbers = itertools.count(1)


class Session(KnownAttributes):
    """Made by `connection.create_session`. Not for two threads at once, but any thread may close it."""

    def __init__(self, connection: Connection, mode: AcknowledgeMode) -> None:
        self.connection = connection
        self.acknowledge_mode = mode
        self.session_id = f"{connection.connection_id}/{next(_numbers)}"
        self.lock = threading.RLock()
        """Shared by the session's links: guards buffers and hand, held for moments. It knows its owner, so that a
        signal handler can tell that it has interrupted that one (CallGuard.is_interrupted)."""
        self.filled = threading.Condition(self.lock)
        self.guard = CallGuard(self.filled)
        self.consumers: list[MessageConsumer] = []
        self.outbox: Outbox[Outgoing] = Outbox(budget_bytes=connection.provider.traits.transaction_bytes_max)
        self.is_closed = False
        self._has_closed = False
        """Somebody carries the closing out, or has."""
        self.default_prefetch = connection.prefetch
        self.settling: Settling = settling_for(self)
        self.system_unit = f"JBM-{connection.provider.clock.now_ms():x}-{secrets.token_hex(6)}"
        """The name of this session's system-generated unit: time-based and statistically unique (UNIT-10)."""
        self._thread: ListenerThread | None = None
        self.take_no_other()

    # -- what it makes -------------------------------------------------------------------------------------------

    def create_queue(self, name: str) -> Queue:
        """The queue of this name; created at first use when the factory says so."""
        self.check_open()
        return Queue(name)

    def create_producer(self, destination: Destination | None = None) -> MessageProducer:
        """A producer; without a destination every send names one."""
        with self.in_use(beside_listener=True):
            if destination is not None:
                self.connection.provider.ensure(as_destination(destination))
            return MessageProducer(self, destination)

    def create_consumer(
        self, destination: Destination, selector: str | None = None, no_local: bool = False, prefetch: int | None = None
    ) -> MessageConsumer:
        """A consumer of a queue. On a started connection it returns when partitions are assigned and recovered.

        Raises:
            InvalidDestinationError: the queue does not exist or cannot be one; the session can be used as before.
        """
        with self.in_use(beside_listener=True):
            if selector:
                raise InvalidSelectorError(
                    f"selector {selector!r}: this version has no selectors yet; use None", selector=selector
                )
            if no_local:
                raise IllegalStateError("no_local is for topics, which this version does not have yet")
            room = self.default_prefetch if prefetch is None else checked_prefetch(prefetch)
            consumer = MessageConsumer(self, _queue(destination), room)
            release_closed(self)
            self.consumers.append(consumer)
            tell_siblings(self)
            with forgotten_if_refused(consumer):
                consumer.connect()
            if self._thread is not None:
                self._thread.wake()
        if self.connection.is_started:
            with forgotten_if_refused(consumer):
                consumer.wait_ready()
        return consumer

    def create_browser(
        self, queue: Destination, selector: str | None = None, include: str = "deliverable"
    ) -> QueueBrowser:
        """The messages of a queue, consumed by nobody (UNIT-13)."""
        self.check_open()
        if selector:
            raise InvalidSelectorError(f"selector {selector!r}: this version has no selectors yet", selector=selector)
        return QueueBrowser(self, _queue(queue), include=include)

    def create_message(self) -> Message:
        """A message without a body."""
        return Message()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        return TextMessage(text)

    def create_bytes_message(self, data: bytes = b"") -> BytesMessage:
        return BytesMessage(data)

    # -- acknowledging ---------------------------------------------------------------------------------------------

    @property
    def transacted(self) -> bool:
        """Whether `commit` and `rollback` are for this session."""
        return self.acknowledge_mode is AcknowledgeMode.TRANSACTED

    def acknowledge(self) -> None:
        """Acknowledge everything this session has delivered; for CLIENT (ACK-2), nothing in AUTO and TRANSACTED."""
        self.check_open()
        self.settling.acknowledge_all()

    def recover(self) -> None:
        """Give back what is unacknowledged; it comes again, redelivered set.

        Raises:
            IllegalStateError: the session is transacted.
        """
        with self.in_use():
            self.settling.recover()

    def commit(self) -> None:
        """Make the transaction's sends and receives durable together (ACK-7); a new one begins.

        Raises:
            TransactionRolledBackError: it could not be committed; everything received comes again.
            IllegalStateError: the session is not transacted.
        """
        with self.in_use():
            self.connection.completions.wait_before("commit()")
            self.settling.commit()

    def rollback(self) -> None:
        """Drop the transaction's sends, give its messages back; a new one begins.

        Raises:
            IllegalStateError: the session is not transacted.
        """
        with self.in_use():
            self.connection.completions.wait_before("rollback()")
            self.settling.rollback()

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Commits at the end of the block, rolls back on an exception, which comes out whatever the rollback does.

        Raises:
            IllegalStateError: on entering: the session is closed, or not transacted.
        """
        self.check_open()
        if not self.transacted:
            raise IllegalStateError(
                f"transaction() is for TRANSACTED sessions, and this one is {self.acknowledge_mode.name}; make one "
                f"with create_session(AcknowledgeMode.TRANSACTED)"
            )
        try:
            yield self
        except BaseException as error:
            _roll_back(self, error)
            raise
        self.commit()

    def set_default_prefetch(self, count: int) -> None:
        """How many messages each consumer made from now on may hold unacknowledged."""
        self.default_prefetch = checked_prefetch(count)

    # -- life --------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Give back what is in hand, drop uncommitted sends, end. Any thread; again: nothing happens (UNIT-7).

        A signal handler may call it: what it interrupted ends, and then the session closes, beside.
        """
        self.connection.check_process()
        if self.guard.is_interrupted():
            self.is_closed = True
            close_beside(self.close, self.filled)
            return
        self.connection.completions.wait_before("session.close()")
        with self.filled:
            if self._has_closed:
                return
            self.is_closed = self._has_closed = True
            self.filled.notify_all()
        if self._thread is not None:
            self._thread.stop()
        if self.is_listener_thread():
            self.settling.close()
        else:
            with self.finished_call():
                self.settling.close()
        self.outbox.take_all()
        for consumer in list(self.consumers):
            consumer.disconnect()
        self.connection.forget(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.settling.abandon()
        self.close()

    def check_open(self) -> None:
        """Raises IllegalStateError when it is closed."""
        if self.is_closed:
            raise IllegalStateError("the session is closed; make a new one")

    @contextmanager
    def in_use(self, *, beside_listener: bool = False) -> Iterator[None]:
        """One call at a time: a second thread's is refused (CONN-1), and any other's than a listener's own.

        `beside_listener`: the call takes part in setting listeners up.
        """
        if self.is_listener_thread():
            self.check_open()
            yield
            return
        if (self._is_listening() and not beside_listener) or not self.guard.try_enter():
            self.check_open()
            raise self.busy()
        try:
            self.check_open()
            yield
        finally:
            self.guard.leave()

    def busy(self) -> IllegalStateError:
        """What a second thread is told, and a second process."""
        self.connection.check_process()
        owner = " (it has a listener, which runs on a thread of its own)" if self._thread is not None else ""
        return IllegalStateError(f"the session is in use by another thread{owner}; use one session per thread")

    def start_listening(self) -> None:
        """A consumer has a listener now: from here on the session belongs to its own thread."""
        if self._thread is None:
            self._thread = self.guard.listening = ListenerThread(self)
            self._thread.start()
        self._thread.wake()

    def connection_started(self) -> None:
        """The connection was started: receivers count from now on; one that is refused keeps no other from it."""
        self._with_each(lambda consumer: consumer.connect())

    def wait_ready(self) -> None:
        """Return when all that could connect have their first assignment, and let the listeners begin."""
        try:
            self._with_each(lambda consumer: consumer.wait_ready())
        finally:
            if self._thread is not None:
                self._thread.wake()

    def _with_each(self, step: Callable[[MessageConsumer], None]) -> None:
        error: JMSError | None = None
        for consumer in list(self.consumers):
            try:
                step(consumer)
            except JMSError as failure:
                error = error or failure
        if error is not None:
            raise error

    def connection_stopped(self) -> None:
        """The connection was stopped: unread messages go back, a running listener finishes."""
        self.wait_listener_idle()
        for consumer in list(self.consumers):
            consumer.pause()

    def _is_listening(self) -> bool:
        return self.connection.is_started and self._thread is not None and self._thread.is_needed

    @contextmanager
    def finished_call(self) -> Iterator[None]:
        """For closing: whoever is in a call finishes it first; what it received is in hand then, or not received."""
        has_it = self.guard.wait_enter(CALL_TIMEOUT_S)
        try:
            yield
        finally:
            if has_it:
                self.guard.leave()

    def is_listener_thread(self) -> bool:
        """Whether the caller runs inside one of this session's listeners."""
        return self._thread is not None and self._thread.is_current()

    def wait_listener_idle(self) -> None:
        """Return when no listener runs."""
        if self._thread is not None:
            self._thread.wait_idle()

    def hand_changed(self) -> None:
        """Messages in hand were settled: there may be room for others, and closed consumers may go."""
        with self.filled:
            self.filled.notify_all()
        if any(consumer.is_closed for consumer in self.consumers):
            release_closed(self)

    def own_partition(self, count: int) -> int:
        """Where this session's messages without a unit go, so that they stay in order (ORDER-1)."""
        return partition_for(self.session_id.encode(), count)


def _roll_back(session: Session, error: BaseException) -> None:
    """Undo what a block did that `error` ended; if that fails too, the failure becomes the error's context."""
    if session.is_closed:
        return
    try:
        session.rollback()
    except Exception as failure:
        failure.__context__, error.__context__ = error.__context__, failure


def _queue(destination: Destination) -> Queue:
    if not isinstance(destination, Queue):
        raise IllegalStateError(f"{destination} is no Queue: this version has queues only")
    return destination
