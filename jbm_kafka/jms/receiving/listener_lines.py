"""Log lines of listeners that raise: in an outage of what they call, each message's does.

docs/logging.md lists the lines.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from jbm_kafka.core.log_fields import log_fields
from jbm_kafka.core.log_rate_limit import Burst, LogRateLimit
from jbm_kafka.jms.base.error_lines import tell_error
from jbm_kafka.jms.base.exception_listener import ended_by

log = logging.getLogger("jbm_kafka.jms.receiving.listening")

INTERVAL_MS = 5_000
EACH_MAX = 5
"""So many of one destination and type of error have a line of their own; more in an interval are one with a count."""


class _Kind(NamedTuple):
    """Failures that share one line of the log."""

    destination: str
    error: type[BaseException]


class ListenerLines:
    """The lines of one session. Its listeners' thread only; times are monotonic milliseconds."""

    def __init__(self, called: str = "listener") -> None:
        self._called = called
        """The name of what raised, for people."""
        self._bursts: LogRateLimit[_Kind] = LogRateLimit(interval_ms=INTERVAL_MS, each_max=EACH_MAX)
        self._traced: set[_Kind] = set()
        """The kinds whose traceback the log has, in the burst that goes on."""

    @property
    def has_counted(self) -> bool:
        """Something may be due soon."""
        return bool(self._traced)

    def raised(
        self,
        message_id: str | None,
        destination: str,
        error: BaseException,
        what_follows: str,
        now_ms: int,
        place: tuple[int, int] | None = None,
        attempt: int | None = None,
    ) -> None:
        """The listener of a message did; the first of its kind with its traceback. Never raises."""
        kind = _Kind(destination, type(error))
        if not self._bursts.note(kind, now_ms):
            return
        is_first = kind not in self._traced
        self._traced.add(kind)
        tell_error(
            log,
            logging.WARNING,
            "message %s of %s: its %s %s; %s",
            message_id,
            destination,
            self._called,
            ended_by(error, again=not is_first),
            what_follows,
            error=error if is_first else None,
            extra=_fields(destination, type(error), message_id, place, attempt),
        )

    def tell_due(self, now_ms: int) -> None:
        """Tell what was counted for an interval. Called again and again."""
        if not self._traced:
            return
        self._tell(self._bursts.due(now_ms))
        self._traced = {kind for kind in self._traced if kind in self._bursts}

    def end(self, now_ms: int) -> None:
        """Tell what was counted: nothing more comes."""
        self._tell(self._bursts.end(now_ms))

    def _tell(self, bursts: Sequence[Burst[_Kind]]) -> None:
        for kind, events, duration_ms in bursts:
            log.warning(
                "%s: its %s raised %s %d more times within %.1f s",
                kind.destination,
                self._called,
                kind.error.__name__,
                events,
                duration_ms / 1000,
                extra=_fields(kind.destination, kind.error),
            )


def _fields(
    destination: str,
    error: type[BaseException],
    message_id: str | None = None,
    place: tuple[int, int] | None = None,
    attempt: int | None = None,
) -> dict[str, object]:
    """Of a destination's text its name, as in the lines of the sidecar; `place`: partition and offset."""
    name, (partition, offset) = destination.partition(":")[2] or destination, place or (None, None)
    return log_fields(name, partition, offset, message_id, attempt=attempt, reason=error.__name__)
