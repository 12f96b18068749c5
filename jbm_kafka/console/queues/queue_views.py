"""One queue or subscription: what it holds over time, why it does not move, its units, partitions and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from jbm_kafka.admin import Explanation, Pause, QueueCounts
from jbm_kafka.console.frame.console import Console
from jbm_kafka.console.frame.long_looks import tell_progress
from jbm_kafka.console.frame.source_name import SourceName
from jbm_kafka.console.frame.view import FRESH_S, MOMENT_S, View
from jbm_kafka.console.frame.viewer import Viewer
from jbm_kafka.console.queues.overview import DestinationRow, row_of
from jbm_kafka.core.channel.backlog import Backlog, Backlogs
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.settings.address_pattern import matches, specificity
from jbm_kafka.core.settings.address_settings import ResolvedSettings

EXPLAIN_S = 4.0
"""Processes that receive may take so long to answer."""
UNITS_FROM = 20_000
"""Messages that are read to tell of units."""
UNITS_SHOWN = 50
TOLD_EACH = 1_000
CHART_STEPS = 360


class SourceAsked(BaseModel):
    """Which queue, or which subscription of a topic."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: str
    subscription: str = ""
    client_id: str = ""

    @property
    def source(self) -> SourceName:
        """The same as a value."""
        return SourceName(name=self.name, subscription=self.subscription, client_id=self.client_id)


class WhyAsked(SourceAsked):
    """And which unit or message of it."""

    unit: str = Field("", description="Only this unit of order.")
    message_id: str = Field("", description="Only this message.")
    older_than_s: float = Field(0.0, ge=0, description="Only what was sent longer ago.")


class UnitsAsked(SourceAsked):
    """And in which order."""

    by: Literal["length", "age"] = "length"


class QueuePage(BaseModel):
    """The page of a queue with all that is known at once, from what is followed."""

    source: SourceName
    row: DestinationRow | None
    """None: nothing was found of it yet."""
    pause: Pause
    looked_at_ms: int | None


class WhyPage(BaseModel):
    """Why it does not move."""

    source: SourceName
    asked: WhyAsked
    explanation: Explanation


class UnitRow(BaseModel):
    """A unit of order."""

    unit: str
    messages: int
    share: float
    """The share of all that was read, from 0 to 1."""
    oldest_at_ms: int
    attempts: int
    """The most of any of its messages."""


class UnitsPage(BaseModel):
    """The units that hold most, or wait longest."""

    source: SourceName
    by: str
    units: Sequence[UnitRow]
    units_in_all: int
    messages: int
    """That were read."""
    without_unit: int
    is_whole: bool
    """All that is held was read."""


class PartitionsPage(BaseModel):
    """Partitions, and who has them."""

    source: SourceName
    counts: QueueCounts
    members: Mapping[str, Sequence[int]]
    """The partitions of each member."""


class SettingRow(BaseModel):
    """A setting of the destination."""

    name: str
    value: str
    pattern: str
    """The pattern for which it is recorded; empty: it is not recorded."""
    usual: str
    """The value without any setting."""


class SettingsPage(BaseModel):
    """Settings in force. What a process's own factory says is known to that process alone; what is recorded wins."""

    source: SourceName
    settings: Sequence[SettingRow]


class ChartSeries(BaseModel):
    """One line of a chart."""

    name: str
    values: Sequence[float | None]


class ChartPage(BaseModel):
    """The last hour, for a chart: all series have a value at each of the times."""

    source: SourceName
    at_s: Sequence[float]
    series: Sequence[ChartSeries]


def look_at_queue(console: Console, viewer: Viewer, asked: SourceAsked) -> QueuePage:
    """Its page. Raises InvalidDestinationError: there is none of this name."""
    source, found = asked.source, console.backlogs(viewer)
    backlog = _backlog(found, source)
    row = None
    if backlog is None:
        check_there(console, source)
    else:
        row = row_of(console, backlog, has_letters=backlog.destination in console.letter_queues())
    pause = console.admin.paused(source.destination)
    return QueuePage(source=source, row=row, pause=pause, looked_at_ms=None if found is None else found.looked_at_ms)


def check_there(console: Console, source: SourceName) -> None:
    """Raises InvalidDestinationError when there is no such queue or subscription."""
    if not console.admin.exists(source.destination):
        raise InvalidDestinationError(f"{source.destination}: there is none of this name")
    if source.subscription and not any(
        (each.name, each.client_id) == (source.subscription, source.client_id)
        for each in console.admin.subscriptions(source.name)
    ):
        raise InvalidDestinationError(f"{source.title}: the topic has no such subscription")


def look_why(console: Console, _: Viewer, asked: WhyAsked) -> WhyPage:
    """Return what `Admin.explain` says."""
    source = asked.source
    which: dict[str, Any] = {"older_than_s": asked.older_than_s}
    if asked.unit:
        which["unit"] = asked.unit
    if asked.message_id:
        which["message_id"] = asked.message_id
    explanation = console.admin.explain(
        source.destination, **source.arguments, **which, timeout_s=EXPLAIN_S, tell=tell_progress
    )
    return WhyPage(source=source, asked=asked, explanation=explanation)


