"""A connection to one AMQP server: its links, and its end. On the event loop."""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from proton import Condition, Endpoint, Event, symbol

from jbm_kafka.amqp_client.client_settings import MESSAGE_BYTES, ClientSettings
from jbm_kafka.amqp_client.client_wire import ClientWire
from jbm_kafka.amqp_client.remote_link import RemoteLink
from jbm_kafka.amqp_client.remote_receiver import RemoteReceiver
from jbm_kafka.amqp_client.sasl_client import SaslClient
from jbm_kafka.amqp_wire.conditions import error_of
from jbm_kafka.amqp_wire.engine_objects import open_session
from jbm_kafka.amqp_wire.names import SHARED_SUBSCRIPTIONS, UNITS
from jbm_kafka.core.jms_errors import ConnectionFailedError, IllegalStateError, JMSError

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 10.0
OPEN_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 10.0
TICK_S = 0.02
"""How often it is looked what sessions have acknowledged, while somebody receives."""
IDLE_TICK_S = 0.5
LOOK_S = 0.001


class RemoteConnection:
    """Made by `connect`; over once its socket is."""

    def __init__(self, lost: Callable[[RemoteConnection, str], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.is_over = False
        self.message_bytes_max = MESSAGE_BYTES
        self.gives_units = False
        """The server lets a receiver have several messages of a unit."""
        self.keeps_subscriptions = False
        """The server says that it keeps subscriptions of several receivers."""
        self._lost = lost
        self._wire: ClientWire
        self._links: dict[Any, RemoteLink] = {}
        self._touched: dict[RemoteReceiver, None] = {}
        self.session: Any = None
        self._opened: asyncio.Future[None] = self.loop.create_future()
        self._closed: asyncio.Future[None] = self.loop.create_future()
        self._why = ""
        self._is_closing = False
        self._ticks: asyncio.TimerHandle | None = None

    @property
    def engine(self) -> Any:
        """Proton's connection."""
        return self._wire.connection

    async def connect(self, settings: ClientSettings, address: tuple[str, int], client_id: str) -> None:
        """Be in, and open.

        Raises:
            JMSSecurityError: the server does not let this user in.
            InvalidClientIDError: another connection has the client id.
            ConnectionFailedError: nobody answers there, or nobody who speaks AMQP 1.0.
        """
        host, port = address
        self.message_bytes_max = settings.message_bytes
        sasl = SaslClient(
            f"{host}:{port}",
            user=settings.user,
            password=settings.password,
            mechanism=settings.mechanism,
            is_encrypted=settings.tls is not None,
            has_certificate=settings.has_certificate,
        )

        def make() -> ClientWire:
            self._wire = ClientWire(sasl, handle=self._handle, handled=self._handled, lost=self._over)
            return self._wire

        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self.loop.create_connection(
                    make, host, port, ssl=settings.tls, server_hostname=host if settings.tls else None
                )
        except TimeoutError:
            raise ConnectionFailedError(f"no answer from {host}:{port} within {CONNECT_TIMEOUT_S:g} s") from None
        except ssl.SSLCertVerificationError as fault:
            why = fault.verify_message.rstrip(".")
            remedy = "name its authority's file (ssl.ca.location; in a file tls.ca), and the host as it is in there"
            raise ConnectionFailedError(f"the certificate of {host}:{port} is not trusted: {why}; {remedy}") from None
        except ssl.SSLError as fault:
            raise ConnectionFailedError(f"{host}:{port} does not speak TLS as it should: {fault}") from None
        except OSError as fault:
            why = fault.strerror or str(fault) or "the connection was closed at once"
            hint = "; is it without TLS? then write amqp://" if settings.tls and not fault.strerror else ""
            raise ConnectionFailedError(f"nobody answers at {host}:{port}: {why}{hint}") from None
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await self._wire.is_in
                self._open(host, client_id)
                await asyncio.shield(self._opened)
        except TimeoutError:
            self.abort()
            raise ConnectionFailedError(f"{host}:{port} did not open the connection in {OPEN_TIMEOUT_S:g} s") from None
        except BaseException:
            self.abort()
            raise

    def _open(self, host: str, client_id: str) -> None:
        engine = self.engine
        engine.container = client_id or f"ID:jbm-{secrets.token_hex(8)}"
        engine.hostname = host
        engine.properties = {symbol("product"): "jbm-kafka"}
        if client_id:
            engine.desired_capabilities = [symbol("sole-connection-for-container")]
        engine.open()
        self.touch()

    def new_session(self) -> Any:
        """Open a session of AMQP's, which the connection's sessions share."""
        made = self.engine.session()
        open_session(made)
        self.touch()
        return made

    async def close(self) -> None:
        """End the connection: wait for the server's close, CLOSE_TIMEOUT_S at most, then drop the socket.

        Returns when the socket is closed, or after as long again.
        """
        if self.is_over:
            return
        self._is_closing = True
        self.engine.close()
        self.touch()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._closed), CLOSE_TIMEOUT_S)
        self.abort()
        deadline = self.loop.time() + CLOSE_TIMEOUT_S
        while not self.is_over and self.loop.time() < deadline:  # so that its socket is closed before the loop ends
            await asyncio.sleep(LOOK_S)

    def abort(self) -> None:
        """End it without a word."""
        self._wire.abort()

    def touch(self) -> None:
        """Something is to be sent, maybe."""
        self._wire.touch()

    def flush(self) -> bool:
        """Return True when all that was said is on its way, or the connection is over."""
        return self._wire.flush()

    def add(self, link: RemoteLink) -> None:
        """Take one more link, which its caller opens."""
        self._links[link.link] = link
        if self.is_over:
            link.lost(self._over_error())
        elif self._ticks is None:
            self._ticks = self.loop.call_later(TICK_S, self._tick)

    def check_unused(self, link: Any) -> None:
        """Raises IllegalStateError where a receiver of this connection has the link's name: a subscription's."""
        for each in self._links.values():
            if each.link.name == link.name and not each.has_gone:
                link.free()
                raise IllegalStateError(
                    f"{each.about} has a consumer already, or unacknowledged messages of one that was closed; close "
                    f"it, and acknowledge or give back what it received"
                )

    def forget(self, link: Any) -> None:
        """Free a link that has ended on both sides, here alone, and once: else the engine corrupts its memory."""
        if self._links.pop(link, None) is not None:
            link.free()

    # -- events --------------------------------------------------------------------------------------------------------

    def _handle(self, event: Any) -> None:
        kind = event.type
        if kind == Event.DELIVERY:
            link = self._links.get(event.link)
            if link is not None:
                link.delivery(event.delivery)
                if isinstance(link, RemoteReceiver):
                    self._touched[link] = None
        elif kind == Event.LINK_FLOW:
            link = self._links.get(event.link)
            if link is not None:
                link.flow()
        elif kind == Event.LINK_REMOTE_OPEN:
            link = self._links.get(event.link)
            if link is not None:
                link.remote_opened()
        elif kind in (Event.LINK_REMOTE_CLOSE, Event.LINK_REMOTE_DETACH):
            link = self._links.get(event.link)
            if link is not None:
                self._hand_over(link)
                link.remote_ended(event.link.remote_condition)
        elif kind == Event.CONNECTION_REMOTE_OPEN:
            self._remote_opened()
        elif kind == Event.CONNECTION_REMOTE_CLOSE:
            self._remote_closed()
        elif kind == Event.SESSION_REMOTE_CLOSE and not self._is_closing:
            self._why = str(error_of(event.session.remote_condition, "the AMQP server ended the session"))
            self.abort()
        elif kind == Event.TRANSPORT_ERROR:
            self._why = self._why or str(error_of(event.transport.condition, "AMQP"))

    def _hand_over(self, link: RemoteLink) -> None:
        if link in self._touched and isinstance(link, RemoteReceiver):
            del self._touched[link]
            link.handled()

    def _handled(self) -> None:
        touched, self._touched = self._touched, {}
        for each in touched:
            each.handled()

    def _remote_opened(self) -> None:
        engine = self.engine
        properties = {str(name): value for name, value in (engine.remote_properties or {}).items()}
        offered = {str(each) for each in engine.remote_offered_capabilities or ()}
        self.gives_units = UNITS in offered
        self.keeps_subscriptions = SHARED_SUBSCRIPTIONS in offered
        if not properties.get("amqp:connection-establishment-failed") and not self._opened.done():
            self.session = self.new_session()  # not before: some servers lose what comes behind an open
            self._opened.set_result(None)

    def _remote_closed(self) -> None:
        """Answer the server's close: whoever waits for an open or a close hears it, and the socket ends soon after."""
        condition: Condition | None = self.engine.remote_condition
        if condition is not None:
            error = error_of(condition, "the AMQP server ended the connection", default=ConnectionFailedError)
            self._why = str(error)
            if not self._opened.done():
                self._opened.set_exception(error)
        if not self.engine.state & Endpoint.LOCAL_CLOSED:
            self.engine.close()
        self.touch()
        if not self._closed.done():
            self._closed.set_result(None)
        self.loop.call_later(TICK_S, self.abort)

    def _over(self, why: str) -> None:
        if self.is_over:
            return
        self._handled()
        self.is_over = True
        self._why = self._why or why
        if self._ticks is not None:
            self._ticks.cancel()
        error = self._over_error()
        if not self._opened.done():
            self._opened.set_exception(error)
            self._opened.exception()
        if not self._closed.done():
            self._closed.set_result(None)
        links, self._links = list(self._links.values()), {}
        for each in links:
            each.lost(error)
        if not self._is_closing:
            self._lost(self, self._why)

    def _over_error(self) -> JMSError:
        return ConnectionFailedError(f"the connection to the AMQP server broke: {self._why}")

    def _tick(self) -> None:
        now_s = self.loop.time()
        links = list(self._links.values())
        for each in links:
            each.tick(now_s)
        receives = any(isinstance(each, RemoteReceiver) for each in links)
        self._ticks = self.loop.call_later(TICK_S if receives else IDLE_TICK_S, self._tick)
