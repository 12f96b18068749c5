"""Clients of an AMQP server that do what a seed decides: legal sequences of frames, and frames of every kind."""

from __future__ import annotations

import random
import select
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from jbm_kafka.amqp_wire.sasl_frames import AMQP_HEADER, FRAME_BYTES, HEADER
from jbm_kafka.codec.amqp.values import binary, list_of, map_of, read, string, symbol, uint, ulong

NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, DETACH, END, CLOSE = range(0x10, 0x19)
ANSWER_S: Final = 30.0
"""How long a server that lives may take for what is asked of it beside all others."""
CREDITS: Final = (0, 1, 1, 2, 10, 100, 1_000, 2**31 - 1, 2**31, 3_000_000_000, 2**32 - 1)
QUEUES: Final = tuple(f"fuzz.q{each}" for each in range(3))
TOPICS: Final = tuple(f"topic://fuzz.t{each}" for each in range(2))
OUTCOMES: Final = (0x24, 0x24, 0x25, 0x26, 0x27)


def described(code: int, *fields: bytes) -> bytes:
    """A value with a descriptor of one byte."""
    return b"\x00\x53" + bytes([code]) + list_of(fields)


@dataclass
class Frame:
    """One performative, as a client sends it."""

    code: int
    fields: list[bytes]
    channel: int = 0
    payload: bytes = b""

    def bytes(self) -> bytes:
        body = described(self.code, *self.fields) + self.payload
        return struct.pack(">IBBH", len(body) + 8, 2, 0, self.channel) + body


@dataclass
class ClientLink:
    """One that the client has attached."""

    name: str
    is_receiver: bool
    is_coordinator: bool = False
    in_parts: int | None = None
    """The delivery of which parts are still to come."""


@dataclass
class ClientSession:
    """One that the client has begun, with its links by their handles."""

    links: dict[int, ClientLink] = field(default_factory=dict)
    next_id: int = 0


