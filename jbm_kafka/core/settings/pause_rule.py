"""When a handler pauses: after so many failures in a row, for a while, and then for one message at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass

from jbm_kafka.core.durations import LONGEST_MS
from jbm_kafka.core.wrong_values import checked_int, is_int, wrong_type, wrong_value

FAILURES_MAX = 1_000_000
_TEXT = re.compile(r"\s*(\d{1,7}) failures?(?: in a row)? for (\d+(?:\.\d+)?) ?(s|min|h)\s*")
_SECONDS = {"s": 1, "min": 60, "h": 3_600}
_FOR_S = "it is a number of seconds, more than 0"


@dataclass(frozen=True, slots=True)
class PauseOn:
    """A handler that failed so often in a row receives nothing for so many seconds, and then tries one message.

    Raises:
        InvalidSettingError: it cannot be; `failures` is an int from 1 to 1,000,000, `for_s` more than 0.
    """

    failures: int
    for_s: float

    def __post_init__(self) -> None:
        checked_int("failures", self.failures, 1, FAILURES_MAX, "failures in a row")
        if not is_int(self.for_s) and not isinstance(self.for_s, float):
            raise wrong_type("for_s", self.for_s, _FOR_S)
        if not 0 < self.for_s <= LONGEST_MS / 1_000:
            raise wrong_value("for_s", self.for_s, _FOR_S)


def checked_pause(name: str, value: object) -> PauseOn | None:
    """The rule, also as a text; None: there is none.

    Raises:
        InvalidSettingError: it is none.
    """
    rule = "it is PauseOn(failures=5, for_s=30), or '5 failures in a row for 30 s' (s, min or h)"
    if value is None or isinstance(value, PauseOn):
        return value
    if not isinstance(value, str):
        raise wrong_type(name, value, rule)
    found = _TEXT.fullmatch(value)
    if found is None:
        raise wrong_value(name, value, rule)
    return PauseOn(int(found[1]), float(found[2]) * _SECONDS[found[3]])


class FailureRow:
    """The failures in a row of one handler. Times are milliseconds of a clock that does not go back; no lock."""

    def __init__(self, rule: PauseOn) -> None:
        self._rule = rule
        self.for_ms = max(1, round(rule.for_s * 1_000))
        """How long a pause is."""
        self._failures = 0
        self.paused_until_ms: int | None = None
        """It receives nothing until then; None: it does not pause."""
        self.is_trying = False
        """It had a pause, and nothing has gone well since: one message at a time."""

    def succeeded(self) -> None:
        """One went well. One that had begun before a pause does not end that, but what comes after it is as ever."""
        self._failures = 0
        self.is_trying = False

    def failed(self, now_ms: int) -> bool:
        """One failed; True: so a pause begins. One that had begun before a pause does not prolong it."""
        if self.paused_until_ms is not None:
            return False
        self._failures += 1
        if not self.is_trying and self._failures < self._rule.failures:
            return False
        self.paused_until_ms = now_ms + self.for_ms
        self.is_trying = True
        return True

    def resume(self, now_ms: int) -> bool:
        """Return True if the pause is over now; then it tries again."""
        if self.paused_until_ms is None or now_ms < self.paused_until_ms:
            return False
        self.paused_until_ms = None
        self._failures = 0
        return True
