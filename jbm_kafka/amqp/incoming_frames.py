"""A client's frames on their way to the protocol engine, which trusts them more than it should.

The engine is C: texts end at a NUL there, numbers of 2^31 and more are negative, and frames that no client may send
make it use memory that is not its own. So frames are looked at before, and such ones end their connection.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from jbm_kafka.codec.amqp.address_forms import parse_address
from jbm_kafka.codec.amqp.values import Amqp, Budget, list_of, read, uint
from jbm_kafka.core.jms_errors import InvalidSettingError, JMSError

OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DETACH, END = 0x10, 0x11, 0x12, 0x13, 0x14, 0x16, 0x17
DISPOSITION: Final = b"\x00\x53\x15"
_HEAD: Final = struct.Struct(">IBBH").unpack_from
HEADER_BYTES: Final = 8
HEAD_BYTES: Final = 32
"""With so many of its bytes the kind of a frame is known, and the handle of a transfer."""
VALUES_MAX: Final = 10_000
"""The values of one frame, beside messages."""
CREDIT_MAX: Final = 2**31 - 1
FRAMING: Final = "amqp:connection:framing-error"


class FrameFault(Exception):
    """The connection ends."""

    def __init__(self, condition: str, text: str) -> None:
        super().__init__(text)
        self.condition = condition


class Echo(NamedTuple):
    """The client wants to know how a session, or one of its links, stands."""

    channel: int
    handle: int | None
    total: int
    """The delivery count of a link and its credit together, which only its receiver changes."""


class HeardFrames(NamedTuple):
    """Bytes for the engine, which ends what it has to do with them before it gets the next ones."""

    data: bytes
    fault: JMSError | None = None
    """Its last frame is an attach that is to be refused."""
    echo: Echo | None = None
    place: tuple[int, int] | None = None
    """Its last frame is an attach: channel and handle, or a begin: channel and -1."""


class IncomingFrames:
    """The frames of one connection, from its header on."""

    def __init__(self, frame_bytes: int) -> None:
        self._most = frame_bytes
        self._rest = b""
        self._skip = HEADER_BYTES
        """Bytes to come that are not looked at."""
        self._fault: FrameFault | None = None
        """Its client is not heard any more."""
        self._is_malformed = False
        self.is_open = False
        """Its open has come."""
        self._channels: dict[int, dict[int, bool]] = {}
        """The client's links by channel and handle; True: it sends by it."""

    def pieces(self, data: bytes) -> Iterator[HeardFrames]:
        """Yield what goes to the engine now. Raises FrameFault."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        begun, at = 0, min(self._skip, len(data))
        self._skip -= at
        while self._fault is None and len(data) - at >= HEADER_BYTES:
            size, offset, kind, channel = _HEAD(data, at)
            start, end = at + 4 * offset, at + size
            if self._is_malformed or size > self._most or not at + HEADER_BYTES <= start <= end:
                self._is_malformed, at = True, len(data)  # the engine says so
                break
            if kind:
                self._fault = FrameFault(FRAMING, f"a frame of type {kind} is no AMQP frame")
                break
            if len(data) < min(end, start + HEAD_BYTES):
                break
            if end <= len(data) and data[start : start + 3] == DISPOSITION:  # there are many, and none can harm
                at = end
                continue
            try:
                code, fields = _code(data, start) if start < end else (0, start)
                if code == TRANSFER:
                    self._check_transfer(channel, _first(data, fields))
                    if end > len(data):
                        self._skip, at = end - len(data), len(data)
                        break
                elif end > len(data):
                    break
                elif start < end:
                    piece = self._look(code, channel, data, at, start, end, begun)
                    if piece is not None:
                        yield piece
                        begun = end
            except FrameFault as fault:
                self._fault = fault
                break
            at = end
        if at > begun:
            yield HeardFrames(data[begun:at] if begun or at < len(data) else data)
        self._rest = data[at:]
        if self._fault is not None:
            raise self._fault

    def _check_transfer(self, channel: int, handle: int | None) -> None:
        if handle is None or not self._channels.get(channel, {}).get(handle):
            raise FrameFault(FRAMING, f"a transfer on channel {channel} by handle {handle}, which no sender has")

    def _look(
        self, code: int, channel: int, data: bytes, at: int, start: int, end: int, begun: int
    ) -> HeardFrames | None:
        if self.is_open == (code == OPEN):
            raise FrameFault(FRAMING, "a connection begins with its one open")
        if code == FLOW:
            return self._flow(channel, data[begun:at], data[at:end], start - at)
        if code == DETACH:
            handle = _first(data, _code(data, start)[1])
            self._channels.get(channel, {}).pop(-1 if handle is None else handle, None)
        elif code == END:
            self._channels.pop(channel, None)
        elif code in (OPEN, BEGIN, ATTACH):
            fields = _fields(data[start:end])
            place, fault = None, None
            if code == OPEN:
                self.is_open = True
                if "\0" in _text(fields, 0):  # the engine must have the open, to answer it
                    self._fault = FrameFault("amqp:invalid-field", "the container id has a NUL; choose one without")
            elif code == BEGIN:
                self._begin(channel, fields)
                place = channel, -1
            else:
                handle = self._attach(channel, fields)
                place, fault = (channel, handle), _fault_of(fields)
            return HeardFrames(data[begun:end], fault, None, place)
        return None

    def _begin(self, channel: int, fields: list[Amqp]) -> None:
        if channel in self._channels:
            raise FrameFault(FRAMING, f"channel {channel} has a session; end it first")
        if fields and fields[0].type != "null":
            raise FrameFault(FRAMING, f"a begin on channel {channel} answers none of ours")
        self._channels[channel] = {}

    def _attach(self, channel: int, fields: list[Amqp]) -> int:
        if [each.type for each in fields[:3]] != ["string", "uint", "boolean"]:
            raise FrameFault("amqp:decode-error", "an attach begins with a name, a handle and a role")
        links, handle = self._channels.get(channel), fields[1].value
        if links is None:
            raise FrameFault("amqp:not-allowed", f"channel {channel} has no session; begin one")
        if handle in links:
            raise FrameFault("amqp:session:handle-in-use", f"handle {handle} has a link; detach it first")
        links[handle] = not fields[2].value
        return int(handle)

    def _flow(self, channel: int, before: bytes, frame: bytes, start: int) -> HeardFrames | None:
        fields = _fields(frame[start:])
        numbers = [each.value if each.type == "uint" else None for each in fields]
        numbers += [None] * (10 - len(numbers))
        handle, credit = numbers[4], numbers[6] or 0
        flags = [at < len(fields) and fields[at].value is True for at in (8, 9)]
        if credit > CREDIT_MAX:
            credit = CREDIT_MAX
            said = [b"\x40" if each is None else uint(each) for each in (*numbers[:6], credit, numbers[7])]
            body = b"\x00\x53\x13" + list_of([*said, b"\x41" if flags[0] else b"\x42"])
            frame = struct.pack(">IBBH", len(body) + HEADER_BYTES, 2, 0, channel) + body
        elif not flags[1]:
            return None
        total = ((numbers[5] or 0) + credit) % 2**32
        return HeardFrames(before + frame, echo=Echo(channel, handle, total) if flags[1] else None)


def _code(data: bytes, start: int) -> tuple[int, int]:
    """A frame's kind, and where its fields begin; 0: the engine knows what is wrong."""
    if data[start : start + 2] == b"\x00\x53":
        return data[start + 2], start + 3
    if data[start : start + 2] == b"\x00\x80":
        return int.from_bytes(data[start + 2 : start + 10], "big"), start + 10
    raise FrameFault("amqp:decode-error", "a frame says nothing that is known")


