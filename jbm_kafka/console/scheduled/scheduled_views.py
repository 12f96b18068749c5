"""Messages that wait for a time, the next first."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from time import monotonic

from pydantic import BaseModel

from jbm_kafka.admin import MessageRow
from jbm_kafka.console.frame.console import Console
from jbm_kafka.console.frame.source_name import SourceName
from jbm_kafka.console.frame.view import FRESH_S, View
from jbm_kafka.console.frame.viewer import Viewer
from jbm_kafka.console.queues.queue_views import SourceAsked

LOOK_S = 1.5
SHOWN = 200
COUNT = 500
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


class ScheduledPage(BaseModel):
    """The messages that wait for a time."""

    source: SourceName
    messages: Sequence[MessageRow]
    """The messages that are due next."""
    scheduled: int
    """All that their senders delayed, as far as was looked."""
    delayed: int
    """All that came back and wait for their next attempt, likewise."""
    within_hour: int
    within_day: int
    is_whole: bool
    """Everything that is held was looked at."""


def look_at_scheduled(console: Console, _: Viewer, asked: SourceAsked) -> ScheduledPage:
    """Return them by time, as far as a moment's look goes."""
    source, now_ms = asked.source, console.now_ms()
    found: list[MessageRow] = []
    after, deadline = None, monotonic() + LOOK_S
    while True:
        page = console.admin.page(source.destination, **source.arguments, after=after, count=COUNT, ask_receivers=False)
        found += [row for row in page.messages if row.state in ("scheduled", "delayed")]
        after = page.after
        if after is None or monotonic() > deadline:
            break
    return ScheduledPage(
        source=source,
        messages=nsmallest(SHOWN, found, key=lambda row: row.due_at_ms),
        scheduled=sum(row.state == "scheduled" for row in found),
        delayed=sum(row.state == "delayed" for row in found),
        within_hour=sum(row.due_at_ms <= now_ms + HOUR_MS for row in found),
        within_day=sum(row.due_at_ms <= now_ms + DAY_MS for row in found),
        is_whole=after is None,
    )


SCHEDULED_VIEWS: tuple[View, ...] = tuple(
    View(
        base + "/scheduled",
        SourceAsked,
        look_at_scheduled,
        ScheduledPage,
        "What waits for a time",
        "scheduled.html",
        fresh_s=FRESH_S,
    )
    for base in ("/queues/{name}", "/topics/{name}/subscription")
)
