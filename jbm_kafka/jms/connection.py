"""Connections: sessions share one, with its provider, its start and stop, and its exception listener."""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError
from jbm_kafka.core.statistics import Health, Statistics
from jbm_kafka.core.subscription import checked_client_id
from jbm_kafka.jms.base.arguments import check_listener, check_mode, checked_timeout_s
from jbm_kafka.jms.base.closing import close_beside
from jbm_kafka.jms.base.exception_listener import ExceptionListener
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.base.one_process import refuse_pickle
from jbm_kafka.jms.sender import Sender
from jbm_kafka.jms.session import Session
from jbm_kafka.jms.session_ends import close_sessions
from jbm_kafka.jms.shared.connection_core import ConnectionCore, ConnectionDefaults
from jbm_kafka.ports.provider import Provider
from jbm_kafka.version import version

_connections: weakref.WeakSet[Connection] = weakref.WeakSet()
CLOSE_TIMEOUT_S = 60.0
LAST_CALLS_S = 10.0
"""How long closing waits for the exception listener."""


@dataclass(frozen=True, slots=True)
class ConnectionMetadata:
    """The facts about the provider behind a connection."""

    jms_version: str = "3.1"
    """The JMS whose words and rules the API follows."""
    provider_name: str = "jbm-kafka"
    """Always `jbm-kafka`."""
    provider_version: str = ""
    """As `jbm_kafka.__version__`."""


SomeSession = TypeVar("SomeSession", bound=Session)


