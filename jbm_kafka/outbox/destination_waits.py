"""Which destinations a relay leaves alone for a while, so that one that takes nothing does not stop the others."""

from __future__ import annotations

from collections.abc import Iterable

FIRST_WAIT_MS, LONGEST_WAIT_MS = 500, 30_000


def next_wait_ms(before_ms: int) -> int:
    """How long to wait after a failure, when before it was so long."""
    return min(max(2 * before_ms, FIRST_WAIT_MS), LONGEST_WAIT_MS)


class DestinationWaits:
    """Destinations that took nothing: each is tried alone, when its wait is over."""

    def __init__(self) -> None:
        self._until_ms: dict[str, int] = {}
        self._last_ms: dict[str, int] = {}
        self._reasons: dict[str, str] = {}

    def __contains__(self, destination: str) -> bool:
        return destination in self._until_ms

    @property
    def names(self) -> list[str]:
        """Return the names of all of them."""
        return list(self._until_ms)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return why each of them failed that has failed alone, a sentence each."""
        return tuple(f"{name} waits: {reason}" for name, reason in self._reasons.items())

    def due(self, now_ms: int) -> list[str]:
        """Return those to be tried now."""
        return [name for name, until_ms in self._until_ms.items() if until_ms <= now_ms]

    def suspect(self, destinations: Iterable[str], now_ms: int) -> None:
        """One of them has made a common transaction fail: each is to be tried alone, at once."""
        for name in destinations:
            self._until_ms.setdefault(name, now_ms)
            self._last_ms.setdefault(name, 0)

    def fail(self, destination: str, reason: str, now_ms: int) -> None:
        """It has failed by itself: it waits, each time longer."""
        wait_ms = self._last_ms[destination] = next_wait_ms(self._last_ms.get(destination, 0))
        self._until_ms[destination] = now_ms + wait_ms
        self._reasons[destination] = reason

    def release(self, destination: str) -> None:
        """It takes messages again."""
        for each in (self._until_ms, self._last_ms, self._reasons):
            each.pop(destination, None)
