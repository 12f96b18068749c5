"""A connection of which a blocking thread receives and sends messages as their bytes, by addresses of the server's own.

What breaks is not mended here: whoever has it makes a new one, and knows what was not confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import Any

from proton import Delivery, Terminus

from jbm_kafka.amqp_client.client_settings import ClientSettings
from jbm_kafka.amqp_client.io_thread import IoThread
from jbm_kafka.amqp_client.remote_connection import RemoteConnection
from jbm_kafka.amqp_client.remote_sender import RemoteSender
from jbm_kafka.amqp_client.termini import receiver_of, sender_of
from jbm_kafka.amqp_client.transfer_receiver import BYTES_MAX, Arrived, TransferReceiver
from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.core.jms_errors import ConnectionFailedError, InvalidClientIDError, JMSError, JMSSecurityError
from jbm_kafka.core.subscription import Source, Subscription


class TransferOutcome(Enum):
    """The outcome of a message that was sent."""

    ACCEPTED = "accepted"
    """The server has it."""
    REJECTED = "rejected"
    """The server never takes it."""
    UNKNOWN = "unknown"
    """Not now, or nobody knows: it is to be sent again."""


Told = Callable[[TransferOutcome, str], None]
"""Gets what became of a message, and why. On the event loop."""


class Sending:
    """Messages to one address, in order. Any other thread."""

    def __init__(self, io: IoThread, link: RemoteSender) -> None:
        self._io, self._link = io, link

    def send(self, data: bytes, told: Told) -> None:
        """Send it as soon as the server takes it."""

        def confirmed(error: JMSError | None, said: Any) -> None:
            if error is None:
                told(TransferOutcome.ACCEPTED, "")
            else:
                told(TransferOutcome.REJECTED if said == Delivery.REJECTED else TransferOutcome.UNKNOWN, str(error))

        self._io.mailbox.post(partial(self._link.put, data, confirmed))


class TransferReceiving:
    """Messages of one address. Any other thread. What is to go back goes with the connection's end, and in order: one
    that is released while more come goes behind those."""

    def __init__(self, io: IoThread, link: TransferReceiver) -> None:
        self._io, self._link = io, link
        self.take = link.take

    def accept(self, messages: Sequence[Arrived]) -> None:
        """Tell the server that it may forget them."""
        self._io.mailbox.post(partial(self._link.accept, messages))

    def reject(self, message: Arrived, reason: str) -> None:
        """Say that it can never be taken."""
        self._io.mailbox.post(partial(self._link.reject, message, reason))


class TransferConnection:
    """One connection, to the first of the servers that answers."""

    def __init__(self, settings: ClientSettings) -> None:
        """Connects at once.

        Raises:
            ConnectionFailedError: nobody answers.
            JMSError: as of RemoteConnection.connect.
        """
        self._io = IoThread()
        self._why: str | None = None
        try:
            self._connection = self._io.call(self._connect(settings))
        except BaseException:
            self._io.stop()
            raise

    async def _connect(self, settings: ClientSettings) -> RemoteConnection:
        errors: list[str] = []
        for address in settings.addresses:
            made = RemoteConnection(self._lost)
            try:
                await made.connect(settings, address, "")
            except (JMSSecurityError, InvalidClientIDError):
                raise
            except JMSError as error:
                errors.append(str(error))
                continue
            return made
        raise ConnectionFailedError(f"{settings.url}: {'; '.join(errors)}", bootstrap=settings.url)

    def _lost(self, _: RemoteConnection, why: str) -> None:
        self._why = why

    @property
    def broke(self) -> str | None:
        """Return the reason why it is over, or None if it is not."""
        return self._why

    def receive_from(
        self, source: Source, address: str, selector: str, unsettled_max: int, bytes_max: int = BYTES_MAX
    ) -> TransferReceiving:
        """Return a receiver of the address, which has at most so many messages and bytes of which nothing was said.

        `source` says what kind of destination it is, and the name of a subscription; the address stands for its name.

        Raises:
            JMSError: the server refuses it, or says of no subscription that it keeps it.
        """
        return self._io.call(self._receive_from(source, address, selector, unsettled_max, bytes_max))

    async def _receive_from(
        self, source: Source, address: str, selector: str, unsettled_max: int, bytes_max: int
    ) -> TransferReceiving:
        if isinstance(source, Subscription) and not self._connection.keeps_subscriptions:
            raise JMSError(
                f"{source.topic} at {address}: this server does not say that it keeps subscriptions "
                f"(SHARED-SUBS), and what comes while nobody is connected would be lost; have it put the topic's "
                f"messages into a queue of its own, and receive from that"
            )
        made = receiver_of(self._connection.session, source, selector)
        made.source.address = address
        if isinstance(source, Queue) and address != source.name:  # RabbitMQ makes what is not there, if need be
            made.source.durability = Terminus.DELIVERIES
        link = TransferReceiver(self._connection, made, address, unsettled_max, bytes_max)
        self._connection.add(link)
        await link.open()
        return TransferReceiving(self._io, link)

    def send_to(self, destination: Destination, address: str) -> Sending:
        """Return a sender to the address. Where sending makes it, it outlives the server.

        Raises:
            JMSError: the server refuses it.
        """
        return self._io.call(self._send_to(destination, address))

    async def _send_to(self, destination: Destination, address: str) -> Sending:
        made = sender_of(self._connection.session, destination, address)
        link = RemoteSender(self._connection, made, address)
        self._connection.add(link)
        await link.open()
        return Sending(self._io, link)

    def close(self) -> None:
        """End it; what nothing was said of goes back. Nothing happens where it was ended before."""
        if self._io.is_alive:
            self._io.call(self._connection.close())
            self._io.stop()

    def abort(self) -> None:
        """End it without a word."""
        self._io.mailbox.post(self._connection.abort)
        self._io.stop()
