"""Stands before every page: who asks, whether a page of ours sent it, and what the browser may do with the answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qs, quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jbm_kafka.console.frame.console import Console
from jbm_kafka.console.frame.viewer import Viewer
from jbm_kafka.console.security import door
from jbm_kafka.console.security.cookies import NAME, BrowserSession, SessionCookies

BODY_MAX: Final = 8 * 1024 * 1024
LOGIN_MAX: Final = 16 * 1024
"""The bytes of a request of somebody who has not come in: many of them may be kept at once."""
FIELDS_MAX: Final = 1_000
"""The fields of a form; none of ours has so many."""
SAFE: Final = ("GET", "HEAD", "OPTIONS")
HEALTH: Final = "/healthz"
"""It tells nothing but that the console runs, to whoever asks, by whatever name."""
LOGIN: Final = "/login"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
LOCAL: Final = "local"
"""Who looks where there is no login."""


class Guard:
    """Middleware. It puts `jbm.viewer`, `jbm.session` and `jbm.console` into the scope of each request."""

    def __init__(
        self,
        app: ASGIApp,
        console: Console,
        cookies: SessionCookies,
        user_of: Callable[[Scope], Viewer | None] | None = None,
    ) -> None:
        """`user_of`: says who asks, where another application has a login of its own; None of it: nobody."""
        self._app, self._console, self._cookies, self._user_of = app, console, cookies, user_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        await _Guarded(self._console, self._cookies, self._user_of, scope).answer(self._app, receive, send)


class _Guarded:
    """One request on its way."""

    def __init__(
        self,
        console: Console,
        cookies: SessionCookies,
        user_of: Callable[[Scope], Viewer | None] | None,
        scope: Scope,
    ) -> None:
        self._console, self._cookies, self._user_of, self._scope = console, cookies, user_of, scope
        self._headers = Headers(scope=scope)
        self._base = scope.get("root_path", "")
        self._path = scope["path"].removeprefix(self._base) or "/"
        self._is_api = self._path.startswith("/api/")
        self._now_s = time.time()
        self._session, self._is_new = self._session_of()
        scope["jbm.console"], scope["jbm.session"] = console, self._session

    async def answer(self, app: ASGIApp, receive: Receive, send: Send) -> None:
        """Let it through, or say why not."""

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._complete(MutableHeaders(scope=message))
            await send(message)

        refused = self._refusal()
        if refused is None:
            receive, refused = await self._checked_form(receive)
        await (app if refused is None else refused)(self._scope, receive, guarded)

    def _refusal(self) -> Response | None:
        """Why it does not come in; None: it does, and its viewer is known."""
        settings = self._console.settings
        self._scope["jbm.viewer"] = Viewer("nobody", (), ())
        if self._path == HEALTH and self._scope["method"] in ("GET", "HEAD"):  # probes ask by the address
            return None
        if self._user_of is None and not door.is_our_host(settings, self._headers):
            return self._no(421, "this console is not known by that name: reach it by 127.0.0.1, or name it in `hosts`")
        viewer = self._viewer()
        if viewer is not None:
            self._scope["jbm.viewer"] = viewer
            return None
        if self._path.startswith("/static/") or self._path == LOGIN:
            self._scope["jbm.viewer"] = Viewer("nobody", (), (), csrf=self._cookies.form_token(self._session))
            return None
        if not settings.has_login and self._user_of is None:
            return self._no(403, "without users this console answers browsers of its own machine alone")
        if self._is_api or not settings.users or self._user_of is not None:
            return self._no(401, "say who you are: Authorization: Bearer TOKEN")
        query = self._scope.get("query_string", b"").decode("latin-1")
        wanted = self._path + (f"?{query}" if query else "")
        aim = f"?next={quote(wanted, safe='')}" if self._scope["method"] == "GET" and wanted != "/" else ""
        return RedirectResponse(f"{self._base}{LOGIN}{aim}", 303)

    def _viewer(self) -> Viewer | None:
        settings = self._console.settings
        csrf = self._cookies.form_token(self._session)
        if self._user_of is not None:
            told = self._user_of(self._scope)
            return told if told is None or door.has_bearer(self._headers) else replace(told, csrf=csrf)
        if door.has_bearer(self._headers):
            return door.token_viewer(settings, self._headers)
        if not settings.has_login:
            is_here = door.is_on_loopback(self._scope, self._headers)
            return Viewer(LOCAL, csrf=csrf) if is_here else None
        name = door.proxied_user(settings, self._scope, self._headers)
        can_log_out = False
        user = settings.users.get(self._session.user)
        if name is None and user is not None and self._cookies.is_of(self._session, self._session.user, user.verifier):
            name, can_log_out = self._session.user, True
        if name is None:
            return None
        return door.user_viewer(name, settings.users[name], can_log_out=can_log_out, csrf=csrf)

    async def _checked_form(self, receive: Receive) -> tuple[Receive, Response | None]:
        """Return what changes something must come from a page of ours: by its token, and by what the browser says.

        The body is read to find the token, and handed on.
        """
        if self._scope["method"] in SAFE:
            return receive, None
        viewer: Viewer = self._scope["jbm.viewer"]
        most = BODY_MAX if viewer.look or viewer.operate else LOGIN_MAX
        body, chunk = bytearray(), b""
        is_more = True
        while is_more:
            message = await receive()
            if message["type"] != "http.request":
                return receive, self._no(400, "the request broke off")
            chunk = message.get("body", b"")
            body += chunk
            is_more = message.get("more_body", False)
            if len(body) > most:
                return receive, self._no(413, f"the request is larger than {most} bytes")
        whole = bytes(body)
        is_told = False

        async def again() -> Message:
            nonlocal is_told
            if is_told:
                return await receive()
            is_told = True
            return {"type": "http.request", "body": whole, "more_body": False}

        if viewer.csrf and (door.is_from_elsewhere(self._headers) or not self._has_token(whole)):
            return again, self._no(403, "this form is not of this console, or too old: go back, load the page again")
        return again, None

    def _has_token(self, body: bytes) -> bool:
        token = self._headers.get("x-csrf-token", "")
        if not token and self._headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            try:
                found: Mapping[str, list[str]] = parse_qs(body.decode("utf-8", "replace"), max_num_fields=FIELDS_MAX)
            except ValueError:  # more fields than that
                return False
            token = found.get("csrf", [""])[0]
        return self._cookies.fits(self._session, token)

    def _session_of(self) -> tuple[BrowserSession, bool]:
        given = cookie_parser(self._headers.get("cookie", "")).get(NAME, "")
        known = self._cookies.read(given, self._now_s) if given else None
        return (known, False) if known is not None else (self._cookies.begin("", self._now_s), True)

    def _complete(self, headers: MutableHeaders) -> None:
        if self._console.settings.sends_headers:
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        if not self._path.startswith("/static/"):
            headers.setdefault("cache-control", "no-store")
            if self._is_new and not self._is_api and "set-cookie" not in headers:
                headers.append("set-cookie", set_cookie(self._cookies.text_of(self._session), self._scope))

    def _no(self, status: int, text: str) -> Response:
        if self._is_api:
            return Response(json.dumps({"error": text}), status, media_type="application/json")
        return HTMLResponse(f"<!doctype html><title>{status}</title><p>{text}</p>", status)


def set_cookie(value: str, scope: Scope) -> str:
    """The header's value: no script sees the cookie, no other site sends it, and by TLS it goes by TLS alone."""
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    path = scope.get("root_path", "") or "/"
    return f"{NAME}={value}; HttpOnly; SameSite=Strict; Path={path}{secure}"


def session_of(request: Request) -> BrowserSession:
    """The browser's session; of one that has no cookie yet a new one."""
    session: BrowserSession = request.scope["jbm.session"]
    return session
