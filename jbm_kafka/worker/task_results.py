"""The result of a task that was asked: its value, or its error, by request and reply."""

from __future__ import annotations

import threading
import weakref
from typing import Final, Generic, TypeVar

from jbm_kafka.core.failure_text import failure_text
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError, RequestTimeoutError, TaskFailedError
from jbm_kafka.jms.base.arguments import checked_timeout_s
from jbm_kafka.jms.connection import Connection, provider_of
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.messages.messages_wire import from_record
from jbm_kafka.jms.receiving.outcomes import Reject
from jbm_kafka.jms.shared.requests import Pending
from jbm_kafka.ports.wake_up import Sleepers
from jbm_kafka.worker.call_codec import CallCodec
from jbm_kafka.worker.task_sends import TaskSends

V = TypeVar("V")
ERROR_PROPERTY: Final = "jbm_task_error"
"""The property of a reply that says that the task has failed for good, and why."""


class TaskResult(Generic[V]):
    """The result of a task that was asked: `get(timeout)` waits for it. It holds as long as its connection."""

    def __init__(self, connection: Connection, codec: CallCodec, about: str) -> None:
        core = connection._core
        self._codec = codec
        self._about = about
        self._connection = connection
        self.reply_to = core.requests.reply_to()
        """Where the reply comes."""
        self._filled = Sleepers(threading.Lock())
        self._pending: Pending = core.requests.begin(None, self._filled)
        weakref.finalize(self, core.requests.end, self._pending)

    @property
    def correlation_id(self) -> str:
        """The id of the request, and of its reply."""
        return self._pending.correlation_id

    def sent(self, message: Message | None) -> None:
        """The request was sent, or with None was not."""
        self._connection._core.requests.sent(self._pending, None if message is None else message.message_id)

    def get(self, timeout: float | None) -> V:
        """Return what the task returned; the same each time. None waits for ever.

        Raises:
            TaskFailedError: it failed, and is not tried again; the text is that of its error.
            RequestTimeoutError: nothing came within so many seconds; it may come yet.
            IllegalStateError: the connection was closed before.
            MessageFormatError: what came is no result of it.
        """
        timeout_s = checked_timeout_s(timeout)
        self._filled.wait_for(lambda: self._pending.reply is not None or self._connection.is_closed, timeout_s)
        record = self._pending.reply
        if record is None and self._connection.is_closed:
            raise IllegalStateError(f"{self._about}: the connection was closed before the result came")
        if record is None:
            raise RequestTimeoutError(
                f"{self._about}: no result within {timeout_s:g} s; it was sent, and may be done yet: see that a worker "
                f"has the task, or wait longer",
                timeout=timeout,
                correlation_id=self.correlation_id,
                message_id=self._pending.message_id,
            )
        reply = from_record(record, self.reply_to, 1, False, _Nobody(), None)  # type: ignore[arg-type]
        error = reply.properties.get(ERROR_PROPERTY)
        if error is not None:
            raise TaskFailedError(f"{self._about} failed: {error}", message_id=self._pending.message_id)
        value: V = self._codec.result(reply.body)
        return value


class _Nobody:
    """Settles a reply, which was its requester's from the moment when it came."""


def tell_failure(sends: TaskSends, message: Message, error: Exception) -> None:
    """Reply to who asked that the task has failed for good; nothing where it is tried again, or nobody asked.

    A reply that cannot be sent is left: the asker hears of nothing in time, and the error has its own way.
    """
    if message.reply_to is None or message.destination is None:
        return
    connection, sender = sends.sender()
    most = provider_of(connection).settings_of(message.destination.name).max_delivery_attempts
    if not isinstance(error, Reject) and (most < 0 or message.delivery_count < most):
        return
    text = (str(error) if isinstance(error, Reject) else failure_text(error)) or "rejected"
    try:
        sender.send(
            message.reply_to,
            text,
            properties={ERROR_PROPERTY: text},
            correlation_id=message.correlation_id or message.message_id,
        )
    except JMSError:
        return
