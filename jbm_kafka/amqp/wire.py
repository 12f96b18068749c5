"""A client's socket: its bytes go through the protocol engine, whose events a `Peer` handles."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from cproton import (  # type: ignore[import-untyped]
    PN_DELIVERY,
    pn_collector_peek,
    pn_collector_pop,
    pn_event_delivery,
    pn_event_type,
)
from proton import Collector, Connection, Endpoint, ProtonException, Transport

from jbm_kafka.amqp.incoming_frames import Echo, FrameFault, HeardFrames, IncomingFrames
from jbm_kafka.amqp.outgoing_frames import OutgoingFrames
from jbm_kafka.amqp.part_protocols import Host
from jbm_kafka.amqp.peer import HANDLED, Peer
from jbm_kafka.amqp.shares import Shares, Whose
from jbm_kafka.amqp_wire.conditions import LIMIT, condition
from jbm_kafka.amqp_wire.engine_objects import EngineDelivery, remote_credit

BUFFERED_BYTES = 256 * 1024
"""The bytes that may wait in the socket's buffer before nothing more is sent to a client."""


class Wire(asyncio.Protocol):
    """One socket whose client has said who it is."""

    def __init__(self, server: Host, socket: asyncio.Transport, user: str, whose: Whose) -> None:
        """`whose`: who answers for it."""
        self._server = server
        self._limits = server.settings.limits
        self._socket = socket
        self._user = user
        self.whose = whose
        self._places: Shares | None = None
        """Where it has a place."""
        self._entered: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle
        self._is_open = False
        self._is_refused = False
        self._is_flushing = False
        self._is_lost = False
        self._blocked_since: float | None = None
        self._incoming = IncomingFrames(server.settings.limits.frame_bytes)
        self._outgoing = OutgoingFrames()
        self._echoes: list[Echo] = []
        """The echoes that are not answered."""
        self._heard: deque[bytes] = deque()
        self._pieces: Iterator[HeardFrames] | None = None
        """The pieces of what was heard first."""
        self._is_waiting = False
        """Until the connection is open on this side."""
        self._is_deaf = False
        """The client has sent what nobody may, and is heard no more."""
        self._engine = Transport(Transport.SERVER)
        self._collector = Collector()
        self._connection = Connection()
        self.peer: Peer | None = None

    def begin(self, places: Shares, entered: Callable[[], None]) -> None:
        """Serve its client, unless its user or address has too many. `entered`: called when it has opened, or is gone.

        A client that is one too many is told so.
        """
        server, limits = self._server, self._limits
        self._entered = entered
        self._timer = server.loop.call_later(limits.open_timeout_s, self.abort)
        self._socket.set_write_buffer_limits(high=BUFFERED_BYTES)
        self._engine.idle_timeout = limits.idle_timeout_s / 2
        self._engine.max_frame_size = limits.frame_bytes
        self._engine.channel_max = limits.sessions_per_connection - 1
        over = places.take(self.whose)
        if over is None:
            self._places = places
            server.wires[self] = None
            self._connection.collect(self._collector)
            self._engine.bind(self._connection)
            self.peer = Peer(server, self._connection, self.touch, self._user, self.whose, self._read, self._flush)
            return
        server.refused += 1
        server.faults.note(self.whose, "has too many connections")
        self._is_refused = True
        self._enter()
        self._connection.container = server.container
        self._engine.bind(self._connection)
        self._connection.open()
        self._connection.condition = condition(LIMIT, f"{over} may be connected; close some of them")
        self._connection.close()
        self._flush()

    def _read(self, is_wanted: bool) -> None:
        if self._socket.is_closing():
            return
        if is_wanted:
            self._socket.resume_reading()
        else:
            self._socket.pause_reading()

    def data_received(self, data: bytes) -> None:
        try:
            self._push(data)
        except Exception as error:
            if not isinstance(error, ValueError | ProtonException):
                self._server.faults.note_error(self.whose, "ends its connection by an error of ours", error)
            self.abort()

    def _push(self, data: bytes) -> None:
        peer, socket = self.peer, self._socket
        if self._is_deaf or (peer is None and not self._is_refused):
            return
        self._heard.append(data)
        try:
            self._hear(peer)
        except FrameFault as fault:
            self._is_deaf = True
            self._server.faults.note(self.whose, "sends what no client may", str(fault))
            if peer is not None:
                peer.end(condition(fault.condition, str(fault)))
            self._flush()
            socket.close()
            return
        self._flush()

    def _hear(self, peer: Peer | None) -> None:
        """The engine loses what is begun before the connection is open on this side, which may have to wait.

        Without a peer, of a client that is one too many, it hears the open, and answers with why it is closed.
        """
        while not self._is_deaf and (self._pieces is not None or self._heard):
            self._is_waiting = self._incoming.is_open and peer is not None and not peer.is_open
            if self._is_waiting:
                self._read(False)
                return
            if self._pieces is None:
                self._pieces = self._incoming.pieces(self._heard.popleft())
            piece = next(self._pieces, None)
            if piece is None:
                self._pieces = None
                continue
            if peer is not None:
                peer.attach_fault, peer.place = piece.fault, piece.place
            self._push_piece(piece.data)
            if peer is not None:
                peer.place = None
            if piece.echo is not None:
                self._echoes.append(piece.echo)

    def _push_piece(self, data: bytes) -> None:
        """Give the bytes to the engine in parts that it has room for, and handle the events of each before the next.

        An engine that takes no more has found an error: the connection is ended, and nothing is read from it again.
        """
        at = 0
        while at < len(data):
            room = self._engine.capacity()
            if room <= 0:
                break  # the engine takes no more: it has found an error, which the flush tells
            part = data[at : at + room]
            self._engine.push(part)
            at += len(part)
            self._work()
        if at < len(data):
            self._is_deaf = True
            self.abort()

    def _work(self) -> None:
        peer, events = self.peer, self._collector._impl
        while peer is not None and (event := pn_collector_peek(events)):
            kind = pn_event_type(event)
            if kind == PN_DELIVERY:
                peer.delivered(EngineDelivery(pn_event_delivery(event)))
            elif kind in HANDLED:  # to make an object of it costs much
                event_there = self._collector.peek()
                assert event_there is not None, kind
                peer.handle(event_there)
            pn_collector_pop(events)

    def touch(self) -> None:
        """Something is to be sent, maybe; once for many."""
        if not self._is_flushing and not self._is_lost:
            self._is_flushing = True
            self._server.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        if self._is_lost or (self.peer is None and not self._is_refused):
            return
        self._work()
        peer = self.peer
        if self._is_waiting and peer is not None and peer.is_open:
            self._is_waiting = False
            self._read(True)
            self._push(b"")
            return
        if peer is not None:
            peer.pump_due()
            if not self._is_open:
                self._look_if_open(peer)
        was_taking = peer is None or peer.takes_more
        self._write(self._socket, peer)
        if peer is not None and not was_taking and peer.takes_more:
            peer.pump()

    def _write(self, socket: asyncio.Transport, peer: Peer | None) -> None:
        while peer is None or peer.is_writable:
            pending = self._engine.pending()
            if pending < 0:
                if not socket.is_closing():  # asyncio forgets a TLS socket that is closed twice
                    socket.close()
                return
            if peer is not None:  # frames have more bytes than messages: with nothing left it is exact again
                peer.outgoing_bytes = max(peer.outgoing_bytes - pending, 0) if pending else 0
            if pending == 0:
                if self._echoes:
                    self._answer_echoes(socket)
                return
            self._write_out(socket, bytes(self._engine.peek(pending) or b""))
            self._work()

    def _write_out(self, socket: asyncio.Transport, data: bytes) -> None:
        self._outgoing.note(data)
        socket.write(data)
        self._engine.pop(len(data))

    def _answer_echoes(self, socket: asyncio.Transport) -> None:
        """All that was to be said is said: what the engine says now is the answer."""
        echoes, self._echoes = self._echoes, []
        for echo in echoes:
            session, link = (None, None) if self.peer is None else self.peer.at(echo.channel, echo.handle)
            if session is None or (link is None and echo.handle is not None):
                continue  # it has ended
            if (session if link is None else link).state & Endpoint.LOCAL_UNINIT:
                self._echoes.append(echo)  # it is answered when it is open
                continue
            if link is not None and link.is_receiver:
                link.flow(0)
            session.incoming_capacity = session.incoming_capacity  # has the engine tell
            pending = self._engine.pending()
            if pending <= 0:
                continue
            data = bytes(self._engine.peek(pending) or b"")
            if link is not None and link.is_sender:
                credit = remote_credit(link)
                count, drains = (echo.total - credit) % 2**32, bool(link.drain_mode)
                told = self._outgoing.of_link(data, echo.channel, link.name, count, credit, drains=drains)
                socket.write(told)
                self._engine.pop(pending)
            else:
                self._write_out(socket, data)

    def pause_writing(self) -> None:
        self._blocked_since = self._server.loop.time()
        if self.peer is not None:
            self.peer.is_writable = False

    def resume_writing(self) -> None:
        self._blocked_since = None
        if self.peer is not None:
            self.peer.is_writable = True
            self._flush()
            self.peer.pump()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._server.wires.pop(self, None)
        self._timer.cancel()
        self._enter()
        if self._places is not None:
            self._places.give_back(self.whose)
        if self.peer is not None:
            self._server.run(self._left(self.peer))

    async def _left(self, peer: Peer) -> None:
        await peer.lost()
        self._engine.unbind()
        self._collector.release()
        # Here, on the loop, and now: whoever collects garbage may be another thread, and many clients later.
        del self._collector, self._engine, self._connection
        self.peer = None

    def abort(self) -> None:
        """End it without a word."""
        self._flush()
        self._socket.abort()

    def _look_if_open(self, peer: Peer) -> None:
        """The client has done its part when its open has come; it may want signs of life when it has ours."""
        if self._entered is not None and self._connection.state & Endpoint.REMOTE_ACTIVE:
            self._enter()
        if peer.is_open:
            self._is_open = True
            self._timer.cancel()
            self._timer = self._server.loop.call_later(0, self._tick)

    def _enter(self) -> None:
        """Tell the door, once, that this client has opened or is gone: the next handshake in line may begin."""
        entered, self._entered = self._entered, None
        if entered is not None:
            entered()

    def _tick(self) -> None:
        """Idle timeouts, ours and the client's."""
        now = self._server.loop.time()
        if self._blocked_since is not None and now - self._blocked_since > self._limits.idle_timeout_s:
            self.abort()
            return
        deadline = self._engine.tick(now)
        self._flush()
        wait_s = min(max(deadline - now, 0.05), 15.0) if deadline else 15.0
        if not self._is_lost:
            self._timer = self._server.loop.call_later(wait_s, self._tick)
