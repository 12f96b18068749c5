"""Limits log lines: the first events of a key get a line each, the later ones a count in each interval."""

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Burst(NamedTuple, Generic[Key]):
    """Events of one key that had no line of their own."""

    key: Key
    events: int
    duration_ms: int
    """In so long a time."""


class _Window:
    __slots__ = ("begin_ms", "counted", "logged")

    def __init__(self, begin_ms: int, logged: int) -> None:
        self.begin_ms = begin_ms
        self.logged = logged
        self.counted = 0


class LogRateLimit(Generic[Key]):
    """Says which events get a line of their own. Times are milliseconds of any clock that does not go back."""

    def __init__(self, *, interval_ms: int, each_max: int) -> None:
        """`each_max` events of a key get a line each; the count begins anew after an interval without one."""
        self._interval_ms = interval_ms
        self._each_max = each_max
        self._windows: dict[Key, _Window] = {}

    def __contains__(self, key: object) -> bool:
        """Some of it came within the latest interval, or was counted then."""
        return key in self._windows

    def note(self, key: Key, now_ms: int) -> bool:
        """Note one more event: True when it gets a line of its own; else it is counted, and `due` returns the count."""
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _Window(now_ms, 0)
        if window.logged < self._each_max:
            window.logged += 1
            return True
        window.counted += 1
        return False

    def next_line(self, key: Key, now_ms: int) -> int | None:
        """Note one more event of a trouble that lasts, which has one line an interval: None when it gets none, else how
        many had none since the last line."""
        window = self._windows.get(key)
        if window is not None and now_ms - window.begin_ms < self._interval_ms:
            window.counted += 1
            return None
        self._windows[key] = _Window(now_ms, self._each_max)
        return 0 if window is None else window.counted

    def due(self, now_ms: int) -> list[Burst[Key]]:
        """Return what was counted of the keys whose interval is over; one of which nothing came is forgotten."""
        if not self._windows:
            return []
        found: list[Burst[Key]] = []
        over = [row for row in self._windows.items() if now_ms - row[1].begin_ms >= self._interval_ms]
        for key, window in over:
            if window.counted:
                found.append(Burst(key, window.counted, now_ms - window.begin_ms))
                self._windows[key] = _Window(now_ms, self._each_max)
            else:
                del self._windows[key]
        return found

    def end(self, now_ms: int) -> list[Burst[Key]]:
        """All that was counted and not yet returned; then it begins anew."""
        found = [
            Burst(key, window.counted, now_ms - window.begin_ms)
            for key, window in self._windows.items()
            if window.counted
        ]
        self._windows.clear()
        return found
