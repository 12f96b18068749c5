"""A link that receives messages as their bytes: somebody else says of each, whenever he likes, what becomes of it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from proton import Condition, Delivery

from jbm_kafka.amqp_client.remote_link import OnLoop, ReceivingLink
from jbm_kafka.core.failure_text import one_line_of
from jbm_kafka.core.jms_errors import JMSError

REASON_MAX = 500
BYTES_MAX = 64 * 2**20
"""The bytes that came and of which nothing was said, so far as sizes can be foreseen: what was asked for cannot be
declined."""
_FIRST = 16
"""So many are asked for before any size is known."""


class Arrived(NamedTuple):
    """A message that came, unsettled."""

    delivery: Any
    """The engine's; only for the loop."""
    data: bytes
    """Its sections."""


class TransferReceiver(ReceivingLink):
    """Has at most `unsettled_max` messages of which nothing was said. On the event loop, but for `take`."""

    def __init__(
        self, connection: OnLoop, link: Any, about: str, unsettled_max: int, bytes_max: int = BYTES_MAX
    ) -> None:
        super().__init__(connection, link, about)
        self._unsettled_max, self._bytes_max = unsettled_max, bytes_max
        self._unsettled = 0
        self._unsettled_bytes = 0
        self._size = max(bytes_max // _FIRST, 1)
        """The size of the next message, as large as one of late."""
        self._filled = threading.Condition()
        self._arrived: deque[Arrived] = deque()
        self._end_error: JMSError | None = None

    def take(self, count: int, timeout_s: float) -> list[Arrived]:
        """Return what is there, at most so many; wait for the first. Empty: none came. Any other thread.

        Raises:
            JMSError: the link has ended; what it had and nobody settled comes again.
        """
        with self._filled:
            self._filled.wait_for(lambda: self._arrived or self._end_error is not None, timeout_s)
            if self._end_error is not None:
                raise self._end_error
            return [self._arrived.popleft() for _ in range(min(count, len(self._arrived)))]

    def remote_opened(self) -> None:
        super().remote_opened()
        self._grant()

    def _grant(self) -> None:
        """Grant credit in large portions, for each costs the server a frame; always one where there is none."""
        credit = self.link.credit
        room = min(self._unsettled_max - self._unsettled, (self._bytes_max - self._unsettled_bytes) // self._size)
        missing = (max(room, 1) if not self._unsettled else room) - credit
        is_portion = missing * 4 >= self._unsettled_max or not credit
        if missing > 0 and is_portion and not self.has_gone:
            self.link.flow(missing)
            self.connection.touch()

    def delivery(self, delivery: Any) -> None:
        if not (delivery.readable or delivery.aborted):
            return
        data = self._whole(delivery)
        if data is not None:
            self._unsettled += 1
            self._unsettled_bytes += len(data)
            self._size = max(len(data), self._size * 15 // 16, 1)
            with self._filled:
                self._arrived.append(Arrived(delivery, data))
                self._filled.notify_all()
        self._grant()  # one that was aborted has used up credit, too

    def accept(self, messages: Iterable[Arrived]) -> None:
        """Tell the server that it may forget them; it confirms that to nobody."""
        for each in messages:
            self._settle(each, Delivery.ACCEPTED)
        self._grant()

    def reject(self, message: Arrived, reason: str) -> None:
        """Say that it can never be taken: the server has a place for such, or drops it."""
        message.delivery.local.condition = Condition("amqp:decode-error", one_line_of(reason, REASON_MAX))
        self._settle(message, Delivery.REJECTED)
        self._grant()

    def _settle(self, message: Arrived, state: int) -> None:
        if not self._ended.done():
            message.delivery.update(state)
            message.delivery.settle()
            self._unsettled -= 1
            self._unsettled_bytes -= len(message.data)
            self.connection.touch()

    def has_ended(self, error: JMSError | None) -> None:
        with self._filled:
            self._end_error = error or JMSError(f"{self.about}: it was closed")
            self._arrived.clear()
            self._filled.notify_all()
