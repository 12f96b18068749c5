"""Log lines about lost connections. docs/logging.md lists them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from jbm_kafka.core.log_rate_limit import LogRateLimit
from jbm_kafka.ports import Clock

log = logging.getLogger("jbm_kafka.connections")

INTERVAL_MS = 30_000
"""One line in so long a time: while a broker is away each try is one more lost connection."""


class ConnectionLines:
    """The lines of one channel group; its owner thread's."""

    def __init__(self, queue: object, clock: Clock, then: Callable[[], None]) -> None:
        """`then`: what else is done when a connection is lost."""
        self._queue = str(queue)
        self._clock = clock
        self._then = then
        self._bursts: LogRateLimit[str] = LogRateLimit(interval_ms=INTERVAL_MS, each_max=1)

    def broke(self) -> None:
        """A connection of its consumer was lost."""
        now_ms = self._clock.monotonic_ms()
        self._bursts.due(now_ms)
        if self._bursts.note(self._queue, now_ms):
            log.info("%s: a connection to Kafka was lost; the client connects again", self._queue)
        self._then()


class EndLines:
    """Lines for unanswered questions for a log's end: a receiver that does not wait asks again and again.

    Any thread.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._bursts: LogRateLimit[str] = LogRateLimit(interval_ms=INTERVAL_MS, each_max=1)

    def unknown(self, group: object, error: Exception) -> None:
        """There was no answer in time."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            due = self._bursts.due(now_ms)
            has_own_line = self._bursts.note(str(group), now_ms)
        for burst in due:
            log.info(
                "%s: the end of the log was not known %d more times within %.1f s",
                burst.key,
                burst.events,
                burst.duration_ms / 1000,
            )
        if has_own_line:
            log.info("%s: the end of the log is not known: %s", group, error)
