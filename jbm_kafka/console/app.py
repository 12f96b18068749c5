"""The console as an ASGI application."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from jbm_kafka.console.frame.acting import RUN_VIEWS, action_routes
from jbm_kafka.console.frame.action import AnyAction
from jbm_kafka.console.frame.console import Console, LookedAtCluster
from jbm_kafka.console.frame.console_settings import ConsoleSettings
from jbm_kafka.console.frame.openapi import openapi_document
from jbm_kafka.console.frame.rendering import HTMX, STATIC, UPLOT, trouble_answer, trouble_page
from jbm_kafka.console.frame.view import API, View, routes_of
from jbm_kafka.console.frame.viewer import Viewer
from jbm_kafka.console.letters.letter_actions import LETTER_ACTIONS
from jbm_kafka.console.letters.letter_views import LETTER_VIEWS
from jbm_kafka.console.messages.downloads import download_routes
from jbm_kafka.console.messages.message_actions import MESSAGE_ACTIONS
from jbm_kafka.console.messages.message_views import MESSAGE_VIEWS
from jbm_kafka.console.queues.bridge_views import BRIDGE_VIEWS
from jbm_kafka.console.queues.overview import OVERVIEW
from jbm_kafka.console.queues.queue_actions import QUEUE_ACTIONS
from jbm_kafka.console.queues.queue_views import QUEUE_VIEWS
from jbm_kafka.console.queues.side_actions import SIDE_ACTIONS
from jbm_kafka.console.queues.side_views import SIDE_VIEWS
from jbm_kafka.console.scheduled.scheduled_views import SCHEDULED_VIEWS
from jbm_kafka.console.security.cookies import SessionCookies
from jbm_kafka.console.security.guard import Guard
from jbm_kafka.console.security.login import Login
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.jms.factory import ConnectionFactory

log = logging.getLogger(__name__)

VIEWS: tuple[View, ...] = (
    OVERVIEW,
    *QUEUE_VIEWS,
    *SIDE_VIEWS,
    *BRIDGE_VIEWS,
    *MESSAGE_VIEWS,
    *LETTER_VIEWS,
    *SCHEDULED_VIEWS,
    *RUN_VIEWS,
)
ACTIONS: tuple[AnyAction, ...] = (*QUEUE_ACTIONS, *SIDE_ACTIONS, *MESSAGE_ACTIONS, *LETTER_ACTIONS)


def app(
    cluster: ConnectionFactory | LookedAtCluster | str,
    settings: ConsoleSettings | None = None,
    *,
    user_of: Callable[[Any], Viewer | None] | None = None,
) -> Starlette:
    """The console of a cluster and namespace: an ASGI application to serve, or to mount in another one.

    Without users in the settings it answers browsers of its own machine alone. `state.console.close()` of what is
    returned lets the cluster go; a server of ASGI's lifespan does that by itself, and a mounted one is closed by
    whoever mounted it.

    Args:
        cluster: a factory, or Kafka's address, or `memory://NAME`.
        settings: who may, and how it is reached.
        user_of: where it is mounted in an application that knows its users: gets ASGI's scope, and tells who asks, or
            None for nobody. Then nobody logs in here.

    Raises:
        InvalidSettingError: the cluster is named wrongly, or it is an AMQP server.
    """
    console = Console(_cluster_of(cluster), settings or ConsoleSettings())
    cookies = SessionCookies(console.settings.secret)
    document = json.dumps(openapi_document(VIEWS, ACTIONS))

    async def described(_: Request) -> Response:
        return Response(document, media_type="application/json")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        console.close()

    routes: list[BaseRoute] = [
        *routes_of(VIEWS),
        *action_routes(ACTIONS),
        *download_routes(),
        *Login(console.settings, cookies).routes(),
        Route(f"{API}/openapi.json", described, methods=["GET"]),
        Route("/healthz", _alive, methods=["GET"]),
        Mount("/static", StaticFiles(directory=STATIC), name="static"),
    ]
    made = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, console=console, cookies=cookies, user_of=user_of)],
        exception_handlers={404: _missing, 405: _missing, 500: _failed},
        lifespan=lifespan,
    )
    made.state.console = console
    if missing := [each for each in (HTMX, UPLOT) if not (STATIC / each).is_file()]:
        log.warning("console: %s is missing: pages work as plain ones, and do not refresh", " and ".join(missing))
    return made


def _cluster_of(given: ConnectionFactory | LookedAtCluster | str) -> LookedAtCluster:
    if isinstance(given, LookedAtCluster):
        return given
    if isinstance(given, str):
        return LookedAtCluster(given)
    url, installation = given._defaults.url, given._installation
    if url.startswith(("amqp:", "amqps:")):
        raise InvalidSettingError(f"{url}: the console looks at Kafka; name its address", setting="cluster")
    bootstrap = url if url.startswith("memory:") else installation.bootstrap
    return LookedAtCluster(bootstrap, installation.client_settings, installation.config.namespace)


async def _alive(_: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _missing(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    text = "there is no such page" if status == 404 else str(getattr(error, "detail", "that cannot be done here"))
    return _told(request, status, text)


async def _failed(request: Request, error: Exception) -> Response:
    return _told(request, 500, "this is a bug of the console; its log has more")


def _told(request: Request, status: int, text: str) -> Response:
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    if path.startswith((API, "/static")) or "jbm.viewer" not in request.scope:
        return trouble_answer(status, text)
    return trouble_page(request, status, text)
