"""Pages by Jinja2, and answers in JSON. Everything that comes from a cluster is escaped by the templates' rules."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from jbm_kafka.console.frame.console import console_of, viewer_of
from jbm_kafka.version import version

FOLDER = Path(__file__).parents[1]
STATIC = FOLDER / "static"
HTMX, UPLOT = "vendor/htmx.min.js", "vendor/uPlot.iife.min.js"
NAVIGATION = (
    ("/", "Overview"),
    ("/letters", "Dead letters"),
    ("/topics", "Topics"),
    ("/subscriptions", "Subscriptions"),
    ("/transactions", "Transactions"),
    ("/readers", "Readers"),
    ("/bridges", "Bridges"),
    ("/checkup", "Health"),
    ("/runs", "Actions"),
)
"""Views without a destination, in the order of the page's list."""
SPARK_WIDTH, SPARK_HEIGHT = 96, 24


def page(
    request: Request,
    template: str,
    model: BaseModel | None = None,
    status: int = 200,
    *,
    age_s: float = 0.0,
    **more: object,
) -> Response:
    """The template with `model`, which is `age_s` old, `viewer`, `console` and what each page has."""
    console, viewer = console_of(request), viewer_of(request)
    base = request.scope.get("root_path", "")
    path = request.url.path.removeprefix(base) or "/"
    query = f"?{request.url.query}" if request.url.query else ""
    shown = (
        templates()
        .get_template(template)
        .render(
            model=model,
            age_s=age_s,
            viewer=viewer,
            nav=NAVIGATION if viewer.look or viewer.operate else (),
            read_only=console.settings.read_only,
            namespace=console.cluster.namespace,
            cluster=console.cluster.bootstrap if viewer.look or viewer.operate else "",
            trouble=console.trouble if viewer.look or viewer.operate else "",
            base=base,
            path=path,
            here=f"{base}{path}{query}",
            query=dict(request.query_params),
            now_ms=console.now_ms(),
            version=version(),
            scripts=[each for each in (HTMX, UPLOT) if (STATIC / each).is_file()],
            **more,
        )
    )
    return HTMLResponse(shown, status)


def answer(model: BaseModel, status: int = 200) -> Response:
    """The model as JSON."""
    return Response(model.model_dump_json(), status, media_type="application/json")


def trouble_page(request: Request, status: int, text: str) -> Response:
    """Why there is nothing to show. While somebody looks at it, it looks again."""
    return page(request, "trouble.html", status=status, status_code=status, text=text)


def trouble_answer(status: int, text: str) -> Response:
    """The same as JSON."""
    return Response(json.dumps({"error": text}), status, media_type="application/json")


@cache
def templates() -> Environment:
    """With our filters; every variable that a template names must be there."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "when": when,
        "age": age,
        "span": span,
        "moment": moment,
        "lapse": lapse,
        "number": number,
        "rate": rate,
        "sparkline": sparkline,
    }
    made.filters.update(filters)
    return made


def when(at_ms: int | None) -> str:
    """A moment, for people: UTC, to the second."""
    if at_ms is None:
        return "–"
    try:
        return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):  # Kafka takes any 64-bit timestamp
        return f"{at_ms} ms"


def moment(at_ms: int) -> str:
    """The time of day with milliseconds: UTC."""
    try:
        return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%H:%M:%S") + f".{at_ms % 1_000:03}"
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"


def lapse(ms: int) -> str:
    """How long, also where it is less than a second."""
    return span(ms) if ms >= 10_000 else f"{ms / 1_000:.1f} s" if ms >= 1_000 else f"{ms} ms"


def age(at_ms: int | None, now_ms: int) -> str:
    """How long ago, for people."""
    return "–" if at_ms is None else span(max(now_ms - at_ms, 0))


def span(ms: int) -> str:
    """How long, by its largest two units."""
    seconds = ms // 1_000
    for size, name, part, part_name in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            rest = seconds % size // part
            return f"{seconds // size} {name}" + (f" {rest} {part_name}" if rest and seconds < 10 * size else "")
    return f"{seconds} s"


def number(value: int | None) -> str:
    """With thin spaces between thousands."""
    return "–" if value is None else f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def rate(value: float) -> str:
    """A second; small ones with a digit behind the point."""
    if value <= 0:
        return "0"
    return number(round(value)) if value >= 10 else f"{value:.1f}" if value >= 0.05 else "<0.1"


def sparkline(values: Sequence[float]) -> str:
    """The points of a polyline in a box of `SPARK_WIDTH` by `SPARK_HEIGHT`."""
    if len(values) < 2:
        return f"0,{SPARK_HEIGHT - 1} {SPARK_WIDTH},{SPARK_HEIGHT - 1}"
    most = max(*values, 1e-9)
    step = SPARK_WIDTH / (len(values) - 1)
    return " ".join(
        f"{at * step:.1f},{SPARK_HEIGHT - 1 - (SPARK_HEIGHT - 3) * max(value, 0) / most:.1f}"
        for at, value in enumerate(values)
    )