class Connection:
    """A process's way to its queues, shared by sessions. Made by `factory.create_connection()`. Thread-safe.

    It is made stopped: it sends, and delivers nothing. As a context manager it starts at the beginning and closes at
    the end.

    Work: create_session, one for each thread; create_sender, one for all that only send.
    Deliver or not: start, stop, is_started.
    What it is: client_id, metadata. How it fares: health, statistics.
    Hear of trouble: exception_listener.
    End: close, is_closed.
    """

    __reduce__ = refuse_pickle
    __slots__ = (
        *("__weakref__", "_answers", "_core", "_has_closed"),
        *("_is_partly_started", "_lock", "_sessions", "_starting"),
    )

    def __init__(self, provider: Provider, defaults: ConnectionDefaults) -> None:
        self._core = ConnectionCore(provider, defaults)
        if defaults.client_id is not None:
            try:
                self._core.hold_client_id(defaults.client_id)
            except BaseException:
                provider.close()
                raise
        self._is_partly_started = False
        """Some receivers could not be served, or some are still on their way."""
        self._has_closed = False
        self._sessions: list[Session] = []
        self._lock = threading.RLock()  # a signal handler that closes may have interrupted its holder
        self._starting = 0
        """The thread in `start`."""
        self._answers: Sender | None = None
        """Sends what handlers return."""
        self._core.answer = self._answer
        _connections.add(self)

    @property
    def exception_listener(self) -> ExceptionListener | None:
        """Called with errors that no call can raise, such as an acknowledgement refused later: in order, on
        a thread of its own. It may close the connection."""
        return self._core.listener_calls.listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListener | None) -> None:
        self._core.check_process()
        check_listener("exception_listener", listener, "error")
        self._core.listener_calls.listener = listener

    @property
    def is_started(self) -> bool:
        """Return True while it delivers."""
        return self._core.is_started and not self._has_closed

    @property
    def client_id(self) -> str | None:
        """Return the name of this connection for durable subscriptions; no other one of the cluster has it."""
        return self._core.client_id

    @client_id.setter
    def client_id(self, value: str) -> None:
        value = checked_client_id(value)
        self._core.check_process()
        if self._open_sessions():
            raise IllegalStateError(
                "client_id must be set before the first session is made; or give it to ConnectionFactory(client_id=…)"
            )
        if self._core.client_id is not None:
            raise IllegalStateError(f"client_id is {self._core.client_id!r} already; make another connection")
        self._check_open()
        self._core.hold_client_id(value)

    @property
    def metadata(self) -> ConnectionMetadata:
        """Versions: of JMS, of the provider."""
        return ConnectionMetadata(provider_version=version())

    def create_session(self, acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO) -> Session:
        """Make a session; make one for each thread that works."""
        check_mode(acknowledge_mode)
        self._check_open()
        return self._added(Session(self._core, acknowledge_mode))

    def _added(self, session: SomeSession) -> SomeSession:
        """Count the session among those of this connection, and the sends of those that have ended; return it."""
        with self._lock:
            going_on = self._open_sessions()
            for ended in set(self._sessions).difference(going_on):
                self._core.counts.end(ended._core.sent)
            self._sessions = [*going_on, session]
        return session

    def create_sender(self) -> Sender:
        """Make a sender that any thread may use at once; it sends by this connection."""
        self._check_open()
        return Sender(self._core, self.create_session, None)

    def statistics(self) -> Statistics:
        """Return what was counted so far, and what is held now. It asks nobody but this process, and takes a second at
        most.

        Raises:
            IllegalStateError: the connection is closed.
        """
        self._check_open()
        statistics = self._core.provider.statistics()
        with self._lock:
            return self._core.counts.merged(statistics, [session._core.sent for session in self._sessions])

    def health(self, timeout: float | None = 5.0) -> Health:
        """Tell how the connection and its process fare. When it is closed it is neither alive nor ready.

        Args:
            timeout: so many seconds Kafka has to answer; None: it is not asked, and nothing is waited for.
        """
        if self.is_closed or self._core.is_forked:
            return Health(False, False, ("the connection is closed, or of another process",))
        found = self._core.provider.health(None if timeout is None else checked_timeout_s(timeout, "for 5"))
        return self._core.hindrances.added_to(found)

    def start(self) -> None:
        """Deliver from now on; receivers made before join their queues' groups. Again: nothing happens.

        Raises:
            JMSError: why a receiver cannot be served, such as a queue that is gone. All the others are; called again,
                it tries again.
        """
        self._check_open()
        if self.is_started and not self._is_partly_started:
            return
        self._starting = threading.get_ident()
        try:
            self._start()
        finally:
            self._starting = 0

    def _start(self) -> None:
        self._core.is_started = self._is_partly_started = True
        errors: list[JMSError] = []
        for step in (Session._connection_started, Session._wait_ready):
            for session in self._open_sessions():
                try:
                    step(session)
                except JMSError as error:
                    errors.append(error)
        if errors:
            for other in errors[1:]:
                errors[0].add_note(f"and: {other}")
            raise errors[0]
        self._is_partly_started = False

    @property
    def is_closed(self) -> bool:
        """Return True if it was closed."""
        return self._has_closed

    def stop(self) -> None:
        """Deliver nothing until started again; waits for running listeners."""
        self._check_open()
        self._core.is_started = False
        for session in self._open_sessions():
            session._connection_stopped()

    def close(self) -> None:
        """Close every session, wait for sends, leave the groups in order. Any thread; again: nothing happens.

        A signal handler may call it: a receive that it interrupted ends, and then the connection closes, beside.
        """
        self._core.check_process()
        self._core.completions.refuse_inside("connection.close()")
        interrupted = [session for session in self._open_sessions() if session._core.guard.is_interrupted()]
        if interrupted or self._starting == threading.get_ident() or self._is_in_a_close():
            for session in interrupted:
                session._core.is_closed = True
            close_beside(self.close, interrupted[0]._core.filled if interrupted else None)
            return
        with self._lock:
            if self._has_closed:
                return
            self._has_closed = True
            sessions = self._open_sessions()
        self._core.close_deadline.begin_close()
        close_sessions(self._core, sessions)
        for session in sessions:
            session._wait_closed()
        self._core.requests.close()
        self._core.temporaries.close()
        self._core.close_deadline.wait_closing(self._core.provider.flush, CLOSE_TIMEOUT_S)
        self._core.close_deadline.wait_closing(self._core.completions.wait_done, CLOSE_TIMEOUT_S)
        self._core.completions.stop()
        try:
            self._core.provider.close()
        finally:
            self._core.listener_calls.stop(LAST_CALLS_S)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "started" if self.is_started else "stopped"
        client = "" if self.client_id is None else f" client_id={self.client_id!r}"
        return f"<Connection {self._core.defaults.url} {state}{client}>"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()  # nobody else would: the block is not entered, so it is not left either
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._core.is_forked:  # sys.exit() in a child: what is to be closed is the parent's
            return
        if error is not None:
            for session in self._open_sessions():
                session._strategy.abandon()
        self.close()

    def _answer(self, to: Destination, body: Any, correlation_id: str | None) -> None:
        with self._lock:
            sender = self._answers = self._answers or self.create_sender()
        sender.send(to, body, correlation_id=correlation_id)

    def _forked(self) -> None:
        """In the child every session is closed, and in a call for ever: each call is refused, and says why."""
        self._core.is_forked = True
        for session in self._sessions:
            session._core.is_closed = session._core.links.have_ended = True
            session._core.guard.refuse_for_ever()

    def _is_in_a_close(self) -> bool:
        """Return True if the closing of a session waits for the caller: for a signal handler in it, or its listener."""
        return not self.is_closed and any(
            session._closer == threading.get_ident() or (session._closer and session._core.is_listener_thread())
            for session in self._open_sessions()
        )

    def _open_sessions(self) -> list[Session]:
        """Sessions that have not ended, also those that are being closed: closing the connection waits for them."""
        return [session for session in list(self._sessions) if not session._is_over]

    def _check_open(self) -> None:
        self._core.check_process()
        if self.is_closed:
            raise self._core.closed()


def sender_of(connection: Connection) -> Sender:
    """Return a sender that has the connection for itself, and closes it."""
    return Sender(connection._core, connection.create_session, connection.close)


def provider_of(connection: Connection) -> Provider:
    """Return what the connection works with: the administration uses it for what no session does."""
    return connection._core.provider


def _after_fork() -> None:
    for connection in list(_connections):
        connection._forked()


os.register_at_fork(after_in_child=_after_fork)
