"""Processes over one cluster in memory, each of which may be killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.memory.memory_held import MemoryHeldStore
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka, ProcessCrashed
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.steps import Steps, ThreadWorker, ThreadWorkers, Wait
from jbm_kafka.sidecar.runtime import Stores
from jbm_kafka.sidecar.sidecar import Sidecar
from tests.support.manual_clock import ManualClock

SESSION_TIMEOUT_MS = 3_000
LINGER_MS = 500


class MortalWorkers(ThreadWorkers):
    """Threads that end without a word when their process is killed; who waits lets the test's clock go on."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        self._clock.advance(int(seconds * 1000))

    def start(self, name: str, steps: Steps) -> ThreadWorker:
        return super().start(name, mortal(steps))


def mortal(steps: Steps) -> Iterator[Wait]:
    with suppress(ProcessCrashed):
        yield from steps


class Processes:
    """Sidecars over one cluster whose clock the test moves; each may be killed."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock)
        self.alive: list[Sidecar] = []

    def start(self, **numbers: int) -> tuple[MemoryKafka, Sidecar]:
        """`numbers`: other values of the sidecar's configuration."""
        kafka = MemoryKafka(self.cluster)
        config = SidecarConfig(
            session_timeout_ms=SESSION_TIMEOUT_MS,
            linger_ms=LINGER_MS,
            address_settings={"#": AddressSettings(partitions=2)},
        )
        config = replace(config, **numbers)  # type: ignore[arg-type]
        stores = Stores(
            MemoryJournal(clock=self.clock),
            MemoryHeldStore(),
            f"jbm.{len(self.alive)}",
            lambda: None,
            has_past=False,
        )
        sidecar = Sidecar(
            kafka=kafka, clock=self.clock, config=config, stores=stores, workers=MortalWorkers(self.clock)
        )
        self.alive.append(sidecar)
        return kafka, sidecar

    def kill(self, kafka: MemoryKafka, sidecar: Sidecar) -> None:
        self.alive.remove(sidecar)
        kafka.crash()

    def close(self) -> None:
        for sidecar in self.alive:
            sidecar.close()
