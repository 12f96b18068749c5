"""A page and its JSON by one function: what a part of the console is made of."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from jbm_kafka.console.frame.console import Console, console_of, viewer_of
from jbm_kafka.console.frame.long_looks import Found, UnderWay
from jbm_kafka.console.frame.rendering import answer, page, trouble_answer, trouble_page
from jbm_kafka.console.frame.viewer import Viewer
from jbm_kafka.core.jms_errors import (
    InvalidDestinationError,
    InvalidSelectorError,
    InvalidSettingError,
    JMSError,
    JMSSecurityError,
)

log = logging.getLogger(__name__)

API = "/api/v1"
FRESH_S, MOMENT_S = 4.0, 1.0
"""How long most answers are good for all browsers, and those that somebody has just acted on."""


class NothingAsked(BaseModel):
    """A view without parameters."""

    model_config = ConfigDict(extra="ignore", frozen=True)


@dataclass(frozen=True, slots=True)
class View:
    """The view at one path: as HTML there, and as JSON below `/api/v1`.

    `asked` is the model of what stands in the path and the query. Where it has a field `name`, that is a destination,
    and who may not look at it does not get there. `look` runs on a thread of its own, goes by the viewer's rights and
    not by his name, and may raise any JMSError.
    """

    path: str
    asked: type[BaseModel]
    look: Callable[[Console, Viewer, Any], BaseModel]
    gives: type[BaseModel]
    summary: str
    """A line for the OpenAPI document."""
    template: str = ""
    """Empty: it is JSON alone."""
    needs_all: bool = False
    """It tells of what belongs to no destination: only who may look at all of them."""
    fresh_s: float | None = None
    """It asks the cluster, once in so long a time for all browsers, and the page says how far it is where that takes
    long. None: it tells what the console knows."""


def routes_of(views: Sequence[View]) -> list[BaseRoute]:
    """Each as a page, if it has a template, and as JSON."""
    pages: list[BaseRoute] = [Route(each.path, _html(each), methods=["GET"]) for each in views if each.template]
    return [*pages, *(Route(API + each.path, _json(each), methods=["GET"]) for each in views)]


class NotAllowed(JMSSecurityError):
    """The viewer may not; the console says no more than that."""


def wanted_of(model: type[BaseModel], given: Mapping[str, Any]) -> BaseModel:
    """The model filled in; raises InvalidSettingError with one line where it cannot be. What is empty was not given."""
    try:
        return model.model_validate({key: value for key, value in given.items() if value != ""})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        name = ".".join(map(str, first["loc"])) or "the request"
        raise InvalidSettingError(f"{name}: {first['msg']}", setting=name) from None


def check_look(viewer: Viewer, name: object, *, needs_all: bool = False) -> None:
    """Return if he may look at the destination of this name; None: at none in particular.

    Raises:
        NotAllowed: he may not.
    """
    if (isinstance(name, str) and not viewer.may_look(name)) or (needs_all and not viewer.may_look_at_all):
        raise NotAllowed(f"{viewer.name} may not look at {name or 'this'}: give him the pattern in `look`")


def status_of(error: JMSError) -> int:
    """The HTTP status that says the same."""
    match error:
        case NotAllowed():
            return 403
        case InvalidDestinationError():
            return 404
        case InvalidSettingError() | InvalidSelectorError():
            return 400
        case _:
            return 503


async def _looked(view: View, request: Request, asked: BaseModel, *, waits: bool) -> Found[BaseModel] | UnderWay:
    console, viewer = console_of(request), viewer_of(request)
    check_look(viewer, getattr(asked, "name", None), needs_all=view.needs_all)
    if view.fresh_s is None:
        return Found(await run_in_threadpool(view.look, console, viewer, asked), 0.0)
    key = view.path, asked, tuple(viewer.look), tuple(viewer.operate)
    what = viewer.name, key, view.fresh_s, lambda: view.look(console, viewer, asked)
    if waits:
        return await console.looks.wait(*what, is_gone=request.is_disconnected)
    return await console.looks.get(*what, may_be_old=request.headers.get("HX-Target") == "live")


def _asked(view: View, request: Request) -> BaseModel:
    return wanted_of(view.asked, {**request.query_params, **request.path_params})


def _html(view: View) -> Callable[[Request], Any]:
    async def handle(request: Request) -> Response:
        # A part of a page is asked for by that page, which has a place for it and none for how far it is.
        waits = request.headers.get("HX-Target", "live") != "live"
        try:
            asked = _asked(view, request)
            found = await _looked(view, request, asked, waits=waits)
        except JMSError as error:
            return trouble_page(request, status_of(error), str(error))
        if isinstance(found, UnderWay):
            return page(request, "under_way.html", status=202, asked=asked, look=found, summary=view.summary)
        return page(request, view.template, found.answer, age_s=found.age_s)

    return handle


def _json(view: View) -> Callable[[Request], Any]:
    async def handle(request: Request) -> Response:
        try:
            found = await _looked(view, request, _asked(view, request), waits=True)
            assert isinstance(found, Found), view.path
            return answer(found.answer)
        except JMSError as error:
            return trouble_answer(status_of(error), str(error))

    return handle
