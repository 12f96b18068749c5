"""One simulated process with its sidecar."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from jbm_kafka.core.destination import Queue
from jbm_kafka.memory.memory_consumer import MemoryGroupConsumer
from jbm_kafka.memory.memory_held import MemoryHeldStore
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.sidecar.group_worker import GroupWorker
from jbm_kafka.sidecar.owned_channel import OwnedChannel
from jbm_kafka.sidecar.sidecar import Sidecar
from jbm_kafka.sidecar.stores import Stores
from tests.simulation.machine import Machine
from tests.simulation.workers import SteppedWorkers
from tests.support.manual_clock import ManualClock


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

    def group_workers(self) -> Iterator[GroupWorker]:
        """Those that are or were running."""
        for queue in self._queues:
            group_worker = self.sidecar.group_worker_of(Queue(queue))
            if group_worker is not None:
                yield group_worker

    def owns(self, channel: OwnedChannel) -> bool:
        """The group's word: the channel's partition is this node's."""
        if not self.is_alive:
            return False
        group = self.kafka.cluster.group(channel.group)
        for group_worker in self.group_workers():
            if group_worker.data.channels.get(channel.partition) is channel:
                assert isinstance(group_worker.data.consumer, MemoryGroupConsumer)
                member = group_worker.data.consumer.member
                return member is not None and member.member_id in group.members and channel.partition in member.assigned
        return False

    def is_live(self, channel: OwnedChannel) -> bool:
        """The node may still hand over and record."""
        return not channel.is_lost and self.owns(channel)

    def live_channels(self) -> Iterator[OwnedChannel]:
        """Those it may still hand over and record."""
        for group_worker in self.group_workers() if self.is_alive else ():
            yield from (channel for channel in group_worker.data.channels.values() if self.is_live(channel))

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
