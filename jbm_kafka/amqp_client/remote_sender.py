"""A link that sends: messages wait for credit, and each is confirmed or refused by the server."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from proton import Delivery

from jbm_kafka.amqp_client.remote_link import OnLoop, RemoteLink
from jbm_kafka.amqp_wire.conditions import error_of
from jbm_kafka.core.jms_errors import (
    InvalidDestinationError,
    JMSError,
    JMSSecurityError,
    MessageFormatError,
    MessageTooLargeError,
    ResourceAllocationError,
    SendTimeoutError,
)
from jbm_kafka.ports.kafka import KafkaClientError

TRANSACTIONAL: Final = 0x34
DECLARED: Final = 0x33
SEND_TIMEOUT_S: Final = 60.0
"""How long a send waits for credit, and then for its confirmation."""

Told = Callable[[JMSError | None, Any], None]
"""Gets the error, or None and what the server said of the delivery (`remote.data`); beside the error of a message that
the server will never take stands `Delivery.REJECTED`, beside all others None."""


_OF_NOW: Final = (ResourceAllocationError, JMSSecurityError, InvalidDestinationError)
"""Rejections that are not the message's fault: a full address, a right that is missing, no such address."""
_OF_ONE: Final = (MessageTooLargeError, MessageFormatError)
"""A link's end by these is one message's fault, and the server does not say which one's."""
_RABBIT_OF_NOW: Final = frozenset({"maxlen", "unavailable"})


class AmqpSendFault(KafkaClientError):
    """A send was refused, or nobody knows."""

    def __init__(self, error: JMSError, *, is_for_good: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.is_for_good = is_for_good and not isinstance(error, _OF_NOW)


class _Waiting(NamedTuple):
    data: bytes
    state: list[Any] | None
    """The state of a transaction."""
    told: Told
    since_s: float


class RemoteSender(RemoteLink):
    """Sends in order."""

    def __init__(self, connection: OnLoop, link: Any, about: str) -> None:
        super().__init__(connection, link, about)
        self._waiting: deque[_Waiting] = deque()
        self._unconfirmed: dict[Any, _Waiting] = {}
        self._tags = itertools.count(1)
        self._bytes_max = 0
        """The largest message that the server takes; 0: it does not say."""

    @property
    def is_idle(self) -> bool:
        """Nothing is on its way."""
        return self._opened.done() and not self._waiting and not self._unconfirmed

    def put(self, data: bytes, told: Told, state: list[Any] | None = None) -> None:
        """Send it as soon as the server takes it."""
        if self._ended.done():
            told(_of_any(self._ended.result() or JMSError(f"{self.about}: it was closed")), None)
            return
        self._waiting.append(_Waiting(data, state, told, self.connection.loop.time()))
        self.flow()

    def flow(self) -> None:
        link = self.link
        if not self._opened.done():
            return
        while self._waiting and link.credit > 0:
            each = self._waiting.popleft()
            if 0 < self._bytes_max < len(each.data):  # it would end the link, and nobody knows then of which message
                text = f"{self.about}: a message of {len(each.data)} bytes; the AMQP server takes {self._bytes_max}"
                each.told(MessageTooLargeError(text), Delivery.REJECTED)
                continue
            sent = link.delivery(str(next(self._tags)))
            if each.state is not None:
                sent.local.data = each.state
                sent.update(TRANSACTIONAL)
            link.stream(each.data)
            link.advance()
            self._unconfirmed[sent] = each._replace(since_s=self.connection.loop.time())
        if link.drain_mode:
            link.drained()
        self.connection.touch()

    def remote_opened(self) -> None:
        super().remote_opened()
        self._bytes_max = self.link.remote_max_message_size or 0
        self.flow()

    def delivery(self, delivery: Any) -> None:
        state = delivery.remote_state
        if state in (0, Delivery.RECEIVED) and not delivery.settled:
            return
        each = self._unconfirmed.pop(delivery, None)
        if each is not None:
            is_data = state in (TRANSACTIONAL, DECLARED)
            is_for_good = state == Delivery.REJECTED and _says_why(delivery.remote.condition)
            each.told(self._error(delivery, state), delivery.remote.data if is_data else state if is_for_good else None)
        delivery.settle()
        self.connection.touch()

    def _error(self, delivery: Any, state: int) -> JMSError | None:
        if state in (Delivery.ACCEPTED, TRANSACTIONAL, DECLARED):
            return None
        if state == Delivery.REJECTED:
            if delivery.remote.condition is None:
                return JMSError(f"{self.about}: rejected without a reason, as RabbitMQ does while the queue is full")
            return error_of(delivery.remote.condition, self.about)
        return JMSError(f"{self.about}: the AMQP server did not take it now (released); send it again")

    def tick(self, now_s: float) -> None:
        latest_s = now_s - SEND_TIMEOUT_S
        while self._waiting and self._waiting[0].since_s < latest_s:
            text = f"{self.about}: the AMQP server took nothing for {SEND_TIMEOUT_S:g} s; nothing was sent"
            self._waiting.popleft().told(SendTimeoutError(text), None)
        late = [sent for sent, each in self._unconfirmed.items() if each.since_s < latest_s]
        for sent in late:
            self._unconfirmed.pop(sent).told(_in_doubt(f"{self.about}: not confirmed in {SEND_TIMEOUT_S:g} s"), None)

    def has_ended(self, error: JMSError | None) -> None:
        waiting, self._waiting = self._waiting, deque()
        unconfirmed, self._unconfirmed = list(self._unconfirmed.values()), {}
        cause = error or JMSError(f"{self.about}: it was closed")
        of_each = cause if len(unconfirmed) == 1 else _of_any(cause)
        for each in unconfirmed:
            each.told(_in_doubt(str(cause)) if self.connection.is_over else of_each, None)
        for each in waiting:
            each.told(_of_any(cause), None)


def _of_any(cause: JMSError) -> JMSError:
    """Return the cause as it is told of messages that may be without fault."""
    return JMSError(str(cause)) if isinstance(cause, _OF_ONE) else cause


def _says_why(condition: Any) -> bool:
    """True where a rejection has a reason. RabbitMQ's has none, or one of two words, when a queue is full or away."""
    if condition is None:
        return False
    info = condition.info if isinstance(condition.info, dict) else {}
    return not any(str(key) == "reason" and str(value) in _RABBIT_OF_NOW for key, value in info.items())


def _in_doubt(why: str) -> SendTimeoutError:
    return SendTimeoutError(
        f"{why}; the message may be in the queue or not: send it again, with the same duplicate_id if it must not be "
        f"there twice"
    )
