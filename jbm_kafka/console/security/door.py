"""Who comes in, and as whom."""

from __future__ import annotations

import hashlib
import hmac
from ipaddress import ip_address
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

from jbm_kafka.amqp.access import User
from jbm_kafka.console.frame.console_settings import ConsoleSettings
from jbm_kafka.console.frame.viewer import Viewer

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
"""The headers in which proxies say for whom they speak."""


def user_viewer(name: str, user: User, *, can_log_out: bool, csrf: str) -> Viewer:
    """The user with his rights."""
    rights = user.rights
    return Viewer(name, tuple(rights.get("look", ())), tuple(rights.get("operate", ())), can_log_out, csrf)


def token_viewer(settings: ConsoleSettings, headers: Headers) -> Viewer | None:
    """The program that the request's token is of; None: it has none that is known."""
    secret = headers.get("authorization", "").partition(" ")[2]
    digest = hashlib.sha256(secret.strip().encode()).digest()
    found = None
    for name, token in settings.tokens.items():  # all of them: how long it takes tells nothing
        if hmac.compare_digest(token.sha256, digest):
            found = Viewer(f"token {name}", tuple(token.look), tuple(token.operate))
    return found


def has_bearer(headers: Headers) -> bool:
    """A program sent it: no browser sends a token of this kind by itself, as it does a cookie or a password, which the
    proxy that asked for it may pass on."""
    return headers.get("authorization", "").partition(" ")[0].lower() == "bearer"


def proxied_user(settings: ConsoleSettings, scope: Scope, headers: Headers) -> str | None:
    """Whom the trusted proxy names; None: it is not that which asks, or it names nobody that is known."""
    proxy = settings.proxy
    if proxy is None or not is_within(address_of(scope), proxy):
        return None
    names = headers.getlist(proxy.header)
    return names[0] if len(names) == 1 and names[0] in settings.users else None


def is_within(address: str, proxy: object) -> bool:
    """Return True if the address is of one of the proxy's networks."""
    try:
        at = ip_address(address)
    except ValueError:
        return False
    return any(at in each for each in getattr(proxy, "networks", ()) if each.version == at.version)


def address_of(scope: Scope) -> str:
    """Whoever has the other end of the connection, whatever headers say."""
    client = scope.get("client")
    return client[0] if client else ""


def is_on_loopback(scope: Scope, headers: Headers) -> bool:
    """It is a browser of this machine, and no proxy that speaks for others."""
    try:
        is_here = ip_address(address_of(scope)).is_loopback
    except ValueError:
        is_here = False
    return is_here and not any(name in headers for name in FORWARDED)


def is_our_host(settings: ConsoleSettings, headers: Headers) -> bool:
    """The name that the browser asked for is one of ours: other names may be led to this address by anybody."""
    host = headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if settings.hosts:
        return name.lower() in [each.lower() for each in settings.hosts]
    return settings.has_login or name.lower() in LOOPBACK_NAMES


def is_from_elsewhere(headers: Headers) -> bool:
    """A page of another site sent it, as the browser itself says."""
    site = headers.get("sec-fetch-site", "")
    if site:
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and origin.partition("://")[2] != headers.get("host", "")
