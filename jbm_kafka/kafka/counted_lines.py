"""Lines of librdkafka's that say one thing again and again: the first one, and then a count.

After a broker's restart each transactional producer says ten times a second that it has no coordinator yet, and each
client of each partition that it has no leader. docs/logging.md lists the lines.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import cache

from jbm_kafka.core.log_rate_limit import LogRateLimit

LOG = logging.getLogger("jbm_kafka.kafka")

INTERVAL_MS = 30_000
"""One count in so long a time, as of lost connections."""

_COUNTED = ("GETPID", "METADATAUPDATE", "REQTMOUT")
"""Lines that many clients write about one event, with nothing but names and numbers that differ."""
_FENCED = ("fenced by a newer instance", "with an old epoch")


def is_of_fence(text: str) -> bool:
    """It is about a transactional id that another producer has taken: the same ten times a second while both go on."""
    return any(each in text for each in _FENCED)


class CountedLines:
    """The lines of all clients of one cluster. Any thread."""

    def __init__(self, now_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._bursts: LogRateLimit[str] = LogRateLimit(interval_ms=INTERVAL_MS, each_max=1)

    def is_logged(self, text: str) -> bool:
        """True when the line is to be logged; else it is only counted."""
        kind = text.partition(" ")[0]
        if kind not in _COUNTED and not is_of_fence(text):
            return True
        self.tell_due()
        with self._lock:
            return self._bursts.note(kind, self._now_ms())

    def tell_due(self) -> None:
        """Tell what was counted for an interval. Called again and again."""
        with self._lock:
            due = self._bursts.due(self._now_ms())
        for burst in due:
            LOG.info("%s: %d more such lines within %.1f s", burst.key, burst.events, burst.duration_ms / 1000)


@cache
def counted_at(bootstrap: str) -> CountedLines:
    """Return those of all clients of this process with the address."""
    return CountedLines()
