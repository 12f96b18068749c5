"""Who waits to change the registry, in the order of its log: decision 99.

Nothing is decided by it, and nobody relies on it: who does not wait, as an older version, only overtakes others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from jbm_kafka.codec.registry_records import TURN, turn_key
from jbm_kafka.ports import Clock

PATIENCE_MS = 500
"""Four times so long the first may take until those behind it think it dead, and once more for each that is before
them, so that they do not all go at once. Where all are slow it is as long as a call of ours took."""


class WriterQueue:
    """The queue of those who wait, as read last. Any thread may ask; one at a time takes."""

    def __init__(self, clock: Clock, chance: Callable[[], float]) -> None:
        self._clock = clock
        self._chance = chance
        self._waiting: dict[bytes, None] = {}
        """Turns by their places in the log."""
        self._first_since_ms = 0
        """When the one that is the first now was seen to be it."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def new(self) -> bytes:
        """The key of one more turn."""
        if not self._waiting:
            self._first_since_ms = self._clock.monotonic_ms()
        return turn_key(int(self._chance() * 2**52))

    def take(self, key: bytes, value: bytes | None) -> bool:
        """A record that was read; True: it was of a turn."""
        if not key.startswith(TURN):
            return False
        first = next(iter(self._waiting), None)
        if value is None:
            self._waiting.pop(key, None)
        else:
            self._waiting.setdefault(key)
        if next(iter(self._waiting), None) != first:
            self._first_since_ms = self._clock.monotonic_ms()
        return True

    def clear(self) -> None:
        """The topic is another one."""
        self._waiting.clear()

    def has(self, turn: bytes) -> bool:
        """It was read, and is not over."""
        return turn in self._waiting

    def until(self, turn: bytes) -> Sequence[bytes]:
        """Return those that come before it, and itself."""
        before = list(itertools.takewhile(lambda each: each != turn, list(self._waiting)))
        return [*before, turn]

    def has_come(self, turn: bytes, since_ms: int, pace_ms: int) -> bool:
        """It is the first, or the first has done nothing for long.

        Behind an open transaction nobody sees it, and who opened that may be dead, too.

        `since_ms`: we have had patience since then, monotonic; `pace_ms`: so long things take now.
        """
        before = len(self.until(turn)) - 1
        if not before and self.has(turn):
            return True
        idle_ms = self._clock.monotonic_ms() - max(since_ms, self._first_since_ms)
        return idle_ms >= max(PATIENCE_MS, pace_ms) * (4 + before)
