"""Whole sidecars over one in-memory Kafka, in the test's own thread, which stops any of their work between steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from jbm_kafka.core.destination import Queue
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.memory.memory_held import MemoryHeldStore
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import Clock, Outgoing
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from jbm_kafka.sidecar.runtime import Stores
from jbm_kafka.sidecar.sidecar import Sidecar
from tests.sidecar.parts import link_of
from tests.simulation.workers import SteppedWorker, SteppedWorkers
from tests.support.manual_clock import ManualClock

CHECKPOINTS = "jbm-checkpoint"
QUEUE = Queue("orders")
TURN_MS = 5
TURNS_MAX = 20_000


class SteppedSidecar:
    """One process; `run` lets its work go on until something holds."""

    def __init__(
        self,
        name: str,
        cluster: MemoryCluster,
        *,
        wall: Clock | None = None,
        settings: AddressSettings | None = None,
        persist_delivery_count: bool = False,
        partitions: int = 1,
        numbers: Mapping[str, object] | None = None,
    ) -> None:
        """`numbers`: other values of the sidecar's configuration."""
        assert isinstance(cluster.clock, ManualClock)
        self.clock = cluster.clock
        self.cluster = cluster
        self.kafka = MemoryKafka(cluster)
        self.journal = MemoryJournal(clock=self.clock)
        self._records_attempts = persist_delivery_count
        self.held: set[str] = set()
        """Names of work that makes no step now."""
        self.workers = SteppedWorkers(self.clock, self._meanwhile)
        config = SidecarConfig(
            session_timeout_ms=5_000,
            address_settings={"#": AddressSettings(partitions=partitions), QUEUE.name: settings or AddressSettings()},
            persist_delivery_count_before_delivery=persist_delivery_count,
        )
        self.sidecar = Sidecar(
            kafka=self.kafka,
            clock=wall or self.clock,
            config=replace(config, **(numbers or {})),  # type: ignore[arg-type]
            stores=Stores(self.journal, MemoryHeldStore(), f"jbm.{name}.0", lambda: None),
            workers=self.workers,
            chance=lambda: 0.5,
        )

    def attach(self, session: str, number: int = 1) -> Link:
        """A receiver of the queue, started; `number`: of the session's."""
        link = link_of(session, records_attempts=self._records_attempts, number=number)
        link.demand.is_waiting = True
        link.group_worker = self.sidecar.sources.attach(QUEUE, link)
        link.is_attached = True
        return link

    @property
    def group_worker(self) -> GroupWorker:
        """That of the queue."""
        group_worker = self.sidecar.sources.group_worker_of(QUEUE)
        assert group_worker is not None
        return group_worker

    def receive(self, link: Link, count: int) -> list[int]:
        """So many messages, into the application's hand: their offsets."""
        return [delivery.offset for delivery in self.deliveries(link, count)]

    def deliveries(self, link: Link, count: int) -> list[Delivery]:
        """So many messages, into the application's hand."""
        link.demand.credit = count
        taken: list[Delivery] = []

        def has_all() -> bool:
            while len(taken) < count and (delivery := link.pop()) is not None:
                taken.append(delivery)
            return len(taken) == count

        self.run(has_all)
        return taken

    def send(
        self,
        *bodies: str,
        unit: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        partition: int = 0,
    ) -> None:
        """Append to a partition of the queue."""
        with self.cluster.changed:
            for body in bodies:
                self.cluster.append(Outgoing(QUEUE.kafka_topic(""), partition, unit, body.encode(), headers), None)

    def run(self, holds: Callable[[], bool]) -> None:
        """Step by step until it holds."""
        for _ in range(TURNS_MAX):
            for worker in self.workers.ready():
                if holds():
                    return
                self._step(worker)
            if holds():
                return
            self.clock.advance(TURN_MS)
        raise AssertionError("it never held")

    def run_for(self, duration_ms: int) -> None:
        """Step by step for so long."""
        end_ms = self.clock.monotonic_ms() + duration_ms
        self.run(lambda: self.clock.monotonic_ms() >= end_ms)

    def crash(self) -> None:
        """End as under SIGKILL."""
        self.kafka.crash()
        self.workers.kill()

    def _meanwhile(self, seconds: float) -> None:
        for worker in self.workers.ready():
            self._step(worker)
        self.clock.advance(max(int(seconds * 1_000), 1))

    def _step(self, worker: SteppedWorker) -> None:
        if worker.is_ready and worker.name not in self.held:
            worker.step()


Start = Callable[..., SteppedSidecar]
"""Of the fixture `start`: makes a process of this name, with these options."""
