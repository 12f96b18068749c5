"""The pages of actions: what one would do, the confirmation, and how far it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, Literal

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from jbm_kafka.console.frame.action import ActionPreview, AnyAction
from jbm_kafka.console.frame.console import Console, console_of, viewer_of
from jbm_kafka.console.frame.form_fields import fields_of
from jbm_kafka.console.frame.long_looks import LookLeftError
from jbm_kafka.console.frame.rendering import answer, page, trouble_answer, trouble_page
from jbm_kafka.console.frame.runs import ActionRun
from jbm_kafka.console.frame.view import API, NotAllowed, View, status_of, wanted_of
from jbm_kafka.console.frame.viewer import Viewer
from jbm_kafka.core.jms_errors import (
    IllegalStateError,
    InvalidDestinationError,
    InvalidSettingError,
    JMSError,
    ResourceAllocationError,
)

NOT_WANTED = ("csrf", "typed")
"""Fields of a form that are none of the action's."""


class RunWanted(BaseModel):
    """Which run."""

    id: str


class RunsLately(BaseModel):
    """The actions that were done lately."""

    runs: list[ActionRun]


class NoWish(BaseModel):
    """All that there is."""


def action_routes(actions: Sequence[AnyAction]) -> list[BaseRoute]:
    """`/actions/NAME` shows what it would do and does it when it is confirmed; the same below `/api/v1`."""
    by_name = {each.name: each for each in actions}
    assert len(by_name) == len(actions), "two actions of one name"
    return [
        Route("/actions/{action}", _answered(by_name, _form_page, trouble_page), methods=["GET"]),
        Route("/actions/{action}", _answered(by_name, _confirmed, trouble_page), methods=["POST"]),
        Route(f"{API}/actions/{{action}}", _answered(by_name, _preview_answer, _trouble_answer), methods=["GET"]),
        Route(f"{API}/actions/{{action}}", _answered(by_name, _run_answer, _trouble_answer), methods=["POST"]),
        Route("/runs/{id}/stop", _stopped_page, methods=["POST"]),
        Route(f"{API}/runs/{{id}}/stop", _stopped_answer, methods=["POST"]),
    ]


def check_operate(console: Console, viewer: Viewer, action: AnyAction, wanted: BaseModel) -> None:
    """Return if he may do this.

    Raises:
        NotAllowed: he may not, or nobody may by this console.
    """
    if console.settings.read_only:
        raise NotAllowed("this console is read-only: it was started with --read-only")
    names = [action.about(wanted), *action.more_about(wanted)]
    for name in names:
        if not (viewer.may_operate(name) if name else viewer.may_operate_all):
            what = f"on {name}" if name else "on what belongs to no destination"
            raise NotAllowed(f"{viewer.name} may not {action.title.lower()} {what}: give him the pattern in `operate`")


async def check_sends(request: Request, action: AnyAction, wanted: BaseModel) -> Sequence[str]:
    """The destinations that only a look tells it sends to.

    Raises:
        NotAllowed: he may not operate one of them.
    """
    viewer = viewer_of(request)
    if action.sends_to is None:
        return ()
    try:
        names: Sequence[str] = await _looked(request, action, wanted, "sends_to")
    except (LookLeftError, ResourceAllocationError):
        raise
    except JMSError:
        return ()  # so does its preview, and its run
    for name in names:
        if not viewer.may_operate(name):
            raise NotAllowed(
                f"{viewer.name} may not {action.title.lower()} what came from {name}: give him the pattern in "
                f"`operate`, or choose what came from elsewhere"
            )
    return names


async def _looked(request: Request, action: AnyAction, wanted: BaseModel, part: Literal["preview", "sends_to"]) -> Any:
    """Return what this part of the action finds, by a look in the viewer's turn: each may read a whole queue, and many
    at once would keep the pages and logins of all others waiting. They wait for no other looks of his."""
    console, whose = console_of(request), f"{viewer_of(request).name}, who acts"
    key = action.name, part, sha256(repr(wanted).encode(errors="surrogatepass")).digest()
    ask = partial(getattr(action, part), console.admin, wanted)
    found = await console.looks.wait(whose, key, 0.0, ask, is_gone=request.is_disconnected)
    return found.answer


def _look_run(console: Console, viewer: Viewer, asked: RunWanted) -> ActionRun:
    found = console.runs.of(asked.id)
    if found is None or not _may_look(viewer, found):
        raise InvalidDestinationError(
            f"run {asked.id!a:.40}: it is not known here any more; the log and jbm.events are"
        )
    return found


def _stop_run(request: Request) -> ActionRun:
    """Have it stop, if he may look at it and operate all that it is about."""
    console, viewer = console_of(request), viewer_of(request)
    run = _look_run(console, viewer, RunWanted(id=request.path_params["id"]))
    if console.settings.read_only:
        raise NotAllowed("this console is read-only: it was started with --read-only")
    for name in (run.about, *run.also):
        if not (viewer.may_operate(name) if name else viewer.may_operate_all):
            raise NotAllowed(f"{viewer.name} may not stop what is about {name or 'no destination'}")
    console.runs.stop(run.id, viewer.name)
    return run


