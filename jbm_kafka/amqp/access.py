"""Who may come in, and what he may do."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal
from uuid import UUID

from jbm_kafka.amqp.scram import MECHANISM, Verifier
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import JMSSecurityError
from jbm_kafka.core.settings.address_pattern import matches

Action = Literal["send", "receive", "browse", "create", "forward", "look", "operate"]
"""The last two are of the console."""
ACTIONS: Final[tuple[Action, ...]] = ("send", "receive", "browse", "create", "forward", "look", "operate")
ANONYMOUS: Final = "anonymous"
"""The user that is nobody in particular."""
_SECRET: Final = secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class User:
    """Somebody. Without a verifier he comes in by his certificate, or is "anonymous"."""

    verifier: Verifier | None = None
    rights: Mapping[Action, Sequence[str]] = field(default_factory=dict)
    """Patterns of names of destinations. Without "create" he may create what he may send to."""
    client_ids: Sequence[str] | None = None
    """The client ids that he may have, `*` for any text; None: any that no other user's patterns name."""


class Access:
    """The users. Temporary destinations are for whoever is in, and whoever knows their names: those are answers."""

    def __init__(self, users: Mapping[str, User], *, plain_without_tls: bool = False) -> None:
        self.users = users
        self.verifiers = {name: user.verifier for name, user in users.items() if user.verifier is not None}
        self._plain_without_tls = plain_without_tls
        self._proved: dict[str, bytes] = {}

    def mechanisms(self, *, is_encrypted: bool, certificate_user: str | None) -> list[str]:
        """How a client may say who it is, the safest first."""
        found = ["EXTERNAL"] if certificate_user in self.users else []
        if self.verifiers:
            found.append(MECHANISM)
            if is_encrypted or self._plain_without_tls:
                found.append("PLAIN")
        return [*found, "ANONYMOUS"] if ANONYMOUS in self.users else found

    def was_proved(self, user: str, password: str) -> bool:
        """It is the password that the user has proved before, which is known at once."""
        return hmac.compare_digest(self._proved.get(user, b""), _proof(user, password))

    def knows(self, user: str, password: str) -> bool:
        """Return True if it is the user's password. It takes some milliseconds, as it must; on any thread."""
        is_right = (self.verifiers.get(user) or Verifier.of_nobody(user)).fits(password)
        if is_right:
            self._proved[user] = _proof(user, password)
        return is_right

    def is_sidecar(self, user: str) -> bool:
        """Return True if it is the user that the other sidecars are."""
        return bool(self.users[user].rights.get("forward"))

    def check_client_id(self, user: str, client_id: str) -> None:
        """Raises JMSSecurityError when the user may not have it; a UUID, which libraries make up, is anybody's."""
        allowed = self.users[user].client_ids
        if _is_uuid(client_id) or any(_fits(each, client_id) for each in allowed or ()):
            return
        instead = f"use one of {', '.join(allowed or ()) or 'none'}"
        if allowed is None:  # any that is nobody's; who may have all has none for himself
            taken = [pattern for each in self.users.values() for pattern in each.client_ids or () if pattern != "*"]
            if not any(_fits(each, client_id) for each in taken):
                return
            instead = "it is another user's; use another one"
        raise JMSSecurityError(
            f"client id {client_id!r}: user {user!r} may not have it; {instead}, or add it to client_ids of "
            f"[users.{user}] in the sidecar's file",
            user=user,
        )

    def authorise(self, user: str, action: Action, destination: Destination) -> None:
        """Raises JMSSecurityError when the user may not."""
        name, rights = destination.name, self.users[user].rights
        patterns = rights.get("send", ()) if action == "create" and action not in rights else rights.get(action, ())
        if destination.is_temporary or any(matches(each, name) for each in patterns):
            return
        remedy = f"add a pattern of this name to {action} of [users.{user}] in the sidecar's file"
        may_not = f"user {user!r} may not {action} there"
        if action == "create":
            may_not = f"it does not exist, and user {user!r} may not create it"
        raise JMSSecurityError(f"{destination}: {may_not}; {remedy}", user=user)


def _is_uuid(client_id: str) -> bool:
    try:
        return str(UUID(client_id)) == client_id
    except ValueError:
        return False


def _fits(pattern: str, client_id: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), client_id, re.DOTALL) is not None


def _proof(user: str, password: str) -> bytes:
    return hmac.digest(_SECRET, f"{user}\0{password}".encode(), "sha256")


OPEN: Final = Access({ANONYMOUS: User(rights={each: ["#"] for each in ACTIONS if each != "forward"})})
"""Everybody may come in, as nobody in particular, and do everything; but nobody is another sidecar."""
