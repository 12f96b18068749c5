"""A connection's first frames, in which the client says who it is (part 5 of AMQP 1.0): bytes in, bytes out."""

from __future__ import annotations

import logging
import struct
from typing import Any, Final

from jbm_kafka.amqp.access import ANONYMOUS, Access
from jbm_kafka.amqp.scram import MECHANISM, ScramFault, ScramServer
from jbm_kafka.codec.amqp.values import Amqp, binary, list_of, read

log = logging.getLogger(__name__)

HEADER: Final = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER: Final = b"AMQP\x00\x01\x00\x00"
FRAME_BYTES: Final = 4_096
"""The specification allows 512; tokens of some clients are longer."""
STEPS: Final = 8
MECHANISMS, INIT, CHALLENGE, RESPONSE, OUTCOME = 0x40, 0x41, 0x42, 0x43, 0x44
_OK, _REFUSED = b"\x50\x00", b"\x50\x01"


class SaslServer:
    """One connection's authentication.

    is_done: the outcome was told. user: who it is; None: nobody that may come in. rest: what came behind.
    """

    def __init__(self, access: Access, *, is_encrypted: bool, certificate_user: str | None) -> None:
        self.is_done = False
        self.user: str | None = None
        self.rest = b""
        self._access = access
        self._offered = access.mechanisms(is_encrypted=is_encrypted, certificate_user=certificate_user)
        self._certificate_user = certificate_user
        self._waiting = b""
        self._has_header = False
        self._mechanism = ""
        self._scram: ScramServer | None = None
        self._steps = 0

    def receive(self, data: bytes) -> bytes:
        """The bytes to send now. Raises ValueError when these are no SASL frames."""
        self._waiting += data
        answer = b""
        if not self._has_header:
            if not HEADER.startswith(self._waiting[:4]):
                raise ValueError("it begins with no AMQP header")
            if len(self._waiting) < len(HEADER):
                return b""
            answer = self._begin()
        while not self.is_done:
            found, self._waiting = next_frame(self._waiting)
            if found is None:
                break
            answer += self._answer(*found)
        if self.is_done:
            self.rest, self._waiting = self._waiting, b""
        return answer

    def _begin(self) -> bytes:
        header = self._waiting[: len(HEADER)]
        if header != HEADER:
            # Another layer, or another version: the answer says which one is served.
            self.is_done = True
            if header == AMQP_HEADER and "ANONYMOUS" in self._offered:
                self.user = ANONYMOUS
                return b""
            return HEADER
        self._has_header = True
        self._waiting = self._waiting[len(HEADER) :]
        names = [each.encode() for each in self._offered]
        items = b"".join(bytes([len(each)]) + each for each in names)
        array = struct.pack(">BIIB", 0xF0, len(items) + 5, len(names), 0xA3) + items
        return HEADER + framed(MECHANISMS, array)

    def _answer(self, code: int, fields: list[Amqp]) -> bytes:
        self._steps += 1
        if self._steps > STEPS or code != (RESPONSE if self._mechanism else INIT):
            raise ValueError(f"SASL frame {code:#x} does not belong here")
        if code == INIT:
            self._mechanism = field_of(fields, 0, "symbol") or "none"
            said: bytes | None = field_of(fields, 1, "binary")
        else:
            said = field_of(fields, 0, "binary") or b""
        try:
            return self._step(said)
        except ScramFault as fault:
            log.warning("an AMQP client was not let in by %s: %s", self._mechanism, fault)
            self.is_done = True
            return framed(OUTCOME, _REFUSED)

    def _step(self, said: bytes | None) -> bytes:
        mechanism = self._mechanism
        if mechanism not in self._offered:
            raise ScramFault(f"offered were {', '.join(self._offered) or 'none'}")
        if mechanism == "ANONYMOUS":
            return self._let_in(ANONYMOUS)
        if said is None:
            return framed(CHALLENGE, binary(b""))
        if mechanism == "EXTERNAL":
            user = self._certificate_user
            if user is None or said not in (b"", user.encode()):
                raise ScramFault(f"the certificate is of {user!a}, and not of whom the client wants to be")
            return self._let_in(user)
        if mechanism == "PLAIN":
            return self._let_in(self._by_password(said))
        assert mechanism == MECHANISM, mechanism
        if self._scram is None:
            self._scram = ScramServer(self._access.verifiers)
            return framed(CHALLENGE, binary(self._scram.challenge(said)))
        user, proof = self._scram.outcome(said)
        return self._let_in(user, binary(proof))

    def _by_password(self, said: bytes) -> str:
        try:
            wanted, user, password = said.decode().split("\0")
        except ValueError:
            raise ScramFault("a PLAIN response is two names and a password, with a NUL between them") from None
        if wanted not in ("", user) or not self._access.knows(user, password):
            raise ScramFault(f"user {user!a}: there is none of this name, or the password is wrong")
        return user

    def _let_in(self, user: str, *more: bytes) -> bytes:
        self.is_done, self.user = True, user
        return framed(OUTCOME, _OK, *more)


def next_frame(data: bytes) -> tuple[tuple[int, list[Amqp]] | None, bytes]:
    """The first SASL frame, by its kind and fields, and what is behind it; None: it is not whole.

    Raises:
        ValueError: it is no SASL frame.
    """
    if len(data) < 8:
        return None, data
    size, offset, kind = struct.unpack_from(">IBB", data)
    if not 8 <= size <= FRAME_BYTES or not 8 <= offset * 4 <= size or kind != 1:
        raise ValueError(f"a frame of {size} bytes and of kind {kind} is no SASL frame")
    if len(data) < size:
        return None, data
    held, _ = read(data[offset * 4 : size], 0)
    if held.type != "described":
        raise ValueError("a SASL frame says nothing that is known")
    code, fields = held.value
    if code.type != "ulong" or fields.type != "list":
        raise ValueError("a SASL frame says nothing that is known")
    return (code.value, fields.value), data[size:]


def framed(code: int, *fields: bytes) -> bytes:
    """A SASL frame of this kind."""
    body = b"\x00\x53" + bytes([code]) + list_of(fields)
    return struct.pack(">IBBH", len(body) + 8, 2, 1, 0) + body


def field_of(fields: list[Amqp], at: int, kind: str) -> Any:
    """The value of one field of it; None: it says nothing. Raises ValueError when it is of another type."""
    held = fields[at] if at < len(fields) else None
    if held is None or held.type == "null":
        return None
    if held.type != kind:
        raise ValueError(f"a {held.type} stands where a {kind} should")
    return held.value