async def _stopped_page(request: Request) -> Response:
    try:
        run = _stop_run(request)
    except JMSError as error:
        return trouble_page(request, _status_of_stop(error), str(error))
    return RedirectResponse(f"{request.scope.get('root_path', '')}/runs/{run.id}", 303)


async def _stopped_answer(request: Request) -> Response:
    try:
        _stop_run(request)
    except JMSError as error:
        return trouble_answer(_status_of_stop(error), str(error))
    run = console_of(request).runs.of(request.path_params["id"])
    assert run is not None
    return answer(run, 202)


def _status_of_stop(error: JMSError) -> int:
    return 409 if isinstance(error, IllegalStateError) else status_of(error)


def _look_runs(console: Console, viewer: Viewer, asked: NoWish) -> RunsLately:
    return RunsLately(runs=[each for each in console.runs.lately() if _may_look(viewer, each)])


def _may_look(viewer: Viewer, run: ActionRun) -> bool:
    """Its outcome names all that it is about."""
    return all(viewer.may_look(name) if name else viewer.may_look_at_all for name in (run.about, *run.also))


RUN_VIEWS = (
    View("/runs/{id}", RunWanted, _look_run, ActionRun, "How far an action is", "run.html"),
    View("/runs", NoWish, _look_runs, RunsLately, "What was done by this console lately", "runs.html"),
)


Handler = Callable[[Request, AnyAction], Any]


def _answered(by_name: Mapping[str, AnyAction], handler: Handler, trouble: Callable[..., Response]) -> Any:
    async def handle(request: Request) -> Response:
        try:
            action = by_name.get(request.path_params["action"])
            if action is None:
                raise InvalidDestinationError(f"there is no action {request.path_params['action']!a:.40}")
            answered: Response = await handler(request, action)
            return answered
        except JMSError as error:
            return trouble(request, status_of(error), str(error))

    return handle


def _trouble_answer(_: Request, status: int, text: str) -> Response:
    return trouble_answer(status, text)


async def _form_page(request: Request, action: AnyAction) -> Response:
    return await _shown(request, action, dict(request.query_params))


async def _shown(request: Request, action: AnyAction, given: Mapping[str, Any], fault: str = "") -> Response:
    """The form; with what it would do, as soon as what it needs is given."""
    preview, wanted = None, None
    status = 400 if fault else 200
    try:
        wanted = wanted_of(action.wanted, given)
    except InvalidSettingError as error:
        if any(value for key, value in given.items() if key != "name"):
            fault, status = fault or str(error), 400
    if wanted is not None:
        check_operate(console_of(request), viewer_of(request), action, wanted)
        await check_sends(request, action, wanted)
        try:
            preview = await _looked(request, action, wanted, "preview")
        except (InvalidSettingError, InvalidDestinationError) as error:
            fault, status = str(error), status_of(error)
    return page(
        request,
        "action.html",
        preview,
        status,
        action=action,
        fields=fields_of(action.wanted, given),
        fault=fault,
        about="" if wanted is None else action.about(wanted),
        typed=action.named(wanted) if action.destroys and wanted is not None else "",
        back=action.goes_back(wanted) if wanted is not None else "/",
    )


async def _confirmed(request: Request, action: AnyAction) -> Response:
    form = {key: value for key, value in (await request.form()).items() if isinstance(value, str)}
    given = {key: value for key, value in form.items() if key not in NOT_WANTED}
    wanted = wanted_of(action.wanted, given)
    console, viewer = console_of(request), viewer_of(request)
    check_operate(console, viewer, action, wanted)
    if action.destroys and form.get("typed", "").strip() != action.named(wanted):
        return await _shown(request, action, given, f"nothing was done: type {action.named(wanted)} to confirm")
    names = await check_sends(request, action, wanted)
    run = console.runs.begin(action, wanted, viewer.name, viewer.may_operate, sends_to=names)
    return RedirectResponse(f"{request.scope.get('root_path', '')}/runs/{run.id}", 303)


async def _preview_answer(request: Request, action: AnyAction) -> Response:
    wanted = wanted_of(action.wanted, dict(request.query_params))
    check_operate(console_of(request), viewer_of(request), action, wanted)
    await check_sends(request, action, wanted)
    found: ActionPreview = await _looked(request, action, wanted, "preview")
    return answer(found)


async def _run_answer(request: Request, action: AnyAction) -> Response:
    try:
        given = await request.json()
        json.dumps(given, ensure_ascii=False).encode()  # half of a pair of surrogates is no text
    except (ValueError, RecursionError):
        raise InvalidSettingError("the body is no JSON") from None
    if not isinstance(given, dict):
        raise InvalidSettingError("the body is no JSON object of the action's fields")
    typed = given.pop("typed", "")
    wanted = wanted_of(action.wanted, given)
    console, viewer = console_of(request), viewer_of(request)
    check_operate(console, viewer, action, wanted)
    if action.destroys and typed != action.named(wanted):
        raise InvalidSettingError(f'nothing was done: "typed" must be {action.named(wanted)!r}', setting="typed")
    names = await check_sends(request, action, wanted)
    return answer(console.runs.begin(action, wanted, viewer.name, viewer.may_operate, sends_to=names), 202)
