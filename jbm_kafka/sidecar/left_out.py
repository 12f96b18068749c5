"""Lanes that checkpoints go on without for a while, so that what one lane cannot write stops no other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from jbm_kafka.ports import Clock

if TYPE_CHECKING:
    from jbm_kafka.sidecar.lane import Lane

FENCED_PAUSE_MS = 100
"""A fenced lane is left out for this long: its group tells it what it still owns meanwhile."""
REFUSED_PAUSE_MS = 1_000
"""A lane whose records Kafka refused; twice as long each time again, for every try costs the others an abort."""
REFUSED_PAUSE_MAX_MS = 30_000


class LeftOut:
    """The checkpoint thread only."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_ms: dict[Lane, int] = {}
        self._pause_ms: dict[Lane, int] = {}
        """How long a lane that was refused was left out the last time."""

    def now(self) -> frozenset[Lane]:
        """Whose time is not over."""
        now_ms = self._clock.monotonic_ms()
        self._until_ms = {lane: until_ms for lane, until_ms in self._until_ms.items() if until_ms > now_ms}
        self._pause_ms = {lane: pause_ms for lane, pause_ms in self._pause_ms.items() if lane.is_alive}
        return frozenset(self._until_ms)

    def fenced(self, lanes: Iterable[Lane]) -> None:
        """Their groups do not know them at present."""
        until_ms = self._clock.monotonic_ms() + FENCED_PAUSE_MS
        self._until_ms.update((lane, until_ms) for lane in lanes)

    def refused(self, lanes: Iterable[Lane]) -> None:
        """Kafka took something of theirs not."""
        now_ms = self._clock.monotonic_ms()
        for lane in lanes:
            pause_ms = min(2 * self._pause_ms.get(lane, REFUSED_PAUSE_MS // 2), REFUSED_PAUSE_MAX_MS)
            self._pause_ms[lane] = pause_ms
            self._until_ms[lane] = now_ms + pause_ms

    def took_part(self, lanes: Iterable[Lane]) -> None:
        """A checkpoint with them was committed."""
        if self._pause_ms:
            for lane in lanes:
                self._pause_ms.pop(lane, None)
