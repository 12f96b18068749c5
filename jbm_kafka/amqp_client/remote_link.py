"""One link of a connection, as the client has it. On the connection's event loop."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from proton import Terminus

from jbm_kafka.amqp_client.client_settings import MESSAGE_BYTES_NAME
from jbm_kafka.amqp_wire.conditions import condition_of, error_of
from jbm_kafka.amqp_wire.engine_objects import detach
from jbm_kafka.amqp_wire.message_parts import MessageParts
from jbm_kafka.core.jms_errors import JMSError, MessageTooLargeError

LINK_TIMEOUT_S = 90.0
"""How long the server may take: a receiver of a Kafka queue waits for partitions, which others may hold."""


class OnLoop(Protocol):
    """The connection that a link is of."""

    loop: asyncio.AbstractEventLoop
    is_over: bool
    message_bytes_max: int
    """A larger message is not received."""

    def touch(self) -> None:
        """Something is to be sent, maybe."""

    def flush(self) -> bool:
        """Send it now, but in the handling of an event; True when all that was said is on its way."""

    def forget(self, link: Any) -> None:
        """Free the link, which has ended on both sides."""


class RemoteLink:
    """Opened by us, and ended by either side."""

    def __init__(self, connection: OnLoop, link: Any, about: str) -> None:
        """`about`: what it is for, in errors."""
        self.connection = connection
        self.link = link
        self.about = about
        self.is_closing = False
        """This side ends it."""
        self._opened: asyncio.Future[None] = connection.loop.create_future()
        self._opened.add_done_callback(_seen)
        self._ended: asyncio.Future[JMSError | None] = connection.loop.create_future()

    @property
    def has_gone(self) -> bool:
        """Return True if it has ended, or is about to."""
        return self.is_closing or self._ended.done()

    async def open(self) -> None:
        """Have it.

        Raises:
            JMSError: the server refuses it, does not answer, or is gone.
        """
        self.begin_open()
        await self.wait_open()

    def begin_open(self) -> None:
        """Ask for it."""
        self.link.open()
        self.connection.touch()

    async def wait_open(self) -> None:
        """Return when the server has answered. Raises as `open`."""
        try:
            await asyncio.wait_for(asyncio.shield(self._opened), LINK_TIMEOUT_S)
        except TimeoutError:
            self.is_closing = True
            self.link.close()
            self.connection.touch()
            raise JMSError(f"{self.about}: the AMQP server did not answer within {LINK_TIMEOUT_S:g} s") from None
        if self._ended.done():  # since it answered: nothing would tell whoever uses it from now on
            raise self._ended.result() or JMSError(f"{self.about}: it was closed")

    async def close(self, *, ends: bool = True, timeout_s: float = LINK_TIMEOUT_S) -> JMSError | None:
        """End it, and wait until the server has; what it said. `ends`: else a subscription that lasts goes on."""
        self.begin_close(ends=ends)
        try:
            return await asyncio.wait_for(asyncio.shield(self._ended), timeout_s)
        except TimeoutError:
            return JMSError(f"{self.about}: the AMQP server did not answer within {timeout_s:g} s")

    def begin_close(self, *, ends: bool = True) -> None:
        """End it."""
        if not self.is_closing:
            self.is_closing = True
            if not self._ended.done():
                (self.link.close if ends else self.link.detach)()
                self.connection.touch()

    # -- events --------------------------------------------------------------------------------------------------------

    def remote_opened(self) -> None:
        """Hear the server's answer. What it refuses has no source or target, and an end with the reason behind it."""
        link = self.link
        there = link.remote_target if link.is_sender else link.remote_source
        if there.type != Terminus.UNSPECIFIED and not self._opened.done():
            self._opened.set_result(None)

    def remote_ended(self, condition: Any) -> None:
        """Hear that the server ended the link, or answered that we did."""
        self._end(error_of(condition, self.about) if condition is not None or not self.is_closing else None)
        if not self.is_closing:
            self.link.close()
        self.connection.forget(self.link)
        self.connection.touch()

    def lost(self, error: JMSError) -> None:
        """Hear that the connection is over."""
        self._end(error)

    def _end(self, error: JMSError | None) -> None:
        if not self._opened.done():
            self._opened.set_exception(error or JMSError(f"{self.about}: it was closed"))
        if not self._ended.done():
            self._ended.set_result(error)
            self.has_ended(error)

    def has_ended(self, error: JMSError | None) -> None:
        """Once; with an error it was not us."""

    def flow(self) -> None:
        """Credit came, or was used up."""

    def delivery(self, delivery: Any) -> None:
        """Hear that a message came, or that something was said of one."""

    def tick(self, now_s: float) -> None:
        """Again and again."""


class ReceivingLink(RemoteLink):
    """Receives messages up to a size, which the server hears when the link opens."""

    def __init__(self, connection: OnLoop, link: Any, about: str) -> None:
        super().__init__(connection, link, about)
        link.max_message_size = connection.message_bytes_max
        self._parts = MessageParts(link, connection.message_bytes_max)

    def _whole(self, delivery: Any) -> bytes | None:
        """Return the message when all of it has come.

        One that is too large, as one is that the server never ends, ends the link with an error. What comes after that
        is dropped as it comes.
        """
        data = self._parts.whole(delivery)
        if self._parts.is_too_large and not self.has_gone:
            most = self.connection.message_bytes_max
            error = MessageTooLargeError(
                f"{self.about}: the AMQP server sends a message of more than {most} bytes; if one may be so large, "
                f"raise {MESSAGE_BYTES_NAME}"
            )
            self._end(error)
            self.is_closing = True
            detach(self.link, condition_of(error))
            self.connection.touch()
        return data


def _seen(future: asyncio.Future[None]) -> None:
    """Look at an error that nobody waits for any more, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()
