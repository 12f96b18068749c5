"""How a sidecar proves to another who it is, and has that one prove the same: the client's side of SCRAM-SHA-256."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode

from jbm_kafka.amqp.sasl import CHALLENGE, HEADER, INIT, MECHANISMS, OUTCOME, RESPONSE, field_of, framed, next_frame
from jbm_kafka.amqp.scram import MECHANISM, MOST_ITERATIONS
from jbm_kafka.codec.amqp.values import Amqp, binary, symbol

_PREFIX = b"n,,"


class SaslClient:
    """One exchange: bytes in, bytes out. is_done: both have proved it; `rest` came behind."""

    def __init__(self, user: str, password: str) -> None:
        self.is_done = False
        self.rest = b""
        self._password = password.encode()
        self._nonce = b64encode(secrets.token_bytes(18)).decode()
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={self._nonce}"
        self._server_signature = b""
        self._has_header = False
        self._waiting = b""

    def begin(self) -> bytes:
        """What is sent first."""
        return HEADER

    def receive(self, data: bytes) -> bytes:
        """What is sent next.

        Raises:
            ValueError: it is no sidecar that knows this user and password; the text says what it said.
        """
        self._waiting += data
        if not self._has_header:
            if len(self._waiting) < len(HEADER):
                return b""
            if not self._waiting.startswith(HEADER):
                raise ValueError("it does not ask who connects")
            self._has_header, self._waiting = True, self._waiting[len(HEADER) :]
        answer = b""
        while not self.is_done:
            found, self._waiting = next_frame(self._waiting)
            if found is None:
                break
            answer += self._answer(*found)
        if self.is_done:
            self.rest, self._waiting = self._waiting, b""
        return answer

    def _answer(self, code: int, fields: list[Amqp]) -> bytes:
        if code == MECHANISMS:
            offered = fields[0].value if fields else None
            names = [each.value for each in offered] if isinstance(offered, list) else [offered]
            if MECHANISM not in names:
                raise ValueError(f"it does not offer {MECHANISM}, but {names}")
            return framed(INIT, symbol(MECHANISM), binary(_PREFIX + self._first.encode()))
        if code == CHALLENGE:
            said = field_of(fields, 0, "binary") or b""
            return framed(RESPONSE, binary(self._final(said.decode())))
        if code == OUTCOME:
            if field_of(fields, 0, "ubyte") != 0:
                raise ValueError("it says that the user or the password is wrong")
            proof = field_of(fields, 1, "binary") or b""
            expected = b"v=" + b64encode(self._server_signature)
            if not self._server_signature or not hmac.compare_digest(proof, expected):
                raise ValueError("it does not know the password itself")
            self.is_done = True
            return b""
        raise ValueError(f"SASL frame {code:#x} does not belong here")

    def _final(self, challenge: str) -> bytes:
        fields = dict(each.partition("=")[::2] for each in challenge.split(","))
        nonce, iterations = fields.get("r", ""), int(fields.get("i", "0"))
        if not nonce.startswith(self._nonce) or not 1 <= iterations <= MOST_ITERATIONS:
            raise ValueError("its challenge belongs to another exchange")
        salted = hashlib.pbkdf2_hmac("sha256", self._password, b64decode(fields.get("s", "")), iterations)
        bare = f"c={b64encode(_PREFIX).decode()},r={nonce}"
        signed = f"{self._first},{challenge},{bare}".encode()
        key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), signed, "sha256")
        proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
        return f"{bare},p={b64encode(proof).decode()}".encode()
