"""The client's socket: SASL first, then its bytes go through the protocol engine. On the connection's event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

from proton import Collector, Connection, Endpoint, Transport

from jbm_kafka.amqp_client.sasl_client import SaslClient
from jbm_kafka.core.jms_errors import ConnectionFailedError, JMSError

log = logging.getLogger(__name__)

FRAME_BYTES = 256 * 1024
IDLE_TIMEOUT_S = 60.0
LONGEST_TICK_S = 15.0


class ClientWire(asyncio.Protocol):
    """One socket and its engine."""

    def __init__(
        self,
        sasl: SaslClient,
        *,
        handle: Callable[[Any], None],
        handled: Callable[[], None],
        lost: Callable[[str], None],
        silent_s: float = IDLE_TIMEOUT_S / 2,
        frame_bytes: int = FRAME_BYTES,
    ) -> None:
        """`handle` gets each event of the engine, `handled` is told when there are no more for now; `lost`, once, why
        the connection is over. `silent_s`: the server is to give a sign of life as often."""
        self._silent_s, self._frame_bytes = silent_s, frame_bytes
        self._loop = asyncio.get_running_loop()
        self._sasl: SaslClient | None = sasl
        self._handle, self._handled, self._tell_lost = handle, handled, lost
        self._socket: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_flushing = False
        self._is_writable = True
        self._is_lost = False
        self._why = ""
        self.is_in: asyncio.Future[None] = self._loop.create_future()
        """Done when the server has let the client in, or failed with why it did not."""
        self.connection = Connection()
        self._engine = Transport(Transport.CLIENT)
        self._collector = Collector()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        assert self._sasl is not None
        self._socket.write(self._sasl.begin())

    def data_received(self, data: bytes) -> None:
        try:
            if self._sasl is not None:
                data = self._authenticate(self._sasl, data)
            if self._sasl is None and data:
                self._push(data)
        except JMSError as error:
            self._fail(error)
        except Exception as error:
            if not isinstance(error, ValueError):
                log.exception("an AMQP connection ends by an error of ours")
            self._fail(ConnectionFailedError(f"what came from the AMQP server cannot be understood: {error}"))

    def _authenticate(self, sasl: SaslClient, data: bytes) -> bytes:
        assert self._socket is not None
        answer = sasl.receive(data)
        if answer:
            self._socket.write(answer)
        if not sasl.is_done:
            return b""
        self._sasl = None
        self._engine.idle_timeout = self._silent_s
        self._engine.max_frame_size = self._frame_bytes
        self.connection.collect(self._collector)
        self._engine.bind(self.connection)
        self.is_in.set_result(None)
        self._tick()
        return sasl.rest

    def _fail(self, error: JMSError) -> None:
        if not self.is_in.done():
            self.is_in.set_exception(error)
        self._why = str(error)
        self.abort()

    def _push(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            room = self._engine.capacity()
            if room <= 0:
                break
            part = data[at : at + room]
            self._engine.push(part)
            at += len(part)
            self._work()
        self._handled()
        self._flush()
        if at < len(data):
            self.abort()

    def _work(self) -> None:
        while (event := self._collector.peek()) is not None:
            try:
                self._handle(event)
            except Exception:
                log.exception("AMQP: an error of ours at %s", event.type)
            self._collector.pop()

    def touch(self) -> None:
        """Something is to be sent, maybe; once for many."""
        if not self._is_flushing and not self._is_lost:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self.flush()

    def flush(self) -> bool:
        """Send what is to be sent; False: the socket takes no more."""
        self._is_flushing = False
        if self._socket is None or self._is_lost or self._sasl is not None:
            return True
        self._work()
        while self._is_writable:
            pending = self._engine.pending()
            if pending < 0:
                # What the server had sent meanwhile would fail, and count as lost: it is to answer our close first.
                state = self.connection.state
                is_answered = state & Endpoint.REMOTE_CLOSED or not state & Endpoint.LOCAL_CLOSED
                if (is_answered or self._engine.condition is not None) and not self._socket.is_closing():
                    self._socket.close()
                return True
            if pending == 0:
                return True
            self._socket.write(bytes(self._engine.peek(pending) or b""))
            self._engine.pop(pending)
            self._work()
        return False

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        self._flush()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        if self._timer is not None:
            self._timer.cancel()
        why = self._why or (str(exc) if exc is not None else "the server closed the connection")
        if not self.is_in.done():
            self.is_in.set_exception(ConnectionFailedError(why))
        self._tell_lost(why)
        self._engine.unbind()
        self._collector.release()
        del self._collector  # here, on the loop, and not by whichever thread collects garbage

    def abort(self) -> None:
        """End it without a word."""
        if self._socket is not None:
            self._socket.abort()

    def _tick(self) -> None:
        """Idle timeouts, ours and the server's."""
        if self._is_lost:
            return
        now = self._loop.time()
        deadline = self._engine.tick(now)
        self._flush()
        wait_s = min(max(deadline - now, 0.05), LONGEST_TICK_S) if deadline else LONGEST_TICK_S
        if not self._is_lost:
            self._timer = self._loop.call_later(wait_s, self._tick)
