"""Log lines about looks at the topics that brought nothing. docs/logging.md lists those of silence."""

from __future__ import annotations

import logging
from collections.abc import Callable

from jbm_kafka.ports import Clock, KafkaClientError, Unreachable

log = logging.getLogger(__name__)
connections = logging.getLogger("jbm_kafka.connections")

LOG_AGAIN_MS = 30_000
"""One pair of lines in so long a time, however often Kafka comes and goes."""


class TopicLog:
    """The log lines of one watch. Only its worker calls it."""

    def __init__(self, clock: Clock, back: Callable[[int], None]) -> None:
        """`back` is called, when the cluster answers again, with since when it did not, monotonic ms."""
        self._clock = clock
        self._back = back
        self._silent_since_ms: int | None = None
        """Since when the cluster does not answer, monotonic."""
        self._logged_since_ms: int | None = None
        """The same, if it was logged."""
        self._log_again_ms = clock.monotonic_ms()
        self._refusal = ""
        """The refusal of the latest look; it is logged once for all looks in a row."""

    @property
    def is_silent(self) -> bool:
        """The cluster did not answer the latest question; any thread may ask."""
        return self._silent_since_ms is not None

    def silent(self, error: Unreachable) -> None:
        """The cluster did not answer."""
        now_ms = self._clock.monotonic_ms()
        if self._silent_since_ms is None:
            self._silent_since_ms = now_ms
        if self._logged_since_ms is None and now_ms >= self._log_again_ms:
            self._logged_since_ms, self._log_again_ms = now_ms, now_ms + LOG_AGAIN_MS
            connections.warning("Kafka does not answer: %s; it is asked again until it does", error)
        else:
            log.debug("cannot look at topics: %s; it is tried again", error)

    def refused(self, error: KafkaClientError) -> None:
        """The cluster answered that something cannot be."""
        self._answered()
        refusal = str(error)
        level = logging.DEBUG if refusal == self._refusal else logging.WARNING
        self._refusal = refusal
        log.log(level, "a look at the topics was refused: %s; it is tried again until it succeeds", error)

    def looked(self) -> None:
        """A look succeeded."""
        self._answered()
        self._refusal = ""

    def _answered(self) -> None:
        if self._silent_since_ms is not None:
            self._back(self._silent_since_ms)
            self._silent_since_ms = None
        if self._logged_since_ms is not None:
            silent_ms = self._clock.monotonic_ms() - self._logged_since_ms
            self._logged_since_ms = None
            # At the level of the loss: a log of warnings alone is to show that it is over.
            connections.warning("Kafka answers again, after %.1f s", silent_ms / 1000)
