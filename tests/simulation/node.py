"""One simulated process with its sidecar, and the machine it runs on, which outlives it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from jbm_kafka.core.destination import Queue
from jbm_kafka.memory.memory_held import MemoryHeldStore
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.sidecar.lane import Lane
from jbm_kafka.sidecar.sidecar import Sidecar
from jbm_kafka.sidecar.stores import Stores
from tests.simulation.receiver import Receiver
from tests.simulation.workers import SteppedWorkers
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


class Node:
    """A process: from its start to its crash or its end."""

    def __init__(
        self,
        name: str,
        machine: Machine,
        *,
        cluster: MemoryCluster,
        clock: ManualClock,
        config: SidecarConfig,
        queues: list[str],
        chance: random.Random,
        meanwhile: Callable[[Node, float], None],
    ) -> None:
        self.name = name
        self.machine = machine
        self.clock = machine.clock
        self.kafka = MemoryKafka(cluster)
        self.workers = SteppedWorkers(clock, lambda seconds: meanwhile(self, seconds))
        self.receivers: list[Receiver] = []
        self.is_alive = True
        self.is_frozen = False
        self.is_stopping = False
        self._queues = queues
        stores = Stores(machine.journal, MemoryHeldStore(), f"jbm.{machine.folder}.0", lambda: None)
        self.sidecar = Sidecar(
            kafka=self.kafka,
            clock=machine.clock,
            config=config,
            stores=stores,
            workers=self.workers,
            chance=chance.random,
        )

    def lanes(self) -> Iterator[Lane]:
        """Those that are or were running."""
        for queue in self._queues:
            lane = self.sidecar.lane_of(Queue(queue))
            if lane is not None:
                yield lane

    def crash(self) -> None:
        """End as under SIGKILL."""
        self.kafka.crash()
        self.is_alive = False
        self.workers.kill()

    def freeze(self) -> None:
        """Stop as under SIGSTOP."""
        self.kafka.freeze()
        self.is_frozen = True

    def thaw(self) -> None:
        """Go on."""
        self.kafka.thaw()
        self.is_frozen = False

    @property
    def can_act(self) -> bool:
        """It lives and runs."""
        return self.is_alive and not self.is_frozen