def look_at_units(console: Console, _: Viewer, asked: UnitsAsked) -> UnitsPage:
    """The units of what is held, the first messages of it where there are many."""
    source = asked.source
    rows: dict[str, UnitRow] = {}
    read = without = 0
    looked = iter(console.admin.browse(source.destination, **source.arguments, include="all"))
    for message in islice(looked, UNITS_FROM):
        read += 1
        if read % TOLD_EACH == 0:
            tell_progress(f"{read:,} messages read")
        if message.unit_of_order is None:
            without += 1
            continue
        row = rows.setdefault(
            message.unit_of_order,
            UnitRow(unit=message.unit_of_order, messages=0, share=0, oldest_at_ms=message.timestamp, attempts=0),
        )
        row.messages += 1
        row.oldest_at_ms = min(row.oldest_at_ms, message.timestamp)
        row.attempts = max(row.attempts, (message.delivery_count or 1) - 1)
    is_whole = read < UNITS_FROM or next(looked, None) is None
    for row in rows.values():
        row.share = row.messages / read
    longest = sorted(rows.values(), key=lambda row: (-row.messages, row.oldest_at_ms))
    oldest = sorted(rows.values(), key=lambda row: (row.oldest_at_ms, -row.messages))
    return UnitsPage(
        source=source,
        by=asked.by,
        units=(longest if asked.by == "length" else oldest)[:UNITS_SHOWN],
        units_in_all=len(rows),
        messages=read,
        without_unit=without,
        is_whole=is_whole,
    )


def look_at_partitions(console: Console, _: Viewer, asked: SourceAsked) -> PartitionsPage:
    """Its logs and who has them; messages are not read for it."""
    source = asked.source
    counts = console.admin.counts(source.destination, **source.arguments, count_max=0)
    members: dict[str, list[int]] = {}
    for partition, member in sorted(counts.owners.items()):
        members.setdefault(member, []).append(partition)
    return PartitionsPage(source=source, counts=counts, members=members)


def look_at_settings(console: Console, _: Viewer, asked: SourceAsked) -> SettingsPage:
    """Return what is recorded for it, setting by setting, by the most specific pattern."""
    recorded = console.admin.address_settings()
    usual = ResolvedSettings()
    rows = []
    fitting = sorted((each for each in recorded if matches(each, asked.name)), key=specificity, reverse=True)
    for name in sorted(each for each in ResolvedSettings.__dataclass_fields__ if each != "keeps_given_up"):
        pattern = next((each for each in fitting if name in recorded[each].given()), "")
        value = recorded[pattern].given()[name] if pattern else getattr(usual, name)
        if not pattern and name == "dead_letter_address":
            value = console.admin.dead_letter_queue().name
        rows.append(SettingRow(name=name, value=_said(value), pattern=pattern, usual=_said(getattr(usual, name))))
    return SettingsPage(source=asked.source, settings=rows)


def look_at_chart(console: Console, viewer: Viewer, asked: SourceAsked) -> ChartPage:
    """The last hour as the console has seen it."""
    backlog = _backlog(console.backlogs(viewer), asked.source)
    key = (asked.name, "") if backlog is None else (backlog.destination, backlog.subscription)
    moments = console.history.moments(key)
    rates = {each.at_ms: each for each in console.history.rates(key, CHART_STEPS)}
    times = sorted({each.at_ms for each in moments} | rates.keys())
    states = ("held", "ready", "delayed", "blocked", "on_hold", "prepared")
    at = {each.at_ms: each for each in moments}
    series = [ChartSeries(name=name, values=[getattr(at.get(t), name, None) for t in times]) for name in states]
    series += [
        ChartSeries(name=name, values=[getattr(rates.get(t), name, None) for t in times])
        for name in ("incoming", "outgoing")
    ]
    return ChartPage(source=asked.source, at_s=[each / 1_000 for each in times], series=series)


def _backlog(found: Backlogs | None, source: SourceName) -> Backlog | None:
    if found is None:
        return None
    return next((each for each in found.backlogs if SourceName.of(each) == source), None)


def _said(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(getattr(value, "value", value))


_PARTS: tuple[tuple[str, type[BaseModel], Any, type[BaseModel], str, str, float | None], ...] = (
    ("", SourceAsked, look_at_queue, QueuePage, "What it holds now", "queue.html", MOMENT_S),
    ("/why", WhyAsked, look_why, WhyPage, "Why it does not move", "why.html", FRESH_S),
    ("/units", UnitsAsked, look_at_units, UnitsPage, "Its units of order", "units.html", FRESH_S),
    (
        "/partitions",
        SourceAsked,
        look_at_partitions,
        PartitionsPage,
        "Its partitions and members",
        "partitions.html",
        FRESH_S,
    ),
    ("/settings", SourceAsked, look_at_settings, SettingsPage, "Settings in force", "settings.html", FRESH_S),
    ("/history", SourceAsked, look_at_chart, ChartPage, "The last hour", "", None),
)
QUEUE_VIEWS: tuple[View, ...] = tuple(
    View(base + tail, asked, look, gives, summary, template, fresh_s=fresh_s)
    for base in ("/queues/{name}", "/topics/{name}/subscription")
    for tail, asked, look, gives, summary, template, fresh_s in _PARTS
)
