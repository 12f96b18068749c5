"""The client's side of SASL: PLAIN, SCRAM-SHA-256, EXTERNAL and ANONYMOUS; bytes in, bytes out."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode

from jbm_kafka.amqp_wire.sasl_frames import (
    CHALLENGE,
    HEADER,
    INIT,
    MECHANISMS,
    OUTCOME,
    RESPONSE,
    SCRAM,
    SaslFrames,
    field,
    framed,
)
from jbm_kafka.codec.amqp.values import Amqp, binary, symbol
from jbm_kafka.core.jms_errors import ConnectionFailedError, JMSSecurityError

_NONCE_BYTES = 18
_ITERATIONS_MAX = 10_000_000
"""Some seconds of work; a server that wants more would stop the client."""


class ScramClient:
    """One exchange of RFC 5802."""

    def __init__(self, user: str, password: str) -> None:
        self._password = password
        self._nonce = b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._proof_of_server = b""

    @property
    def first(self) -> bytes:
        """Return the first message."""
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Return the answer to the challenge. Raises ValueError: it is none."""
        text = challenge.decode()
        fields = dict(part.partition("=")[::2] for part in text.split(","))
        if not fields.get("r", "").startswith(self._nonce):
            raise ValueError("the server's challenge belongs to another exchange")
        salt, iterations = b64decode(fields["s"]), int(fields["i"])
        if not 1 <= iterations <= _ITERATIONS_MAX:
            raise ValueError(f"it has {iterations} iterations, and from 1 to {_ITERATIONS_MAX} can be")
        salted = hashlib.pbkdf2_hmac("sha256", self._password.encode(), salt, iterations)
        key = hmac.digest(salted, b"Client Key", "sha256")
        without_proof = f"c=biws,r={fields['r']}"
        signed = f"{self._bare},{text},{without_proof}".encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        self._proof_of_server = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def is_proof(self, said: bytes) -> bool:
        """Return True if the server has the verifier of this password."""
        return hmac.compare_digest(said, b"v=" + b64encode(self._proof_of_server))


class SaslClient:
    """One connection's. is_done: the client is in. rest: what came behind."""

    def __init__(
        self, at: str, *, user: str, password: str, mechanism: str, is_encrypted: bool, has_certificate: bool
    ) -> None:
        """`at`: host and port; `mechanism`: the one that is wanted; "": the best of those offered that fits."""
        self.is_done = False
        self.rest = b""
        self._server = f"the AMQP server at {at}"
        self._user = user
        self._password = password
        self._wanted = mechanism
        self._is_encrypted = is_encrypted
        self._has_certificate = has_certificate
        self._frames = SaslFrames()
        self._has_header = False
        self._scram: ScramClient | None = None
        self._is_proven = True

    def begin(self) -> bytes:
        """Return the first bytes to send."""
        return HEADER

    def receive(self, data: bytes) -> bytes:
        """Return the bytes to send now.

        Raises:
            JMSSecurityError: the server does not let this client in.
            ValueError: these are no SASL frames.
        """
        frames = self._frames
        frames.waiting += data
        if not self._has_header:
            header = frames.take_header()
            if not header:
                return b""
            if header != HEADER:
                raise ConnectionFailedError("the server speaks AMQP, but not SASL as AMQP 1.0 has it")
            self._has_header = True
        answer = b""
        while not self.is_done and (frame := frames.take()) is not None:
            answer += self._answer(*frame)
        if self.is_done:
            self.rest, frames.waiting = frames.waiting, b""
        return answer

    def _answer(self, code: int, fields: list[Amqp]) -> bytes:
        if code == MECHANISMS:
            return self._init(_symbols(fields))
        said: bytes | None
        if code == CHALLENGE:
            said = field(fields, 0, "binary") or b""
            return framed(RESPONSE, binary(self._response(said)))
        if code != OUTCOME:
            raise ValueError(f"SASL frame {code:#x} does not belong here")
        if field(fields, 0, "ubyte") != 0:
            raise JMSSecurityError(
                f"{self._server} does not let {self._who()} in: there is no such user, or the password is wrong"
            )
        said = field(fields, 1, "binary")
        if self._scram is not None and said:
            self._is_proven = self._scram.is_proof(said)
        if not self._is_proven:
            raise JMSSecurityError(f"{self._server} did not prove that it knows the user's password")
        self.is_done = True
        return b""

    def _init(self, offered: list[str]) -> bytes:
        chosen = self._choice(offered)
        if chosen == SCRAM:
            self._scram, self._is_proven = ScramClient(self._user, self._password), False
            said = self._scram.first
        elif chosen == "PLAIN":
            said = f"\0{self._user}\0{self._password}".encode()
        else:
            said = b"" if chosen == "EXTERNAL" else b"jbm-kafka"
        return framed(INIT, symbol(chosen), binary(said))

    def _choice(self, offered: list[str]) -> str:
        fitting = [self._wanted] if self._wanted else self._fitting()
        for each in fitting:
            if each in offered:
                return each
        remedy = "give sasl.username and sasl.password, or create_connection(username, password)"
        if self._user and "PLAIN" in offered:
            remedy = "use amqps://, or allow the password in the clear with kafka={'sasl.mechanism': 'PLAIN'}"
        raise JMSSecurityError(
            f"{self._server} offers {', '.join(offered) or 'nothing'}, and {self._who()} can use "
            f"{', '.join(fitting)}; {remedy}"
        )

    def _fitting(self) -> list[str]:
        if self._user:
            return [SCRAM, "PLAIN"] if self._is_encrypted else [SCRAM]
        return ["EXTERNAL", "ANONYMOUS"] if self._has_certificate else ["ANONYMOUS"]

    def _response(self, challenge: bytes) -> bytes:
        if self._scram is None:
            return b""
        if challenge.startswith(b"v="):  # some servers prove themselves so, before the outcome
            self._is_proven = self._scram.is_proof(challenge)
            return b""
        try:
            return self._scram.final(challenge)
        except (KeyError, ValueError) as fault:
            raise JMSSecurityError(f"the challenge of {self._server} is none of {SCRAM}: {fault}") from None

    def _who(self) -> str:
        return f"user {self._user!r}" if self._user else "a client without user"


def _symbols(fields: list[Amqp]) -> list[str]:
    held = fields[0] if fields else None
    if held is None or held.type == "null":
        return []
    values = held.value if isinstance(held.value, list) else [held]
    return [str(getattr(each, "value", each)) for each in values]
