"""The first page: what needs somebody, and every destination with what it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from markupsafe import Markup
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from jbm_kafka.console.frame.console import Console
from jbm_kafka.console.frame.source_name import SourceName
from jbm_kafka.console.frame.view import View
from jbm_kafka.console.frame.viewer import Viewer
from jbm_kafka.console.queues.attention import Need, needs_of
from jbm_kafka.core.channel.backlog import Backlog, Backlogs
from jbm_kafka.core.channel.held_in_order import HeldKind

SPARK_STEPS = 120
SortBy = Literal["name", "held", "ready", "delayed", "blocked", "oldest", "letters", "in", "out", "receivers"]


class OverviewAsked(BaseModel):
    """Search and order, as in the page's address."""

    model_config = ConfigDict(extra="ignore")

    q: str = Field("", description="Part of a name.")
    sort: SortBy = "name"
    down: bool = Field(False, description="The largest first.")


class DestinationRow(BaseModel):
    """A queue, or a subscription."""

    source: SourceName
    held: int
    is_counted: bool
    """False: there are too many to be read, and of kinds nothing is known."""
    ready: int
    """Could be received now, or a receiver has it: topics do not tell which."""
    prepared: int
    """A prepared branch has them."""
    delayed: int
    blocked: int
    on_hold: int
    expired: int
    oldest_at_ms: int | None
    receivers: int
    is_receiving_paused: bool
    is_sending_paused: bool
    letters: int
    """Dead letters of this destination, in whichever queue."""
    has_letters: bool
    """It is a dead-letter queue."""
    incoming: float
    """Messages a second, of the last minute."""
    outgoing: float
    incoming_hour: Sequence[float]
    """The same in the last hour, of each half minute that was looked in."""
    outgoing_hour: Sequence[float]
    _shown: dict[str, Markup] = PrivateAttr(default_factory=dict)

    def shown_by(self, line: Callable[[DestinationRow], Markup], base: str) -> Markup:
        """Return what `line` makes of it, made once for all browsers: 300 rows take longer than all else of the
        page."""
        found = self._shown.get(base)
        if found is None:
            found = self._shown[base] = line(self)
        return found


class Overview(BaseModel):
    """All that may be looked at."""

    looked_at_ms: int | None
    """None: nothing was found yet."""
    trouble: str
    """Why Kafka does not answer, and all that is told is of `looked_at_ms`; empty: it does."""
    needs: Sequence[Need]
    rows: Sequence[DestinationRow]
    held: int
    """In all of them, whatever is searched for."""
    letters: int
    are_letters_whole: bool
    """False: some dead-letter queue has so many that it was not read whose they are."""
    receivers: int
    incoming: float
    outgoing: float
    asked: OverviewAsked


_KEYS: dict[SortBy, Callable[[DestinationRow], object]] = {
    "name": lambda row: (row.source.name, row.source.subscription),
    "held": lambda row: row.held,
    "ready": lambda row: row.ready,
    "delayed": lambda row: row.delayed,
    "blocked": lambda row: row.blocked + row.on_hold,
    "oldest": lambda row: -(row.oldest_at_ms or 1 << 62),
    "letters": lambda row: row.letters,
    "in": lambda row: row.incoming,
    "out": lambda row: row.outgoing,
    "receivers": lambda row: row.receivers,
}


def look_over(console: Console, viewer: Viewer, asked: OverviewAsked) -> Overview:
    """From what is followed; nothing is asked of the cluster."""
    found = console.backlogs(viewer)
    trouble = console.trouble if viewer.look or viewer.operate else ""
    if found is None:
        return Overview(
            looked_at_ms=None,
            trouble=trouble,
            needs=(),
            rows=(),
            held=0,
            letters=0,
            are_letters_whole=True,
            receivers=0,
            incoming=0,
            outgoing=0,
            asked=asked,
        )
    letter_queues = console.letter_queues()
    rows = [row for row in console.of_latest(_rows) if viewer.may_look(row.source.name)]
    shown = [row for row in rows if asked.q.lower() in row.source.title.lower()]
    shown.sort(key=_KEYS[asked.sort], reverse=asked.down)  # type: ignore[arg-type]
    return Overview(
        looked_at_ms=found.looked_at_ms,
        trouble=trouble,
        needs=needs_of(found if viewer.may_look_at_all else _of_destinations(found), letter_queues, console.now_ms()),
        rows=shown,
        held=sum(row.held for row in rows if not row.has_letters),
        are_letters_whole=console.letters.is_whole,
        letters=sum(row.held for row in rows if row.has_letters),
        receivers=sum(row.receivers for row in rows),
        incoming=sum(row.incoming for row in rows),
        outgoing=sum(row.outgoing for row in rows),
        asked=asked,
    )


def _rows(console: Console, found: Backlogs) -> Sequence[DestinationRow]:
    letter_queues = console.letter_queues()
    return [row_of(console, each, has_letters=each.destination in letter_queues) for each in found.backlogs]


def row_of(console: Console, backlog: Backlog, *, has_letters: bool) -> DestinationRow:
    """One row, with its rates."""
    counts = backlog.counts
    key = (backlog.destination, backlog.subscription)
    now, hour = console.history.rate(key), console.history.rates(key, SPARK_STEPS)
    return DestinationRow(
        source=SourceName.of(backlog),
        held=backlog.held,
        is_counted=backlog.is_counted,
        ready=counts.get(HeldKind.DELIVERABLE, 0),
        prepared=counts.get(HeldKind.IN_HAND, 0),
        delayed=counts.get(HeldKind.DELAYED, 0),
        blocked=counts.get(HeldKind.BLOCKED, 0),
        on_hold=counts.get(HeldKind.ON_HOLD, 0),
        expired=counts.get(HeldKind.EXPIRED, 0),
        oldest_at_ms=backlog.oldest_held_at_ms,
        receivers=backlog.receivers,
        is_receiving_paused=backlog.is_receiving_paused,
        is_sending_paused=backlog.is_sending_paused,
        letters=0 if has_letters else console.letters.by_origin[key],
        has_letters=has_letters,
        incoming=now.incoming,
        outgoing=now.outgoing,
        incoming_hour=[round(each.incoming, 3) for each in hour],
        outgoing_hour=[round(each.outgoing, 3) for each in hour],
    )


def _of_destinations(found: Backlogs) -> Backlogs:
    return Backlogs(
        looked_at_ms=found.looked_at_ms,
        backlogs=found.backlogs,
        prepared=0,
        oldest_prepared_at_ms=None,
        unreadable=(),
    )


OVERVIEW = View("/", OverviewAsked, look_over, Overview, "What every destination holds, and what needs somebody",
                "overview.html")  # fmt: skip
