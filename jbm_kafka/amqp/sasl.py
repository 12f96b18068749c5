"""A connection's first frames, in which the client says who it is (part 5 of AMQP 1.0): bytes in, bytes out."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial
from typing import Final

from jbm_kafka.amqp.access import ANONYMOUS, Access
from jbm_kafka.amqp.scram import MECHANISM, ScramFault, ScramServer, wrong_password
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

STEPS: Final = 8
WAITING_BYTES: Final = 2**16
"""The bytes that a client may send on while its password is checked."""
_OK, _REFUSED = b"\x50\x00", b"\x50\x01"


class SaslServer:
    """One connection's authentication.

    is_done: the outcome was told. user: who it is; None: nobody that may come in. rest: what came behind.
    check: says whether a password is right, and takes milliseconds; its answer is for `checked`. None: there is none.
    fault: why it may not come in. guessed: the user whose password it did not know; None: it is not that.
    """

    def __init__(self, access: Access, *, is_encrypted: bool, certificate_user: str | None) -> None:
        self.is_done = False
        self.user: str | None = None
        self.rest = b""
        self.check: Callable[[], bool] | None = None
        self.fault = ""
        self.guessed: str | None = None
        self._access = access
        self._offered = access.mechanisms(is_encrypted=is_encrypted, certificate_user=certificate_user)
        self._certificate_user = certificate_user
        self._frames = SaslFrames()
        self._has_header = False
        self._mechanism = ""
        self._scram: ScramServer | None = None
        self._steps = 0
        self._wanted = ""
        """The user that PLAIN named."""

    def receive(self, data: bytes) -> bytes:
        """The bytes to send now. Raises ValueError when these are no SASL frames."""
        frames = self._frames
        frames.waiting += data
        if self.check is not None:
            if len(frames.waiting) > WAITING_BYTES:
                raise ValueError(f"{len(frames.waiting)} bytes came while a password was checked")
            return b""
        answer = b""
        if not self._has_header:
            header = frames.take_header()
            if not header:
                return b""
            answer = self._begin(header)
        while not self.is_done and self.check is None and (frame := frames.take()) is not None:
            answer += self._answer(*frame)
        return self._ended(answer)

    def checked(self, is_right: bool) -> bytes:
        """The bytes to send now that the password was checked."""
        self.check = None
        return self._ended(self._let_in(self._wanted) if is_right else self._refused(wrong_password(self._wanted)))

    def _ended(self, answer: bytes) -> bytes:
        if self.is_done:
            self.rest, self._frames.waiting = self._frames.waiting, b""
        return answer

    def _begin(self, header: bytes) -> bytes:
        if header != HEADER:
            # Another layer, or another version: the answer says which one is served.
            self.is_done = True
            self.fault = "it does not say who it is"
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
            return self._refused(fault)

    def _refused(self, fault: ScramFault) -> bytes:
        self.is_done = True
        self.fault, self.guessed = f"by {self._mechanism}: {fault}", fault.guessed
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
            return self._by_password(said)
        assert mechanism == MECHANISM, mechanism
        if self._scram is None:
            self._scram = ScramServer(self._access.verifiers)
            return framed(CHALLENGE, binary(self._scram.challenge(said)))
        user, proof = self._scram.outcome(said)
        return self._let_in(user, binary(proof))

    def _by_password(self, said: bytes) -> bytes:
        try:
            wanted, user, password = said.decode().split("\0")
        except ValueError:
            raise ScramFault("a PLAIN response is two names and a password, with a NUL between them") from None
        self._wanted = user
        if wanted not in ("", user):
            raise wrong_password(user)
        if self._access.was_proved(user, password):
            return self._let_in(user)
        self.check = partial(self._access.knows, user, password)
        return b""

    def _let_in(self, user: str, *more: bytes) -> bytes:
        self.is_done, self.user = True, user
        return framed(OUTCOME, _OK, *more)
