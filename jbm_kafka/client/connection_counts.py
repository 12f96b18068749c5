"""What one connection counts by itself: its sends, and how long its handlers take."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from jbm_kafka.core.counters import DurationCounter
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.statistics import DestinationStatistics, Histogram, Statistics, added
from jbm_kafka.core.temporary_name import TEMPORARY_TOPIC

SentByTopic = dict[str, int]
"""What a session sent, by Kafka topic; whoever is in a call of the session writes."""


class HandlerSeconds:
    """How long handlers and listeners took. Any thread notes; each in a counter of its own."""

    def __init__(self) -> None:
        self._by_thread: dict[tuple[str, int], DurationCounter] = {}

    def note(self, destination: Destination | None, begun_s: float) -> None:
        """One has ended now that began then, by the performance counter; whether it raised or not."""
        seconds = time.perf_counter() - begun_s
        key = _name_of(destination), threading.get_ident()
        counter = self._by_thread.get(key)
        if counter is None:
            counter = self._by_thread[key] = DurationCounter()
        counter.note(seconds)

    def by_destination(self) -> Mapping[str, Histogram]:
        """As of now."""
        found: dict[str, Histogram] = {}
        for (name, _), counter in list(self._by_thread.items()):
            found[name] = found.get(name, Histogram()) + counter.histogram()
        return found


class ConnectionCounts:
    """Those of sessions that have ended, and of those that go on."""

    def __init__(self) -> None:
        self.handlers = HandlerSeconds()
        self._ended: SentByTopic = {}

    def end(self, sent: SentByTopic) -> None:
        """A session has ended. The caller sees to it that this is called once, and by one thread at a time."""
        _add(self._ended, sent)

    def merged(self, statistics: Statistics, going_on: Iterable[SentByTopic]) -> Statistics:
        """What the provider knows, with what the connection counted."""
        sent: SentByTopic = {}
        for each in (self._ended, *going_on):
            _add(sent, each)
        handlers = self.handlers.by_destination()
        rows = {
            name: DestinationStatistics(
                destination=name, sent=sent.get(name, 0), handler_seconds=handlers.get(name, Histogram())
            )
            for name in sent.keys() | handlers.keys()
        }
        return replace(statistics, destinations=added(statistics, rows))


def _add(to: SentByTopic, sent: SentByTopic) -> None:
    for topic, count in list(sent.items()):
        name = TEMPORARY_TOPIC if topic.endswith(f".{TEMPORARY_TOPIC}") else topic
        to[name] = to.get(name, 0) + count


def _name_of(destination: Destination | None) -> str:
    if destination is None:
        return ""
    return TEMPORARY_TOPIC if destination.is_temporary else destination.name
