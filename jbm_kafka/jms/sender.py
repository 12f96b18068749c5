"""A sender for any number of threads at once, as web handlers need it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Self

from jbm_kafka.core.delivery_mode import DeliveryMode
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.durations import Duration
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidSettingError
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.jms.base.arguments import as_destination
from jbm_kafka.jms.base.one_process import refuse_pickle
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.producer import SEND_TIMEOUT_S, MessageProducer
from jbm_kafka.jms.sends.routing import UnitOfOrder
from jbm_kafka.jms.sends.send_order import OneWay
from jbm_kafka.jms.sends.send_reports import CompletionListener
from jbm_kafka.jms.session import Session
from jbm_kafka.jms.shared.connection_core import ConnectionCore


class Sender:
    """Sends from any thread, at once. Made by `factory.create_sender()` or `connection.create_sender()`.

    Messages of a unit are in the order of the calls that returned. Those without one are spread over the partitions and
    have no order. As a context manager it closes itself.

    Send: send.
    End: close, is_closed.
    """

    __reduce__ = refuse_pickle
    __slots__ = ("_connection", "_end", "_has_closed", "_idle", "_lock", "_make_session", "_order", "_sessions")

    def __init__(
        self, connection: ConnectionCore, make_session: Callable[[], Session], end: Callable[[], None] | None
    ) -> None:
        """`end`: closes the connection, which is this sender's alone; None: others use it too."""
        self._connection = connection
        self._make_session = make_session
        self._end = end
        self._order = OneWay()
        self._has_closed = False
        self._sessions: list[Session] = []
        """As many as there ever were threads that sent at once."""
        self._idle: deque[MessageProducer] = deque()
        """The producers of sessions that no thread sends in now; any thread takes one and puts it back."""
        self._lock = threading.RLock()  # a signal handler that closes may have interrupted its holder

    @property
    def is_closed(self) -> bool:
        """Return True if it was closed, or its connection was."""
        return self._has_closed or self._connection.is_over

    def send(
        self,
        destination: Destination,
        message: Message | str | bytes | Mapping[str, object] | Unset = UNSET,
        *,
        json: object = UNSET,
        delivery_mode: DeliveryMode | None = None,
        priority: int | None = None,
        time_to_live_ms: Duration | None = None,
        delivery_delay_ms: Duration | None = None,
        deliver_at: datetime | None = None,
        unit_of_order: UnitOfOrder | Unset = UNSET,
        duplicate_id: str | None = None,
        properties: Mapping[str, object] | None = None,
        correlation_id: str | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,  # noqa: A002 - its name in JMS
        headers: Mapping[str, bytes | None] | None = None,
        on_completion: CompletionListener | None = None,
    ) -> Message:
        """Send a message to a destination; arguments and errors as of `MessageProducer.send`.

        Raises:
            InvalidSettingError: `delivery_mode` is PERSISTENT_GROUPACK, which one producer's sends have together.
            IllegalStateError: it is closed, or of another process.
        """
        if delivery_mode is DeliveryMode.PERSISTENT_GROUPACK:
            raise InvalidSettingError(
                f"delivery_mode is {delivery_mode}: a group of sends is one producer's; give on_completion= to go on "
                f"without waiting",
                setting="delivery_mode",
                value=delivery_mode,
            )
        target = as_destination(destination)
        producer = self._take()
        try:
            return producer.send(
                message,
                json=json,
                destination=target,
                delivery_mode=delivery_mode,
                priority=priority,
                time_to_live_ms=time_to_live_ms,
                delivery_delay_ms=delivery_delay_ms,
                deliver_at=deliver_at,
                unit_of_order=unit_of_order,
                duplicate_id=duplicate_id,
                properties=properties,
                correlation_id=correlation_id,
                reply_to=reply_to,
                type=type,
                headers=headers,
                on_completion=on_completion,
            )
        finally:
            self._idle.append(producer)

    def close(self) -> None:
        """Wait for the sends and callbacks under way; send no more. Any thread; again: nothing happens."""
        self._connection.check_process()
        self._connection.completions.refuse_inside("sender.close()")
        with self._lock:
            if self._has_closed:
                return
            self._has_closed = True
        if self._end is not None:
            self._end()
            return
        for session in self._sessions:
            session.close()
        if not self._connection.is_over:
            self._connection.flush(SEND_TIMEOUT_S)

    def __repr__(self) -> str:
        return f"<Sender {self._connection.defaults.url} {'closed' if self.is_closed else 'open'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._connection.is_forked:
            self.close()

    def _take(self) -> MessageProducer:
        """A producer that nobody sends with now."""
        if self._has_closed:
            self._connection.check_process()
            raise IllegalStateError("the sender is closed; make a new one")
        try:
            return self._idle.pop()
        except IndexError:
            return self._one_more()

    def _one_more(self) -> MessageProducer:
        with self._lock:
            session = self._make_session()
            session._core.send_order = self._order
            self._sessions.append(session)
            producer = session.create_producer()
            producer.spread = True
            return producer
