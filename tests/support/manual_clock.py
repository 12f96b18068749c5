"""A clock that moves only when told to."""

from collections.abc import Callable


class ManualClock:
    """Implements `ports.Clock`. Wall time can jump either way; monotonic time only goes forward."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0
        self._watchers: list[Callable[[], None]] = []

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, duration_ms: int) -> None:
        """Let time pass on both clocks, then tell the watchers."""
        assert duration_ms >= 0, duration_ms
        self._now_ms += duration_ms
        self._monotonic_ms += duration_ms
        for watcher in tuple(self._watchers):
            watcher()

    def jump(self, difference_ms: int) -> None:
        """Set the wall clock forward or back, as an administrator or NTP would; no time passes."""
        self._now_ms += difference_ms

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` after every advance, on the thread that advances."""
        self._watchers.append(watcher)
