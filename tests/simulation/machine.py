"""What stays when a simulated process dies: its clock, its journal, its state folder."""

from __future__ import annotations

from dataclasses import dataclass

from jbm_kafka.memory.memory_journal import MemoryJournal
from tests.support.manual_clock import ManualClock


class MachineClock:
    """Implements `ports.Clock`: the time that passes for all, on a wall clock that somebody sets."""

    def __init__(self, base: ManualClock) -> None:
        self._base = base
        self._ahead_ms = self._ahead_ms_max = 0
        self.jumps = 0
        """How often it was set forward, which ends delays early."""

    def now_ms(self) -> int:
        return self._base.now_ms() + self._ahead_ms

    def monotonic_ms(self) -> int:
        return self._base.monotonic_ms()

    def jump(self, difference_ms: int) -> None:
        """Set it forward or back."""
        self._ahead_ms += difference_ms
        self._ahead_ms_max = max(self._ahead_ms_max, self._ahead_ms)
        self.jumps += difference_ms > 0

    def latest_ms(self) -> int:
        """It never showed more than this, whatever it was set to."""
        return self._base.now_ms() + self._ahead_ms_max


@dataclass(slots=True)
class Machine:
    """What stays when a process dies."""

    name: str
    clock: MachineClock
    journal: MemoryJournal
    folder: str
    """Name of the state folder: a new one has a new transactional id."""
    folders: int = 0

    def lose_state(self) -> None:
        """The state folder is deleted; the next process makes another."""
        self.journal = MemoryJournal(clock=self.clock)
        self.folders += 1
        self.folder = f"{self.name}-{self.folders}"