class History:
    """One client's connection. The seed decides all that it sends, but for the names of transactions."""

    def __init__(self, port: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S)
        self._sessions: dict[int, ClientSession] = {}
        self._channels = iter(range(250))
        self._names = iter(range(10_000))
        self._got = b""
        self._is_over = False
        self._transactions: list[bytes] = [b"none"]
        self.ends = 0
        """Sessions that it has ended, of which the server has not ended so many."""

    # -- a legal one ---------------------------------------------------------------------------------------------------

    def play_legal(self) -> None:
        """Begin, do as a client may, and end in some way. Raises AssertionError: the server does not answer."""
        with self._socket:
            self._send([self._open()])
            for _ in range(self._random.randint(1, 12)):
                self._send([frame for _ in range(self._random.randint(1, 12)) for frame in self._step()])
                if self._random.random() < 0.5:
                    self._hear(self._random.choice((0.0, 0.002, 0.02)))
            if self._random.random() < 0.3:
                return  # without a word
            for channel in list(self._sessions):
                self._send([self._end(channel)])
            if self._random.random() < 0.5:
                self._hear_until(lambda: not self.ends, "an end for each session that was ended")
            self._send([Frame(CLOSE, [])])
            self._hear_until(lambda: False, "a close")

    def _hear_until(self, holds: Callable[[], bool], about: str) -> None:
        while not self._is_over and not holds():
            assert self._hear(ANSWER_S), f"the server does not answer: no {about} in {ANSWER_S:g} s"

    def _open(self) -> Frame:
        container = self._random.choice(("", "ID:fuzz", *(f"fuzz-{each}" for each in range(4))))
        wanted = symbol("sole-connection-for-container") if self._random.random() < 0.3 else NULL
        size = uint(self._random.choice((512, 4_096, 2**20)))
        return Frame(OPEN, [string(container), NULL, size, NULL, NULL, NULL, NULL, NULL, wanted])

    def _step(self) -> Sequence[Frame]:
        chance = self._random.random()
        if not self._sessions or (chance < 0.08 and len(self._sessions) < 40):
            return [self._begin()]
        channel = self._random.choice(list(self._sessions))
        session = self._sessions[channel]
        if not session.links or chance < 0.35:
            return [self._attach(channel, session)]
        handle = self._random.choice(list(session.links))
        link = session.links[handle]
        if chance < 0.55:
            return [self._flow(channel, handle, link)]
        if chance < 0.75:
            return self._speak(channel, session, handle, link)
        if chance < 0.9:
            del session.links[handle]
            closed = self._random.choice((TRUE, TRUE, FALSE))
            return [Frame(DETACH, [uint(handle), closed, self._error()], channel)]
        if chance < 0.95:
            return [self._disposition(channel, link)]
        return [self._end(channel)]

    def _begin(self) -> Frame:
        channel = next(self._channels, None)
        if channel is None:
            return Frame(FLOW, [NULL, uint(10), uint(0), uint(10)], next(iter(self._sessions)))
        self._sessions[channel] = ClientSession()
        window = uint(self._random.choice((0, 1, 100, 2_048, 2**31 - 1)))
        return Frame(BEGIN, [NULL, uint(0), window, uint(2_048)], channel)

    def _end(self, channel: int) -> Frame:
        del self._sessions[channel]
        self.ends += 1
        return Frame(END, [self._error()], channel)

    def _error(self) -> bytes:
        if self._random.random() < 0.8:
            return NULL
        return described(0x1D, symbol("amqp:internal-error"), string("because"))

    def _attach(self, channel: int, session: ClientSession) -> Frame:
        choose = self._random
        handle = next(each for each in range(1_000) if each not in session.links)
        name = choose.choice((f"l{next(self._names)}", f"l{next(self._names)}", f"sub{choose.randrange(3)}"))
        link = ClientLink(name, choose.random() < 0.6)
        if any(each.name == name and each.is_receiver == link.is_receiver for each in session.links.values()):
            link.name = f"l{next(self._names)}"
        session.links[handle] = link
        source, target = described(0x28, string("here")), described(0x29, string("here"))
        if link.is_receiver:
            source = self._source()
        else:
            target, link.is_coordinator = self._target()
        modes = [choose.choice((NULL, b"\x50\x00", b"\x50\x01", b"\x50\x02")), choose.choice((NULL, b"\x50\x00"))]
        count = NULL if link.is_receiver else uint(0)
        fields = [string(link.name), uint(handle), TRUE if link.is_receiver else FALSE, *modes, source, target]
        return Frame(ATTACH, [*fields, NULL, NULL, count], channel)

    def _source(self) -> bytes:
        choose = self._random
        kind = choose.randrange(7)
        if kind == 0:
            return NULL
        if kind == 1:
            named = symbol(choose.choice(("temporary-queue", "temporary-topic")))
            return described(0x28, *[NULL] * 4, TRUE, NULL, NULL, NULL, NULL, NULL, named)
        durable = [b"\x43", symbol("session-end")]
        named, address = NULL, string(choose.choice(QUEUES))
        if kind in (2, 3):
            address = string(choose.choice(TOPICS))
            durable = choose.choice((durable, [uint(2), symbol("never")]))
            named = choose.choice((NULL, symbol("shared")))
        mode = symbol("copy") if kind == 4 else NULL
        selector = b"\x00" + symbol("apache.org:selector-filter:string") + string("a = 1 OR a IS NULL")
        filters = map_of([symbol("selector") + selector]) if choose.random() < 0.2 else NULL
        return described(0x28, address, *durable, b"\x43", FALSE, NULL, mode, filters, NULL, NULL, named)

    def _target(self) -> tuple[bytes, bool]:
        kind = self._random.randrange(6)
        if kind == 0:
            return described(0x30, symbol("amqp:local-transactions")), True
        if kind == 1:
            named = symbol(self._random.choice(("temporary-queue", "temporary-topic")))
            return described(0x29, *[NULL] * 4, TRUE, NULL, named), False
        address = NULL if kind == 2 else string(self._random.choice(QUEUES + TOPICS))
        return described(0x29, address), False

    def _flow(self, channel: int, handle: int, link: ClientLink) -> Frame:
        choose = self._random
        about = [uint(0), uint(choose.choice((0, 10, 2_048))), uint(0), uint(2_048)]
        echo, drain = choose.choice((NULL, FALSE, TRUE)), choose.choice((FALSE, FALSE, TRUE))
        if choose.random() < 0.2:
            return Frame(FLOW, [*about, NULL, NULL, NULL, NULL, NULL, echo], channel)
        credit = uint(choose.choice(CREDITS)) if link.is_receiver else NULL
        return Frame(FLOW, [*about, uint(handle), uint(0), credit, NULL, drain, echo], channel)

    def _speak(self, channel: int, session: ClientSession, handle: int, link: ClientLink) -> Sequence[Frame]:
        if link.is_receiver:
            return [self._disposition(channel, link)]
        choose = self._random
        number = link.in_parts
        if number is None:
            number, session.next_id = session.next_id, session.next_id + 1
        more = choose.random() < 0.3
        link.in_parts = number if more else None
        settled, aborted = choose.choice((TRUE, FALSE, FALSE)), TRUE if choose.random() < 0.05 else FALSE
        if aborted == TRUE:
            link.in_parts = None
        state = NULL
        if link.is_coordinator:
            payload, settled = self._of_transaction(), FALSE
        else:
            payload = self._message()
            if choose.random() < 0.2:
                state = described(0x34, binary(self._transactions[-1]))
        fields = [uint(handle), uint(number), binary(b"t%d" % number), b"\x43", settled, TRUE if more else FALSE]
        return [Frame(TRANSFER, [*fields, NULL, state, NULL, aborted], channel, payload)]

    def _of_transaction(self) -> bytes:
        said = described(0x31, NULL)
        if self._random.random() < 0.5:
            said = described(0x32, binary(self._transactions[-1]), self._random.choice((TRUE, FALSE)))
        return b"\x00\x53\x77" + said

    def _message(self) -> bytes:
        choose = self._random
        to = string(choose.choice(QUEUES + TOPICS)) if choose.random() < 0.8 else NULL
        group = string(f"g{choose.randrange(3)}") if choose.random() < 0.5 else NULL
        properties = described(0x73, NULL, NULL, to, NULL, NULL, NULL, NULL, NULL, NULL, NULL, group)
        size = choose.choice((1, 10, 400, 3_000))
        return properties + b"\x00\x53\x75" + binary(b"x" * size)

    def _disposition(self, channel: int, link: ClientLink) -> Frame:
        choose = self._random
        first = choose.choice((0, 0, 1, 5, 50))
        last = choose.choice((NULL, uint(first), uint(first + 3), uint(first + 10_000)))
        state = described(choose.choice(OUTCOMES))
        if choose.random() < 0.2:
            state = described(0x34, binary(self._transactions[-1]), described(0x24))
        elif choose.random() < 0.1:
            state = NULL
        role = TRUE if link.is_receiver else FALSE
        return Frame(DISPOSITION, [role, uint(first), last, choose.choice((TRUE, FALSE)), state], channel)

    # -- frames of every kind ------------------------------------------------------------------------------------------

    def play_wild(self) -> None:
        """Say what no client should, as soon as the connection is open, or before."""
        with self._socket:
            chance = self._random.random()
            try:
                if chance < 0.05:
                    self._socket.sendall(HEADER + self._random.randbytes(self._random.choice((3, 20, 2 * FRAME_BYTES))))
                else:
                    steps = [frame for _ in range(self._random.randint(0, 10)) for frame in self._step()]
                    self._send([self._open(), *steps])
                    if self._random.random() < 0.5:
                        self._hear(self._random.choice((0.0, 0.002, 0.02)))
                    for _ in range(self._random.randint(1, 6)):
                        self._socket.sendall(b"".join(self._wild() for _ in range(self._random.randint(1, 4))))
                        if self._random.random() < 0.3:
                            self._send([frame for _ in range(3) for frame in self._step()])
                self._hear(0.02)
            except (ConnectionError, TimeoutError):
                return  # it was thrown out

    def _wild(self) -> bytes:
        choose, kind = self._random, self._random.randrange(10)
        frame = choose.choice(list(self._step()))
        if kind == 0:
            return choose.randbytes(choose.choice((1, 8, 9, 40, 600)))
        if kind in (1, 2):
            changed = bytearray(frame.bytes())
            for _ in range(choose.randint(1, 4)):
                changed[choose.randrange(8, len(changed))] = choose.choice((0, 1, 0x40, 0x45, 0x7F, 0x80, 0xFF))
            return bytes(changed)
        if kind == 3:
            cut = frame.bytes()[8 : choose.randint(8, len(frame.bytes()))]
            return struct.pack(">IBBH", len(cut) + 8, 2, 0, frame.channel) + cut
        if kind == 4:
            head = choose.choice(((2**32 - 1, 2), (7, 2), (0, 0), (100, 200), (8, 2), (12, 1)))
            return struct.pack(">IBBH", *head, choose.choice((0, 1, 7)), frame.channel) + frame.bytes()[8:]
        if kind in (5, 6, 7):
            at = choose.randrange(len(frame.fields) or 1)
            frame.fields[at : at + 1] = [self._value(3)]
        elif kind == 8:
            frame.code = choose.choice((*range(0x10, 0x19), choose.randrange(256)))
        else:
            frame.code = choose.randrange(0x11, 0x18)
            frame.fields = [self._value(3) for _ in range(choose.randint(0, 14))]
            frame.channel = choose.choice((frame.channel, 0, 1, 255, 256, 65_535))
        return frame.bytes()

    def _value(self, depth: int) -> bytes:
        choose = self._random
        kind = choose.randrange(16 if depth else 12)
        if kind < 4:
            return uint(choose.choice((0, 1, 2, 3, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)))
        if kind == 4:
            return ulong(choose.choice((0, 0x24, 0x34, 2**31, 2**63, 2**64 - 1)))
        if kind in (5, 6):
            text = choose.choice(("", "\0", "fuzz.q0\0more", "é" * 40, "x" * 300, "topic://fuzz.t0", "fuzz.q1"))
            return string(text)
        if kind == 7:
            return symbol(choose.choice(("", "copy", "never", "amqp:open:list", "a\0b")))
        if kind == 8:
            return binary(choose.randbytes(choose.choice((0, 1, 16, 300))))
        if kind == 9:
            return choose.choice((NULL, TRUE, FALSE, b"\x45", b"\x56\x07"))
        if kind == 10:
            return choose.choice(
                (b"\x72\x7f\xc0\0\0", b"\x98" + b"\xff" * 16, b"\x83" + b"\xff" * 8, b"\x73\0\x11\0\0")
            )
        if kind == 11:
            return b"\xa1\x05ab\xff\xfe\x80"  # no UTF-8
        if kind == 12:
            return list_of([self._value(depth - 1) for _ in range(choose.randrange(6))])
        if kind == 13:
            return map_of([self._value(depth - 1) + self._value(depth - 1) for _ in range(choose.randrange(4))])
        if kind == 14:
            return b"\x00" + self._value(depth - 1) + self._value(depth - 1)
        return described(
            choose.choice((0x28, 0x29, 0x30, 0x34, 0x23, 0x27)), *(self._value(depth - 1) for _ in range(6))
        )

    # -- the socket ----------------------------------------------------------------------------------------------------

    def _send(self, frames: Sequence[Frame]) -> None:
        said = b"".join(frame.bytes() for frame in frames)
        if frames and frames[0].code == OPEN:
            said = AMQP_HEADER + said
        try:
            self._socket.sendall(said)
        except ConnectionError:
            self._is_over = True

    def _hear(self, wait_s: float) -> bool:
        """Read what is there, or comes in the time; False: nothing."""
        is_there = False
        while not self._is_over and select.select([self._socket], [], [], 0.0 if is_there else wait_s)[0]:
            is_there = True
            try:
                part = self._socket.recv(65_536)
            except ConnectionError:
                part = b""
            self._is_over = not part
            self._got = self._look(self._got + part)
        return is_there or self._is_over

    def _look(self, got: bytes) -> bytes:
        if got.startswith(b"AMQP"):
            if len(got) < 8:
                return got
            got = got[8:]
        while len(got) >= 8 and len(got) >= (size := int.from_bytes(got[:4], "big")):
            body, got = got[8:size], got[size:]
            code = body[2] if body[:2] == b"\x00\x53" else 0
            if code == END:
                self.ends -= 1
            elif code == DISPOSITION and b"\x00\x53\x33" in body:
                fields = read(body, 0)[0].value[1].value
                self._transactions.append(fields[4].value[1].value[0].value)
        return got
