"""Bodies as files. No browser shows one as a page: it may be a page that somebody sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from jbm_kafka.console.frame.console import console_of, viewer_of
from jbm_kafka.console.frame.rendering import trouble_answer
from jbm_kafka.console.frame.view import API, check_look, status_of, wanted_of
from jbm_kafka.console.messages.message_views import MessageAsked, stored_at
from jbm_kafka.console.messages.shown_body import shown_body
from jbm_kafka.core.jms_errors import JMSError

CHUNK = 256 * 1024
_ENDS = {"json": "json", "text": "txt"}
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def download_routes() -> list[BaseRoute]:
    """The body of a message, as it is in the log, for each kind of source."""
    bases = ("/queues/{name}", "/topics/{name}/subscription")
    return [Route(f"{prefix}{base}/body", _download, methods=["GET"]) for prefix in ("", API) for base in bases]


async def _download(request: Request) -> Response:
    try:
        asked = wanted_of(MessageAsked, {**request.query_params, **request.path_params})
        assert isinstance(asked, MessageAsked), asked
        check_look(viewer_of(request), asked.name)
        stored = await run_in_threadpool(stored_at, console_of(request), asked.source, *asked.place)
    except JMSError as error:
        return trouble_answer(status_of(error), str(error))
    value = stored.value or b""
    name = f"{_NOT_IN_NAMES.sub('_', asked.name)}-{asked.at}.{_ENDS.get(shown_body(stored).kind, 'bin')}"
    return StreamingResponse(
        _chunks(value),
        media_type="application/octet-stream",
        headers={
            "content-disposition": f"attachment; filename=\"{name}\"; filename*=UTF-8''{quote(name)}",
            "content-length": str(len(value)),
        },
    )


def _chunks(value: bytes) -> Iterator[bytes]:
    for at in range(0, len(value), CHUNK):
        yield value[at : at + CHUNK]