def _first(data: bytes, at: int) -> int | None:
    """The first of the fields, if it is a handle."""
    at += 3 if data[at : at + 1] == b"\xc0" else 9
    code = data[at : at + 1]
    if code == b"\x52":
        return data[at + 1]
    return int.from_bytes(data[at + 1 : at + 5], "big") if code == b"\x70" else 0 if code == b"\x43" else None


def _fields(body: bytes) -> list[Amqp]:
    try:
        said: Any = read(body, 0, budget=Budget(VALUES_MAX))[0].value[1]
        if said.type != "list":
            raise ValueError("it has no fields")
    except (ValueError, TypeError) as error:
        raise FrameFault("amqp:decode-error", f"a frame cannot be read: {error}"[:500]) from None
    fields: list[Amqp] = said.value
    return fields


def _text(fields: list[Amqp], at: int) -> str:
    return fields[at].value if at < len(fields) and fields[at].type == "string" else ""


def _fault_of(fields: list[Amqp]) -> JMSError | None:
    """Why an attach is refused for one of its texts: the engine would end it at a NUL."""
    for terminus in fields[5:7]:
        said: Any = terminus.value[1] if terminus.type == "described" else terminus
        address = _text(said.value, 0) if said.type == "list" else ""
        if "\0" in address:
            try:
                parse_address(address, None)
            except JMSError as error:
                return error
    if _has_nul(fields):
        text = f"link {fields[0].value!r:.200}: a text of its attach has a NUL; write it without"
        return InvalidSettingError(text, setting="link", value=fields[0].value)
    return None


def _has_nul(said: Any) -> bool:
    if isinstance(said, Amqp):
        return _has_nul(said.value) if said.type != "binary" else False
    if isinstance(said, list | tuple):
        return any(map(_has_nul, said))
    return isinstance(said, str) and "\0" in said
