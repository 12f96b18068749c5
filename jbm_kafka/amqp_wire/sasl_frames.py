"""The frames in which client and server prove who they are (part 5 of AMQP 1.0)."""

from __future__ import annotations

import struct
from typing import Any, Final

from jbm_kafka.codec.amqp.values import Amqp, list_of, read

HEADER: Final = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
FRAME_BYTES: Final = 4_096
"""The specification allows 512; tokens of some clients are longer."""
MECHANISMS, INIT, CHALLENGE, RESPONSE, OUTCOME = 0x40, 0x41, 0x42, 0x43, 0x44
SCRAM: Final = "SCRAM-SHA-256"


class SaslFrames:
    """The frames that came and were not taken yet."""

    def __init__(self) -> None:
        self.waiting = b""
        """Bytes that were not looked at."""

    def take_header(self) -> bytes:
        """The first bytes, which say the protocol; b"" while they are not all there.

        Raises:
            ValueError: the other side speaks no AMQP.
        """
        if not HEADER.startswith(self.waiting[:4]):
            raise ValueError("it begins with no AMQP header")
        if len(self.waiting) < len(HEADER):
            return b""
        header, self.waiting = self.waiting[: len(HEADER)], self.waiting[len(HEADER) :]
        return header

    def take(self) -> tuple[int, list[Amqp]] | None:
        """The next frame's code and fields; None while it is not all there. Raises ValueError: it is none."""
        if len(self.waiting) < 8:
            return None
        size, offset, kind = struct.unpack_from(">IBB", self.waiting)
        if not 8 <= size <= FRAME_BYTES or not 8 <= offset * 4 <= size or kind != 1:
            raise ValueError(f"a frame of {size} bytes and of kind {kind} is no SASL frame")
        if len(self.waiting) < size:
            return None
        body, self.waiting = self.waiting[offset * 4 : size], self.waiting[size:]
        held, _ = read(body, 0)
        if held.type != "described":
            raise ValueError("a SASL frame says nothing that is known")
        code, fields = held.value
        if code.type != "ulong" or fields.type != "list":
            raise ValueError("a SASL frame says nothing that is known")
        return code.value, fields.value


def framed(code: int, *fields: bytes) -> bytes:
    """A frame."""
    body = b"\x00\x53" + bytes([code]) + list_of(fields)
    return struct.pack(">IBBH", len(body) + 8, 2, 1, 0) + body


def field(fields: list[Amqp], at: int, kind: str) -> Any:
    """A field's value; None: it is null or left out. Raises ValueError: it is of another kind."""
    held = fields[at] if at < len(fields) else None
    if held is None or held.type == "null":
        return None
    if held.type != kind:
        raise ValueError(f"a {held.type} stands where a {kind} should")
    return held.value
