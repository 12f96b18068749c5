"""Which hours of a queue a run tells anew, from which messages on, and what was open at the end of each. No Spark.

An hour's row follows from the queue's messages and events alone, so an hour that is told again has the same row, but
for what came late. An hour of which a message is deleted, or an event, is not told: it keeps the row that it has.
"""

import heapq
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

HOUR_MS = 3_600_000
EVENTS_KEPT_MS = 6 * 24 * HOUR_MS
"""Kafka keeps events for a day more: what is younger is there, also of a queue of which there is none."""
HOURS_MAX = 10 * 366 * 24
"""A message may tell of any time at which it was sent."""


class Window(NamedTuple):
    """The hours of a queue that are told anew."""

    first_ms: int
    """The first of them, ms since the epoch."""
    sent_since_ms: int
    """Messages that were sent earlier had ended before that hour began."""


EVERYTHING = Window(0, 0)


def hour_of(at_ms: int) -> int:
    """Return when the hour began."""
    return at_ms - at_ms % HOUR_MS


def window_of(oldest_open: Mapping[int, int | None], now_ms: int, late_ms: int) -> Window:
    """Return those that ended less than `late_ms` ago, and those that were not over at the latest run.

    `oldest_open`: the hours of the queue that have rows, each with the time at which the oldest message was sent that
    was open at its end. Where the hour before the window has none, all hours are told anew.
    """
    if not oldest_open:
        return EVERYTHING
    first_ms = min(max(oldest_open), hour_of(now_ms - late_ms))
    before_ms = first_ms - HOUR_MS
    if before_ms not in oldest_open:
        return EVERYTHING
    open_ms = oldest_open[before_ms]
    return Window(first_ms, first_ms if open_ms is None else min(first_ms, open_ms))


def first_whole_hour(gone_until_ms: int | None, known_from_ms: int, now_ms: int) -> int:
    """Return the first hour of which every message and every event is there.

    `gone_until_ms`: the latest event of a message that is not there any more. `known_from_ms`: the oldest event, where
    older ones may be deleted.
    """
    known_ms = -(-min(known_from_ms, now_ms - EVENTS_KEPT_MS) // HOUR_MS) * HOUR_MS
    return known_ms if gone_until_ms is None else max(known_ms, hour_of(gone_until_ms) + HOUR_MS)


class KnownTopic(NamedTuple):
    """The Kafka topic of a queue, as a run found it."""

    topic_id: str
    whole_from_ms: int
    """Messages of earlier hours may have gone with a topic before it; 0: none did."""


def known_topic(before: KnownTopic | None, topic_id: str, *, is_kept: bool, now_ms: int) -> KnownTopic:
    """Return what is known of the topic now. Where it was made anew since the latest run, nothing tells which messages
    went with the one before, or until when it took some, unless an archive keeps it (`is_kept`)."""
    if before is None:
        return KnownTopic(topic_id, 0)
    if before.topic_id == topic_id:
        return before
    return KnownTopic(topic_id, before.whole_from_ms if is_kept else hour_of(now_ms) + HOUR_MS)


@dataclass(frozen=True, slots=True)
class TopicsRead:
    """The Kafka topics that one run reads: a queue may be made anew while it is at another one."""

    noted: Mapping[str, KnownTopic]
    """As earlier runs found them, by destination."""
    archived: AbstractSet[str]
    """The ids of those that the archive keeps."""
    found: dict[str, KnownTopic] = field(default_factory=dict)
    """As this run has read them."""

    def whole_from(self, destination: str, topic_id: str, read_ms: int) -> int:
        """Return from when on the topic with this id, which was read then, has all messages of the queue."""
        before = self.noted.get(destination)
        is_kept = before is not None and before.topic_id in self.archived
        self.found[destination] = known_topic(before, topic_id, is_kept=is_kept, now_ms=read_ms)
        return self.found[destination].whole_from_ms


class Span(NamedTuple):
    """Messages that were sent in one hour and ended in another one."""

    sent_hour_ms: int
    ended_hour_ms: int | None
    """None: they are open."""
    oldest_ms: int
    """When the oldest of them was sent."""


def oldest_open(spans: Iterable[Span], hours: Iterable[int]) -> dict[int, int | None]:
    """Return for each hour, in their order, when the oldest message was sent that was open at its end."""
    waiting = sorted(spans, key=lambda span: -span.sent_hour_ms)
    still: list[tuple[int, float]] = []
    found: dict[int, int | None] = {}
    for hour_ms in hours:
        while waiting and waiting[-1].sent_hour_ms <= hour_ms:
            span = waiting.pop()
            ended_ms = float("inf") if span.ended_hour_ms is None else span.ended_hour_ms
            heapq.heappush(still, (span.oldest_ms, ended_ms))
        while still and still[0][1] <= hour_ms:
            heapq.heappop(still)
        found[hour_ms] = still[0][0] if still else None
    return found


@dataclass(frozen=True, slots=True)
class QueueHours:
    """A queue's numbers as they were read."""

    counts: Mapping[int, Mapping[str, Any]]
    """The columns that count, by hour; an hour without any is missing."""
    spans: tuple[Span, ...]

    def rows(self, destination: str, first_ms: int, now_ms: int) -> list[dict[str, Any]]:
        """Return a row for each hour from that one on, the one that is not over yet among them."""
        latest_ms = hour_of(now_ms)
        earliest = min([*self.counts, *(span.sent_hour_ms for span in self.spans), latest_ms])
        begin_ms = max(first_ms or earliest, latest_ms - HOURS_MAX * HOUR_MS)
        hours = range(begin_ms, latest_ms + 1, HOUR_MS)
        is_open = oldest_open(self.spans, hours)
        rows = []
        for hour_ms in hours:
            end_ms, oldest_ms = min(hour_ms + HOUR_MS, now_ms), is_open[hour_ms]
            age_s = None if oldest_ms is None else max(end_ms - oldest_ms, 0) / 1_000
            known = self.counts.get(hour_ms, {})
            rows.append({
                "destination": destination, "hour_ms": hour_ms, "is_over": end_ms == hour_ms + HOUR_MS,
                **{name: known.get(name, 0) for name in COUNTS}, **{name: known.get(name) for name in WAITS},
                "oldest_open_ms": oldest_ms, "oldest_open_s": age_s,
            })  # fmt: skip
        return rows


COUNTS = ("sent", "acknowledged", "returned", "given_up", "expired", "findings")
WAITS = ("p50_s", "p99_s")
