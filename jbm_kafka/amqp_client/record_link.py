"""A link whose messages are taken as they come: a browser's, or that of replies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from proton import Delivery

from jbm_kafka.amqp_client.remote_link import LINK_TIMEOUT_S, OnLoop, ReceivingLink
from jbm_kafka.codec.amqp.decode_transfer import IncomingMessage, decode_transfer
from jbm_kafka.core.jms_errors import JMSError, MessageFormatError
from jbm_kafka.ports.clock import Clock

log = logging.getLogger(__name__)

CREDIT = 200


class RecordLink(ReceivingLink):
    """Accepts everything. `take` is called on the event loop."""

    def __init__(
        self, connection: OnLoop, link: Any, about: str, take: Callable[[IncomingMessage], None], clock: Clock
    ) -> None:
        super().__init__(connection, link, about)
        self._take = take
        self._clock = clock
        self._drained: asyncio.Future[None] | None = None
        self._grants = False

    def grant(self) -> None:
        """Let the server send, again and again."""
        self._grants = True
        missing = CREDIT - self.link.credit
        if missing * 2 >= CREDIT and not self.has_gone:
            self.link.flow(missing)
            self.connection.touch()

    async def drain(self, more: int) -> None:
        """Return when the server has sent so many, or says that it has no more. Raises JMSError: it is gone."""
        self._drained = self.connection.loop.create_future()
        self.link.drain(more)
        self.connection.touch()
        await asyncio.wait_for(self._drained, LINK_TIMEOUT_S)
        self._drained = None
        if self._ended.done():
            raise self._ended.result() or JMSError(f"{self.about}: it was closed")

    def flow(self) -> None:
        if self._drained is not None and not self.link.credit and not self._drained.done():
            self._drained.set_result(None)

    def has_ended(self, error: JMSError | None) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        elif error is not None and self._grants and not self.connection.is_over:  # who waits for a reply hears nothing
            log.warning("replies come no more: %s", error)

    def delivery(self, delivery: Any) -> None:
        if not (delivery.readable or delivery.aborted):
            return
        data = self._whole(delivery)
        if data is not None:
            self._arrive(delivery, data)
        if self._grants:  # one that was aborted has used up credit, too
            self.grant()
        self.flow()

    def _arrive(self, delivery: Any, data: bytes) -> None:
        """Take a message, and accept it even if it cannot be read, for it would only come again."""
        try:
            self._take(decode_transfer(data, now_ms=self._clock.now_ms()))
        except MessageFormatError as fault:
            log.warning("%s: %s", self.about, fault)
        if not delivery.settled:
            delivery.update(Delivery.ACCEPTED)
        delivery.settle()
