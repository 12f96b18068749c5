"""A socket until its client has said who it is: it waits for its turn, for TLS, and for what proves a user."""

from __future__ import annotations

import asyncio
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from jbm_kafka.amqp.failure_delays import FailureDelays
from jbm_kafka.amqp.part_protocols import Host
from jbm_kafka.amqp.sasl import SaslServer
from jbm_kafka.amqp.shares import Shares, Whose, address_of, whose_client
from jbm_kafka.amqp.turns import Turns
from jbm_kafka.amqp.wire import Wire
from jbm_kafka.configuration.server_limits import Limits

LINE_TURNS = 3
"""So many turns that others let pass are waited for: silent ones of the same address may have been there before."""


class Door:
    """The part that all newcomers have in common. On the event loop."""

    def __init__(self, limits: Limits) -> None:
        self.newcomers: set[Newcomer] = set()
        self.passwords = ThreadPoolExecutor(1, thread_name_prefix="jbm-amqp-password")
        self.delays = FailureDelays()
        self.places = Shares(limits.connections, limits.connections_per_user, limits.connections_per_address)
        self._turns: Turns[Newcomer] = Turns(limits.handshakes, limits.handshakes_per_address, limits.connections)

    def arrive(self, one: Newcomer) -> None:
        """Let a newcomer begin now, or wait in line; of too many in line one is turned away."""
        self.newcomers.add(one)
        lost = self._turns.arrive(one.address, one)
        if lost is not None:
            lost.turn_away("lost its place in a long line")
        self.go_on()

    def go_on(self) -> None:
        """Let those begin whose turn it is."""
        for each in self._turns.begin():
            each.begin()

    def leave(self, one: Newcomer) -> None:
        """It has gone before its turn came."""
        self._turns.withdraw(one.address, one)

    def had_turn(self, address: Whose) -> None:
        """One of there is in, or gone."""
        self._turns.end(address)
        self.go_on()

    def hold_turn(self, address: Whose, loop: asyncio.AbstractEventLoop, wait_s: float) -> None:
        """One of there went before it heard that it was refused: it would come again at once."""
        self._turns.hold(address)
        loop.call_later(wait_s, self._release_turn, address)

    def _release_turn(self, address: Whose) -> None:
        self._turns.release(address)
        self.go_on()


class Newcomer(asyncio.Protocol):
    """One socket. Who is known becomes a `Wire`."""

    def __init__(self, server: Host, door: Door, tls: ssl.SSLContext | None) -> None:
        self._server, self._door, self._tls = server, door, tls
        self._wait_s = server.settings.limits.open_timeout_s
        self._socket: asyncio.Transport
        self.address: Whose
        self._timer: asyncio.TimerHandle
        self._sasl: SaslServer | None = None
        self._early = b""
        self._is_checking = False
        self._has_turn = False
        self._is_over = False
        self._refused_until_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)
        self.address = address_of(self._socket.get_extra_info("peername"))
        wait_s = LINE_TURNS * self._wait_s
        self._timer = self._server.loop.call_later(wait_s, self.turn_away, "waited too long for its turn")
        if self._server.is_draining:
            self.turn_away("")
            return
        self._socket.pause_reading()
        self._door.arrive(self)

    def begin(self) -> None:
        """It has its turn."""
        self._has_turn = True
        self._timer.cancel()
        self._timer = self._server.loop.call_later(self._wait_s, self.abort)
        if self._tls is None:
            self._greet()
        else:
            self._server.run(self._secure(self._tls))

    async def _secure(self, tls: ssl.SSLContext) -> None:
        try:
            secured = await self._server.loop.start_tls(
                self._socket, self, tls, server_side=True, ssl_handshake_timeout=self._wait_s
            )
        except OSError:  # whoever speaks no TLS, or does not trust us
            secured = None
        if secured is None:
            self.connection_lost(None)  # asyncio tells of it nobody else
            return
        self._socket = secured
        if not self._is_over:
            self._greet()

    def _greet(self) -> None:
        subject = (self._socket.get_extra_info("peercert") or {}).get("subject", ())
        names = [value for part in subject for key, value in part if key == "commonName"]
        self._sasl = SaslServer(
            self._server.settings.access,
            is_encrypted=self._tls is not None,
            certificate_user=names[0] if names else None,
        )
        self._socket.resume_reading()
        if self._early:
            self.data_received(self._early)
            self._early = b""

    def data_received(self, data: bytes) -> None:
        sasl = self._sasl
        if sasl is None:  # it came in one piece with the last of TLS
            self._early += data
            return
        if sasl.is_done or self._is_over:  # it is refused, and has not heard it yet
            return
        try:
            answer = sasl.receive(data)
        except ValueError:
            self.abort()
            return
        if sasl.check is not None and not self._is_checking:
            self._is_checking = True
            self._server.run(self._check(sasl))
        self._answer(sasl, answer)

    async def _check(self, sasl: SaslServer) -> None:
        assert sasl.check is not None
        is_right = await self._server.loop.run_in_executor(self._door.passwords, sasl.check)
        self._answer(sasl, sasl.checked(is_right))

    def _answer(self, sasl: SaslServer, answer: bytes) -> None:
        """Send the client what SASL says next; let it in when it has proved who it is, refuse it when it cannot."""
        if sasl.is_done and sasl.user is None:
            self._refuse(sasl, answer)
            return
        if answer:
            self._socket.write(answer)
        if sasl.user is not None and not self._is_over:
            self._let_in(sasl.user, sasl.rest)

    def _refuse(self, sasl: SaslServer, answer: bytes) -> None:
        """It hears of it later, the more often it has failed. Meanwhile others of its address have their turn."""
        loop, wait_s = self._server.loop, 0.0
        self._server.refused += 1
        self._server.faults.note(self.address, "was not let in", sasl.fault)
        if sasl.guessed is not None:
            wait_s = self._door.delays.failed(loop.time(), self.address, Whose("user", sasl.guessed))
        self._timer.cancel()
        if self._is_over:
            self._door.hold_turn(self.address, loop, wait_s)
            return
        self._refused_until_s = loop.time() + wait_s
        self._timer = loop.call_later(wait_s, self._tell, answer)
        self._end_turn()

    def _tell(self, answer: bytes) -> None:
        self._refused_until_s = 0.0
        self._socket.write(answer)
        self._socket.close()

    def _let_in(self, user: str, rest: bytes) -> None:
        self._timer.cancel()
        self._is_over = True
        self._door.newcomers.discard(self)
        whose = whose_client(user, self.address)
        wire = Wire(self._server, self._socket, user, whose)
        self._socket.set_protocol(wire)
        assert self._has_turn, "it ends when the client has opened"
        wire.begin(self._door.places, lambda: self._door.had_turn(self.address))
        if rest:
            wire.data_received(rest)

    def turn_away(self, why: str) -> None:
        """It has not had its turn, and gets none."""
        self._server.refused += 1
        if why:
            self._server.faults.note(self.address, why)
        self.abort()

    def abort(self) -> None:
        """End it without a word."""
        self._socket.abort()

    def _end_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            self._door.had_turn(self.address)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._timer.cancel()
        self._door.newcomers.discard(self)
        self._door.leave(self)
        left_s = self._refused_until_s - self._server.loop.time()
        if left_s > 0:
            self._door.hold_turn(self.address, self._server.loop, left_s)
        self._end_turn()
