"""One simulated process with its sidecar."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from jbm_kafka.core.subscription import Source
from jbm_kafka.memory.memory_consumer import MemoryGroupConsumer
from jbm_kafka.memory.memory_held import MemoryHeldStore
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.registry.process_liveness import HOLDER_PREFIX
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from jbm_kafka.sidecar.runtime import Stores
from jbm_kafka.sidecar.sidecar import Sidecar
from tests.simulation.machine import Machine
from tests.simulation.stepped_kafka import SteppedKafka
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
        sources: Sequence[Source],
        chance: random.Random,
        meanwhile: Callable[[Node, float], None],
    ) -> None:
        self.name = name
        self.machine = machine
        self.clock = machine.clock
        self.kafka = SteppedKafka(cluster, clock)
        self.workers = SteppedWorkers(clock, lambda seconds: meanwhile(self, seconds))
        self.kafka.pause = self.workers.pause
        self.kafka.is_in_call = lambda: self.is_calling and not any(worker.is_in_step for worker in self.workers.all)
        self.is_alive = True
        self.is_frozen = False
        self.is_stopping = False
        self.is_calling = False
        """An application is in a call that holds what other calls need."""
        self.sources = list(sources)
        """What anybody receives from here, or did."""
        stores = Stores(machine.journal, MemoryHeldStore(), f"jbm.{machine.folder}.0", lambda: None)
        self.sidecar = Sidecar(
            kafka=self.kafka,
            clock=machine.clock,
            config=config,
            stores=stores,
            workers=self.workers,
            chance=chance.random,
        )
        self.workers.are_topics_held = self.sidecar.destinations.topics._lock.locked

    def group_workers(self) -> Iterator[GroupWorker]:
        """Those that are or were running."""
        for source in self.sources:
            group_worker = self.sidecar.sources.group_worker_of(source)
            if group_worker is not None:
                yield group_worker

    def owns(self, channel: OwnedChannel) -> bool:
        """The group's word: the channel's partition is this node's."""
        if not self.is_alive:
            return False
        group = self.kafka.cluster.group(channel.changelog.group)
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

    def member_of(self, group: str) -> str | None:
        """By the brokers' word: its member of a group, if it has one."""
        members = self.kafka.cluster.group(group).members
        return next(
            (
                each.member_id
                for each in self.kafka.members
                if each.member_id in members and each.member_id.startswith(f"{group}/")
            ),
            None,
        )

    @property
    def is_thought_dead(self) -> bool:
        """By the brokers' word: what it holds in the registry is free for others. It may not have noticed yet."""
        holders = [each.member_id for each in self.kafka.members if each.member_id.startswith(HOLDER_PREFIX)]
        return bool(holders) and self.member_of(holders[-1].rpartition("/")[0]) is None

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
    def can_call(self) -> bool:
        """An application here can make a call that waits: nobody else is in one, and no step is half done."""
        is_busy = self.is_calling or self.is_stopping or any(worker.is_in_step for worker in self.workers.all)
        return self.can_act and not is_busy

    @contextmanager
    def calling(self) -> Iterator[None]:
        """In a call that may wait; what needs the same locks does nothing meanwhile."""
        self.is_calling = self.workers.is_sweep_held = True
        try:
            yield
        finally:
            self.is_calling = self.workers.is_sweep_held = False

    @property
    def can_act(self) -> bool:
        """It lives and runs."""
        return self.is_alive and not self.is_frozen
