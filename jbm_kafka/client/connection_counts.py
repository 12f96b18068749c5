"""Counts for one connection by itself: its sends, and how long its handlers take."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from jbm_kafka.core.channel.counters import DurationCounter
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.statistics import DestinationStatistics, Histogram, Statistics, added
from jbm_kafka.core.temporary_name import TEMPORARY_TOPIC

SentByTopic = dict[str, int]
"""A session's sends by Kafka topic; whoever is in a call of the session writes."""


class HandlerSeconds:
    """How long handlers and listeners took. Any thread notes; each in a counter of its own."""

    def __init__(self) -> None:
        self._by_thread: dict[tuple[str, int], DurationCounter] = {}

    def note(self, destination: Destination | None, begun_s: float) -> None:
        """Count a call that ends now and began then, by the performance counter, whether it raised or not."""
        seconds = time.perf_counter() - begun_s
        key = _name_of(destination), threading.get_ident()
        counter = self._by_thread.get(key)
        if counter is None:
            counter = self._by_thread[key] = DurationCounter()
        counter.note(seconds)

    def by_destination(self) -> Mapping[str, Histogram]:
        """Return a copy of the counts as they are now."""
        found: dict[str, Histogram] = {}
        for (name, _), counter in list(self._by_thread.items()):
            found[name] = found.get(name, Histogram()) + counter.histogram()
        return found


LimitCount = Literal["handler_timeouts", "handlers_overdue", "handler_pauses", "handlers_paused"]
"""A count's name in the statistics."""


class HandlerLimitCounts:
    """How often handlers met their limits. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_destination: dict[str, Counter[LimitCount]] = {}

    def add(self, destination: Destination | None, count: LimitCount, by: int = 1) -> None:
        """Count so many more, or less, of a handler of this destination."""
        with self._lock:
            self._by_destination.setdefault(_name_of(destination), Counter())[count] += by

    def by_destination(self) -> Mapping[str, Mapping[LimitCount, int]]:
        """Return a copy of the counts as they are now."""
        with self._lock:
            return {name: dict(counts) for name, counts in self._by_destination.items()}


class ConnectionCounts:
    """The counts of sessions that have ended, and of those that go on."""

    def __init__(self) -> None:
        self.handlers = HandlerSeconds()
        self.limits = HandlerLimitCounts()
        self._ended: SentByTopic = {}

    def end(self, sent: SentByTopic) -> None:
        """Add the counts of a session that has ended. The caller calls this once, and by one thread at a time."""
        _add(self._ended, sent)

    def merged(self, statistics: Statistics, going_on: Iterable[SentByTopic]) -> Statistics:
        """Return what the provider knows, with what the connection counted."""
        sent: SentByTopic = {}
        for each in (self._ended, *going_on):
            _add(sent, each)
        handlers, limits = self.handlers.by_destination(), self.limits.by_destination()
        names = sent.keys() | handlers.keys() | limits.keys()
        rows = {name: _row(name, sent.get(name, 0), handlers.get(name), limits.get(name, {})) for name in names}
        return replace(statistics, destinations=added(statistics, rows))


def _row(name: str, sent: int, handlers: Histogram | None, limits: Mapping[LimitCount, int]) -> DestinationStatistics:
    return DestinationStatistics(
        destination=name,
        sent=sent,
        handler_seconds=Histogram() if handlers is None else handlers,
        handler_timeouts=limits.get("handler_timeouts", 0),
        handlers_overdue=limits.get("handlers_overdue", 0),
        handler_pauses=limits.get("handler_pauses", 0),
        handlers_paused=limits.get("handlers_paused", 0),
    )


def _add(to: SentByTopic, sent: SentByTopic) -> None:
    """Add the counts of `sent` to those of `to`; all temporary destinations count under one name."""
    for topic, count in list(sent.items()):
        name = TEMPORARY_TOPIC if topic.endswith(f".{TEMPORARY_TOPIC}") else topic
        to[name] = to.get(name, 0) + count


def _name_of(destination: Destination | None) -> str:
    if destination is None:
        return ""
    return TEMPORARY_TOPIC if destination.is_temporary else destination.name
