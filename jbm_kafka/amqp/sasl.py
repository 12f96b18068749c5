"""A connection's first frames, in which the client says who it is (part 5 of AMQP 1.0): bytes in, bytes out."""

from __future__ import annotations

import logging
import struct
from typing import Final

from jbm_kafka.amqp.access import ANONYMOUS, Access
from jbm_kafka.amqp.scram import MECHANISM, ScramFault, ScramServer
from jbm_kafka.amqp_wire.sasl_frames import (
    AMQP_HEADER,
    CHALLENGE,
    HEADER,
    INIT,
    MECHANISMS,
    OUTCOME,
    RESPONSE,
    SaslFrames,
    field,
    framed,
)
from jbm_kafka.codec.amqp.values import Amqp, binary

log = logging.getLogger(__name__)

STEPS: Final = 8
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
        self._frames = SaslFrames()
        self._has_header = False
        self._mechanism = ""
        self._scram: ScramServer | None = None
        self._steps = 0

    def receive(self, data: bytes) -> bytes:
        """The bytes to send now. Raises ValueError when these are no SASL frames."""
        frames = self._frames
        frames.waiting += data
        answer = b""
        if not self._has_header:
            header = frames.take_header()
            if not header:
                return b""
            answer = self._begin(header)
        while not self.is_done and (frame := frames.take()) is not None:
            answer += self._answer(*frame)
        if self.is_done:
            self.rest, frames.waiting = frames.waiting, b""
        return answer

    def _begin(self, header: bytes) -> bytes:
        if header != HEADER:
            # Another layer, or another version: the answer says which one is served.
            self.is_done = True
            if header == AMQP_HEADER and "ANONYMOUS" in self._offered:
                self.user = ANONYMOUS
                self._frames.waiting = header + self._frames.waiting
                return b""
            return HEADER
        self._has_header = True
        names = [each.encode() for each in self._offered]
        items = b"".join(bytes([len(each)]) + each for each in names)
        array = struct.pack(">BIIB", 0xF0, len(items) + 5, len(names), 0xA3) + items
        return HEADER + framed(MECHANISMS, array)

    def _answer(self, code: int, fields: list[Amqp]) -> bytes:
        self._steps += 1
        if self._steps > STEPS or code != (RESPONSE if self._mechanism else INIT):
            raise ValueError(f"SASL frame {code:#x} does not belong here")
        if code == INIT:
            self._mechanism = field(fields, 0, "symbol") or "none"
            said: bytes | None = field(fields, 1, "binary")
        else:
            said = field(fields, 0, "binary") or b""
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
