"""Group workers that checkpoints go on without for a while: what one participant cannot write stops no other."""

from __future__ import annotations

from collections.abc import Iterable

from jbm_kafka.ports import Clock
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Participant
from jbm_kafka.sidecar.log_lines.partition_lines import FenceLines, TwinLines

FENCED_PAUSE_MS = 100
"""A fenced participant is left out for this long: its group tells it what it still owns meanwhile."""
REFUSED_PAUSE_MS = 1_000
"""A participant whose records Kafka refused; twice as long each time again, for every try costs the others an abort."""
REFUSED_PAUSE_MAX_MS = 30_000


class Backoff:
    """Who is left out for how long. The checkpoint thread only."""

    def __init__(self, clock: Clock) -> None:
        self.lines = FenceLines()
        self.twin = TwinLines()
        self._clock = clock
        self._until_ms: dict[Participant, int] = {}
        self._pause_ms: dict[Participant, int] = {}
        """How long a participant that was refused was left out the last time."""

    def now(self) -> frozenset[Participant]:
        """Participants whose pause has not ended."""
        now_ms = self._clock.monotonic_ms()
        self._until_ms = {one: until_ms for one, until_ms in self._until_ms.items() if until_ms > now_ms}
        self._pause_ms = {one: pause_ms for one, pause_ms in self._pause_ms.items() if one.is_alive}
        return frozenset(self._until_ms)

    def fenced(self, participants: Iterable[Participant]) -> None:
        """Their groups do not know them at present."""
        until_ms = self._clock.monotonic_ms() + FENCED_PAUSE_MS
        self._until_ms.update((participant, until_ms) for participant in participants)

    def refused(self, participants: Iterable[Participant]) -> None:
        """Kafka refused something of theirs."""
        now_ms = self._clock.monotonic_ms()
        for participant in participants:
            pause_ms = min(2 * self._pause_ms.get(participant, REFUSED_PAUSE_MS // 2), REFUSED_PAUSE_MAX_MS)
            self._pause_ms[participant] = pause_ms
            self._until_ms[participant] = now_ms + pause_ms

    def pause_ms(self, participant: Participant) -> int:
        """How long it was left out after the latest refusal; 0: it took part since, or was never refused."""
        return self._pause_ms.get(participant, 0)

    def took_part(self, participants: Iterable[Participant]) -> None:
        """A checkpoint with them was committed."""
        if self._pause_ms:
            for participant in participants:
                self._pause_ms.pop(participant, None)
