"""SCRAM-SHA-256 (RFC 5802, 7677): verifiers of passwords, and the server's side of its exchange."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Final, Self

from jbm_kafka.core.jms_errors import InvalidSettingError

MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 8_192
_MOST_ITERATIONS: Final = 1_000_000
_HASH_BYTES: Final = 32
_NONCE_BYTES: Final = 18
_SECRET: Final = secrets.token_bytes(_HASH_BYTES)
"""The secret of this process."""


class ScramFault(ValueError):
    """Raised where the client's word is no step of the exchange, or its proof is wrong."""

    guessed: str | None = None
    """The user whose password the client does not know."""


def wrong_password(user: str) -> ScramFault:
    """Nobody learns from it which users there are."""
    fault = ScramFault(f"user {user!a:.80}: there is none of this name, or the password is wrong")
    fault.guessed = user
    return fault


@dataclass(frozen=True, slots=True)
class Verifier:
    """Proves that somebody knows a password, and does not tell it. Its text is the one that PostgreSQL has."""

    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of_password(cls, password: str) -> Self:
        """A new one, with a salt of its own."""
        return cls._made(password, ITERATIONS, secrets.token_bytes(16))

    @classmethod
    def of_nobody(cls, name: str) -> Self:
        """The same one for the same name in this process; no password fits. So nobody learns which users there are."""
        salt = hmac.digest(_SECRET, name.encode(), "sha256")[:16]
        return cls(ITERATIONS, salt, secrets.token_bytes(_HASH_BYTES), secrets.token_bytes(_HASH_BYTES))

    @classmethod
    def _made(cls, password: str, iterations: int, salt: bytes) -> Self:
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
        stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
        return cls(iterations, salt, stored, hmac.digest(salted, b"Server Key", "sha256"))

    @classmethod
    def of_text(cls, setting: str, text: object) -> Self:
        """Return what `str` gave.

        Raises:
            InvalidSettingError: it is none; the text names the setting.
        """
        try:
            mechanism, numbers, keys = str(text).split("$")
            iterations, salt = numbers.split(":")
            stored, server = (b64decode(each, validate=True) for each in keys.split(":"))
            made = cls(int(iterations), b64decode(salt, validate=True), stored, server)
            lengths = {len(made.stored_key), len(made.server_key)}
            is_one = mechanism == MECHANISM and 1 <= made.iterations <= _MOST_ITERATIONS and lengths == {_HASH_BYTES}
        except ValueError:
            is_one = False
        if not is_one:
            # Not what was given: it may be the password itself.
            rule = f"write the {MECHANISM}$... that `jbm-kafka sidecar user NAME` prints"
            raise InvalidSettingError(f"{setting} is no such line; {rule}", setting=setting)
        return made

    def __str__(self) -> str:
        salt, stored, server = (_text(each) for each in (self.salt, self.stored_key, self.server_key))
        return f"{MECHANISM}${self.iterations}:{salt}${stored}:{server}"

    def fits(self, password: str) -> bool:
        """Return True if it is the password's; takes some milliseconds, as it must."""
        made = self._made(password, self.iterations, self.salt)
        return hmac.compare_digest(made.stored_key, self.stored_key)


class ScramServer:
    """One exchange, from the client's first message on."""

    def __init__(self, verifiers: dict[str, Verifier]) -> None:
        self._verifiers = verifiers
        self._verifier: Verifier
        self._user = ""
        self._nonce = ""
        self._binding = ""
        self._signed = ""

    def challenge(self, first: bytes) -> bytes:
        """Return what the client must answer. Raises ScramFault."""
        text = _decoded(first)
        binding, authorise, *bare = text.split(",", 2)
        if binding not in ("n", "y") or not bare:
            raise ScramFault("its first message asks for channel binding, which is not offered, or is none")
        fields = _fields(bare[0])
        if not fields.get("n") or not fields.get("r") or "m" in fields:
            raise ScramFault("its first message names no user or has no nonce")
        self._user = fields["n"].replace("=2C", ",").replace("=3D", "=")
        if authorise not in ("", f"a={fields['n']}"):
            raise ScramFault("it wants to be another user than the one it proves to be")
        self._verifier = self._verifiers.get(self._user) or Verifier.of_nobody(self._user)
        self._nonce = fields["r"] + _text(secrets.token_bytes(_NONCE_BYTES))
        self._binding = _text(f"{binding},{authorise},".encode())
        answer = f"r={self._nonce},s={_text(self._verifier.salt)},i={self._verifier.iterations}"
        self._signed = f"{bare[0]},{answer}"
        return answer.encode()

    def outcome(self, final: bytes) -> tuple[str, bytes]:
        """The user, and what proves to the client that this server has its verifier. Raises ScramFault."""
        text = _decoded(final)
        without_proof, _, proof = text.rpartition(",p=")
        fields = _fields(without_proof)
        if fields.get("r") != self._nonce or fields.get("c") != self._binding:
            raise ScramFault("its final message belongs to another exchange")
        signed = f"{self._signed},{without_proof}".encode()
        verifier = self._verifier
        signature = hmac.digest(verifier.stored_key, signed, "sha256")
        try:
            given = b64decode(proof, validate=True)
        except ValueError:
            given = b""
        key = bytes(a ^ b for a, b in zip(given, signature, strict=False))
        if len(given) != _HASH_BYTES or not hmac.compare_digest(hashlib.sha256(key).digest(), verifier.stored_key):
            raise wrong_password(self._user)
        return self._user, b"v=" + b64encode(hmac.digest(verifier.server_key, signed, "sha256"))


def _decoded(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramFault("a message of it is no UTF-8") from None


def _fields(text: str) -> dict[str, str]:
    return {name: value for name, equals, value in (each.partition("=") for each in text.split(",")) if equals}


def _text(value: bytes) -> str:
    return b64encode(value).decode()
