"""Requests that wait for their replies: one temporary reply queue a connection, sorted by correlation id."""

from __future__ import annotations

import itertools
import threading

from jbm_kafka.codec.one_header import header_text
from jbm_kafka.codec.scan import scan
from jbm_kafka.core.channel.redelivery import is_expired
from jbm_kafka.core.destination import TemporaryQueue
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.ports.kafka import KafkaRecord
from jbm_kafka.ports.provider import Provider
from jbm_kafka.ports.wake_up import Sleepers

EARLY_MAX = 1_000
"""Replies kept that came before it was known which message id they answer; the oldest go first."""


class Pending:
    """One request that waits. The lock of `filled` guards it."""

    __slots__ = ("correlation_id", "filled", "message_id", "reply")

    def __init__(self, correlation_id: str, filled: Sleepers) -> None:
        self.correlation_id = correlation_id
        self.message_id: str | None = None
        """None until the send has returned."""
        self.filled = filled
        self.reply: KafkaRecord | None = None


class Requests:
    """The open requests of one connection. Any thread."""

    def __init__(self, provider: Provider, connection_id: str) -> None:
        self._provider = provider
        self._connection_id = connection_id
        self._numbers = itertools.count(1)
        self._opening = threading.Lock()
        self._reply_to: TemporaryQueue | None = None
        self._lock = threading.Lock()
        self._pending: dict[str, Pending] = {}
        """The pending requests by each id that a reply may have: the correlation id of the request, or its message
        id."""
        self._sending = 0
        """Requests whose message id is not known yet."""
        self._early: dict[str, KafkaRecord] = {}
        """Replies to nobody that is known, by correlation id, while there are such."""

    def reply_to(self) -> TemporaryQueue:
        """Where replies are expected; made at first use.

        Raises:
            JMSError: it cannot be made.
        """
        with self._opening:
            if self._reply_to is None:
                made = self._provider.create_temporary(TemporaryQueue, self._connection_id, 0)
                self._provider.take_replies(made, self._take)
                self._reply_to = made
            return self._reply_to

    def close(self) -> None:
        """The connection ends: replies are taken no more."""
        with self._opening:
            if self._reply_to is not None:
                self._provider.delete_temporary(self._reply_to)
                self._reply_to = None

    def begin(self, correlation_id: str | None, filled: Sleepers) -> Pending:
        """Expect a reply from now on, until `end`; `filled` is notified when it is there.

        Raises:
            IllegalStateError: another request waits for a reply with this correlation id.
        """
        wanted = correlation_id or f"{self._connection_id}-request-{next(self._numbers)}"
        pending = Pending(wanted, filled)
        with self._lock:
            if wanted in self._pending:
                raise IllegalStateError(
                    f"correlation_id {wanted!r}: another request of this connection waits for a reply with it; give "
                    f"each its own, or none",
                    correlation_id=wanted,
                )
            self._pending[wanted] = pending
            self._sending += 1
        return pending

    def sent(self, pending: Pending, message_id: str | None) -> None:
        """The send has returned: a reply may have this id as well. None: it has none, or was not sent."""
        early = None
        with self._lock:
            self._sending -= 1
            pending.message_id = message_id
            if message_id is not None:
                self._pending[message_id] = pending
                early = self._early.pop(message_id, None)
            if not self._sending:
                self._early.clear()
        if early is not None:
            _give(pending, early)

    def end(self, pending: Pending) -> None:
        """Expect it no more: what comes later is dropped."""
        with self._lock:
            for each in (pending.correlation_id, pending.message_id):
                if each is not None and self._pending.get(each) is pending:
                    del self._pending[each]

    def _take(self, record: KafkaRecord) -> None:
        """On the provider's thread."""
        answers = header_text(record.headers(), "JMSCorrelationID")
        if answers is None or is_expired(scan(record.headers()).expiration_ms, self._provider.clock.now_ms()):
            return
        with self._lock:
            pending = self._pending.get(answers)
            if pending is None and self._sending:
                self._early[answers] = record
                if len(self._early) > EARLY_MAX:
                    del self._early[next(iter(self._early))]
        if pending is not None:
            _give(pending, record)


def _give(pending: Pending, record: KafkaRecord) -> None:
    with pending.filled.lock:
        if pending.reply is None:  # the first counts
            pending.reply = record
            pending.filled.notify_all()
