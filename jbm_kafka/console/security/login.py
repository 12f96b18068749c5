"""The page that asks who somebody is."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from jbm_kafka.amqp.access import Access
from jbm_kafka.amqp.failure_delays import FailureDelays
from jbm_kafka.amqp.shares import Whose
from jbm_kafka.console.frame.console_settings import ConsoleSettings
from jbm_kafka.console.frame.rendering import page
from jbm_kafka.console.security.cookies import SessionCookies
from jbm_kafka.console.security.door import address_of
from jbm_kafka.console.security.guard import session_of, set_cookie

log = logging.getLogger(__name__)

WAITING_MAX = 4
"""So many tries of one address wait for each other; one more is refused at once."""
WRONG = "There is no user of this name, or the password is wrong."


class Login:
    """Passwords are those of the file's users. Who guesses waits, by user and by address; nobody is locked out."""

    def __init__(self, settings: ConsoleSettings, cookies: SessionCookies) -> None:
        self._access = Access(settings.users)
        self._cookies = cookies
        self._delays = FailureDelays()
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """One try of an address at a time: many at once are not faster."""
        self._waiting: defaultdict[str, int] = defaultdict(int)

    def routes(self) -> list[BaseRoute]:
        """`/login` and `/logout`."""
        return [
            Route("/login", self._form, methods=["GET"]),
            Route("/login", self._come_in, methods=["POST"]),
            Route("/logout", self._go, methods=["POST"]),
        ]

    async def _form(self, request: Request) -> Response:
        return page(request, "login.html", fault="", user="", next=own_path(request.query_params.get("next", "/")))

    async def _come_in(self, request: Request) -> Response:
        form = await request.form()
        user, password = str(form.get("user", ""))[:200], str(form.get("password", ""))[:1_000]
        next_path, address = own_path(str(form.get("next", "/"))), address_of(request.scope)
        if self._waiting[address] >= WAITING_MAX:
            return page(request, "login.html", status=429, fault="Too many tries at once.", user=user, next=next_path)
        self._waiting[address] += 1
        try:
            async with self._turns[address]:
                if not await self._is_right(user, password):
                    await asyncio.sleep(
                        self._delays.failed(time.monotonic(), Whose("address", address), Whose("user", user))
                    )
                    log.warning("console: a wrong password for %a from %s", user[:80], address)
                    return page(request, "login.html", status=401, fault=WRONG, user=user, next=next_path)
        finally:
            self._waiting[address] -= 1
            if not self._waiting[address]:
                del self._waiting[address], self._turns[address]
        log.info("console: %s logs in from %s", user, address)
        answer = RedirectResponse(request.scope.get("root_path", "") + next_path, 303)
        # Never the one that the browser came with.
        begun = self._cookies.begin(user, time.time(), self._access.verifiers.get(user))
        answer.headers.append("set-cookie", set_cookie(self._cookies.text_of(begun), request.scope))
        return answer

    async def _is_right(self, user: str, password: str) -> bool:
        return await run_in_threadpool(self._access.knows, user, password)

    async def _go(self, request: Request) -> Response:
        now_s = time.time()
        self._cookies.end(session_of(request), now_s)
        answer = RedirectResponse(request.scope.get("root_path", "") + "/login", 303)
        answer.headers.append(
            "set-cookie", set_cookie(self._cookies.text_of(self._cookies.begin("", now_s)), request.scope)
        )
        return answer


def own_path(wanted: str) -> str:
    """The path if it is one of this console, else the first page: nobody is led elsewhere by a link to the login."""
    parts = urlsplit(wanted)
    is_ours = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if is_ours and not parts.scheme and not parts.netloc and "\\" not in wanted else "/"
