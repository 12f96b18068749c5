"""Signed cookies of sessions, and the tokens that forms bring along."""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Final

NAME: Final = "jbm_console"
LASTS_S: Final = 12 * 60 * 60
REVOKED_MAX: Final = 10_000
_TEXT_MAX: Final = 2_000


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """The contents of a cookie."""

    id: str
    user: str
    """Empty: nobody has logged in by it."""
    until_s: int
    proof: str = ""
    """The mark of the password by which he came in; empty: nobody has."""


class SessionCookies:
    """Makes and reads them. Any thread. Nothing is kept but those that were ended before their time."""

    def __init__(self, secret: bytes) -> None:
        """`secret`: whoever has it makes sessions of anybody."""
        self._secret = secret or secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._revoked: dict[str, int] = {}

    def begin(self, user: str, now_s: float, verifier: object = None) -> BrowserSession:
        """A new one, whose id nobody has known before. `verifier`: of the user's password."""
        proof = self._mark(user, verifier) if user else ""
        return BrowserSession(secrets.token_urlsafe(16), user, int(now_s) + LASTS_S, proof)

    def is_of(self, session: BrowserSession, user: str, verifier: object) -> bool:
        """Return True if this user has logged in by it, with the password that he still has."""
        is_proved = hmac.compare_digest(session.proof.encode(), self._mark(user, verifier).encode())
        return session.user == user and is_proved

    def text_of(self, session: BrowserSession) -> str:
        """The cookie's value."""
        payload = _encoded(json.dumps([session.id, session.user, session.until_s, session.proof]).encode())
        return f"{payload}.{self._signature('cookie', payload)}"

    def read(self, text: str, now_s: float) -> BrowserSession | None:
        """Return what the cookie says; None: it is not one of ours, or its time is over."""
        payload, _, signature = text[:_TEXT_MAX].partition(".")
        if not hmac.compare_digest(signature.encode(), self._signature("cookie", payload).encode()):
            return None
        session = BrowserSession(*json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4))))
        with self._lock:
            is_revoked = session.id in self._revoked
        return None if is_revoked or session.until_s <= now_s else session

    def end(self, session: BrowserSession, now_s: float) -> None:
        """Whoever still has its cookie has nothing."""
        with self._lock:
            self._revoked = {each: until for each, until in self._revoked.items() if until > now_s}
            self._revoked[session.id] = session.until_s
            while len(self._revoked) > REVOKED_MAX:
                del self._revoked[next(iter(self._revoked))]

    def form_token(self, session: BrowserSession) -> str:
        """Return what a form of this session brings along; no other page can know it."""
        return self._signature("form", session.id)

    def fits(self, session: BrowserSession, token: str) -> bool:
        """Return True if it is that."""
        return hmac.compare_digest(self.form_token(session).encode(), token.encode())

    def _mark(self, user: str, verifier: object) -> str:
        return self._signature("password", f"{user}\0{verifier}")

    def _signature(self, purpose: str, text: str) -> str:
        return _encoded(hmac.digest(self._secret, f"{purpose}\0{text}".encode(), "sha256"))


def _encoded(value: bytes) -> str:
    return urlsafe_b64encode(value).decode().rstrip("=")
