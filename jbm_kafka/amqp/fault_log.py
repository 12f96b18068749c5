"""Lines about what clients do wrong: short ones, and few of one client, whatever it sends and how often."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable

from jbm_kafka.amqp.shares import Whose
from jbm_kafka.core.failure_text import one_line_of
from jbm_kafka.core.log_rate_limit import LogRateLimit

log = logging.getLogger(__name__)

LINE_MAX = 500
"""Characters."""
EACH_MAX = 5
"""The lines of one kind about one client in an interval; the others are counted in one."""
INTERVAL_MS = 60_000
PLACES = 3
"""So many places of the program are told of an error that is not expected, the innermost first."""


class FaultLog:
    """Writes them. On the event loop."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """`now_ms`: of a clock that does not go back."""
        self._now_ms = now_ms
        self._limit: LogRateLimit[tuple[Whose, str]] = LogRateLimit(interval_ms=INTERVAL_MS, each_max=EACH_MAX)

    def note(self, whose: Whose, kind: str, text: str = "") -> None:
        """Write of a client's mistake, or count it. `kind`: one of few words of ours; `text`: maybe the client's."""
        if self._limit.note((whose, kind), self._now_ms()):
            log.warning("%s", _line(f"an AMQP client of {whose} {kind}{f': {text}' if text else ''}"))

    def note_error(self, whose: Whose, kind: str, error: BaseException) -> None:
        """Write of an error that is no JMSError: a client sent something that we had not thought of."""
        self.note(whose, kind, f"{one_line_of(repr(error))} at {_places(error)}")
        log.debug("the same with its traceback", exc_info=error)

    def count(self) -> None:
        """Write how many had no line of their own, when an interval is over."""
        for (whose, kind), events, duration_ms in self._limit.due(self._now_ms()):
            log.warning(
                "%s", _line(f"an AMQP client of {whose} {kind}: {events} times more in {duration_ms // 1000} s")
            )


def _line(text: str) -> str:
    """No client writes lines of its own, or speaks to a terminal."""
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text[: 2 * LINE_MAX])
    return one_line_of(shown, LINE_MAX)


def _places(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-PLACES:]
    return " < ".join(f"{each.filename.rpartition('/')[2]}:{each.lineno}" for each in reversed(frames)) or "no place"
