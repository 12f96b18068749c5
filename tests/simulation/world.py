"""The simulated installation: brokers, nodes, producers, and what the recorder writes of them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from jbm_kafka.core.channel.checkpoint_id import CommittedOffset
from jbm_kafka.core.channel.companion_group import companion_of
from jbm_kafka.core.channel.offered_target import OfferedLimits
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.memory.memory_kafka import MemoryCluster, ProcessCrashed
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.installation import SidecarConfig
from tests.simulation.lives import MOVED_OF
from tests.simulation.machine import Machine, MachineClock
from tests.simulation.names import (
    AHEAD_HEADER,
    DLQ,
    EXPIRED,
    MOVED,
    OUT,
    REGISTRY,
    changelog_of,
    changelog_of_topic,
    colour_of,
)
from tests.simulation.node import Node
from tests.simulation.paper import ChannelName
from tests.simulation.profile import Profile
from tests.simulation.receiver import Receiver
from tests.simulation.recorder import Recorder
from tests.support.manual_clock import ManualClock

HISTORY_LINES = 400
SENDER_AHEAD_MS = 3_000_000
"""How far the clocks of some are ahead that send with a delay: nearly as much as a broker takes."""
TARGETS = (DLQ, EXPIRED, OUT, MOVED, *MOVED_OF)


@dataclass(slots=True)
class Counts:
    """How much of everything, for reports."""

    crashes: int = 0
    freezes: int = 0
    expiries: int = 0
    commits_unknown: int = 0


class World:
    """Everything there is; `Simulation` decides what happens."""

    def __init__(self, seed: int, profile: Profile, meanwhile: Callable[[Node, float], None]) -> None:
        self._meanwhile = meanwhile
        """Others act while a node pauses in the middle of a step."""
        self.random = random.Random(seed)
        self.profile = profile
        self.clock = ManualClock()
        self.cluster = MemoryCluster(self.clock, waits=False)
        self.cluster.faults.marks_ms = lambda: self.random.choice(profile.marks_ms)
        self.queues: dict[str, int] = dict(profile.queues)
        self.topics: dict[str, int] = dict(profile.topics)
        self.destinations = [*self.queues, *self.topics]
        self.senders: dict[str, str] = {}
        """Who sent each message to a topic: `<client id>/<connection id>`."""
        self.history: deque[str] = deque(maxlen=HISTORY_LINES)
        self.nodes: list[Node] = []
        self.receivers: list[Receiver] = []
        """Those of every node that were not closed."""
        self.counts = Counts()
        self.messages_sent = 0
        self.refusals = 0
        """How many of the next copies and sends are refused."""
        self.is_ending = False
        """Nothing goes wrong any more."""
        self.selects = profile.selects or (profile.machines == 1 and random.Random(f"selectors {seed}").random() < 0.6)
        """Receivers have selectors; in one process, for others must have the same ones (SEL-2)."""
        self.nodes_started = 0
        self.crashes: Callable[[Node], None] = lambda node: None
        """Told of each process that dies."""
        for topic, partitions in {
            **self.queues,
            DLQ: 1,
            EXPIRED: 1,
            OUT: 2,
            **dict.fromkeys([MOVED, *MOVED_OF], 2),
        }.items():
            self.cluster.create_topic(topic, partitions, {})
            compacted = {"cleanup.policy": "compact"}
            self.cluster.create_topic(changelog_of(topic), partitions, compacted)
        for topic, partitions in self.topics.items():
            self.cluster.create_topic(topic, partitions, {"retention.ms": "-1", "retention.bytes": "-1"})
            self.cluster.create_topic(changelog_of_topic(topic), partitions, {"cleanup.policy": "compact"})
        if self.topics:
            self.cluster.create_topic(REGISTRY, 1, {"cleanup.policy": "compact"})
        self.recorder = Recorder(self.cluster, profile, targets=TARGETS, nodes=self.nodes, note=self.note)
        self.machines = [self._machine(number) for number in range(profile.machines)]
        self.config = SidecarConfig(
            session_timeout_ms=2_000,
            checkpoint_interval_ms=profile.checkpoint_interval_ms,
            memory_budget_bytes=profile.memory_budget_bytes,
            address_settings={"#": self._settings()},
            persist_delivery_count_before_delivery=profile.persists_attempts,
            revoke_drain_ms=200,
            leave_drain_ms=200,
            linger_ms=5_000,
            receiver_idle_ms=1_000,
            transaction_timeout_ms=3_000,
            offered_limits=OfferedLimits(*profile.offered_limits),
        )

    def _machine(self, number: int) -> Machine:
        clock = MachineClock(self.clock)
        return Machine(f"m{number}", clock, MemoryJournal(clock=clock), folder=f"m{number}-0")

    def _settings(self) -> AddressSettings:
        profile = self.profile
        return AddressSettings(
            max_delivery_attempts=profile.max_attempts,
            redelivery_delay_ms=profile.redelivery_delay_ms,
            dead_letter_address=DLQ if profile.has_dead_letter_address else None,
            expiry_address=EXPIRED,
            on_dead_letter="hold" if profile.keeps else "continue",
        )

    def note(self, line: str) -> None:
        """One line of history."""
        self.history.append(f"{self.clock.monotonic_ms():>7} ms  {line}")

    # -- what there is ---------------------------------------------------------------------------------------------

    def start_node(self, machine: Machine) -> Node:
        """A new process on a machine."""
        self.nodes_started += 1
        node = Node(
            f"n{self.nodes_started}@{machine.name}",
            machine,
            cluster=self.cluster,
            clock=self.clock,
            config=self.config,
            sources=[Queue(queue) for queue in self.queues],
            chance=self.random,
            meanwhile=self._meanwhile,
        )
        self.nodes.append(node)
        self.note(f"{node.name} starts")
        return node

    def changelog_end(self, channel: ChannelName) -> int:
        """Where the changelog of a channel ends."""
        return self.cluster.log(channel.changelog, channel.partition).end

    def decided_offset(self, channel: ChannelName) -> CommittedOffset | None:
        """What is committed for a channel's group, readers aside."""
        return self.cluster.decided_offset(channel.group, channel.topic, channel.partition)

    def decided_number(self, channel: ChannelName) -> CommittedOffset | None:
        """What stands beside of how many messages of a channel are parked, readers aside."""
        return self.cluster.decided_offset(companion_of(channel.group), channel.topic, channel.partition)

    def send(
        self, queue: str, unit: bytes | None, *, poison: bool = False, expires_in_ms: int = 0, delay_ms: int = 0
    ) -> None:
        """A foreign producer's plain send."""
        message = self.message(queue, unit, poison=poison, expires_in_ms=expires_in_ms, delay_ms=delay_ms)
        with self.cluster.changed:
            self.cluster.append(message, None)

    def message(
        self, queue: str, unit: bytes | None, *, poison: bool = False, expires_in_ms: int = 0, delay_ms: int = 0
    ) -> Outgoing:
        """A message with a name of its own."""
        self.messages_sent += 1
        name = f"{'poison' if poison else 'm'}{self.messages_sent}"
        partitions = self.cluster.partition_count(queue)
        partition = self.random.randrange(partitions) if unit is None else partition_for(unit, partitions)
        headers = [("JMSType", colour_of(self.messages_sent).encode())]
        stamped_ms: int | None = None
        if queue in self.topics:
            sender = self.senders[name] = self.random.choice(self.some_senders())
            headers.append(("JBMSender", sender.encode()))
        if expires_in_ms:
            headers.append(("JMSExpiration", str(self.clock.now_ms() + expires_in_ms).encode()))
        if delay_ms:
            ahead_ms = SENDER_AHEAD_MS if self.messages_sent % 4 == 0 else 0
            stamped_ms = self.clock.now_ms() + ahead_ms
            headers += [("JMSDeliveryTime", b"%d" % (stamped_ms + delay_ms)), (AHEAD_HEADER, b"%d" % ahead_ms)]
        return Outgoing(queue, partition, unit, name.encode(), headers, stamped_ms)

    def some_senders(self) -> list[str]:
        """Who may send to topics."""
        return ["/nobody", "app/c1", "bureau/c1", *(f"/{receiver.name}" for receiver in self.receivers)]

    def receivers_at(self, node: Node) -> list[Receiver]:
        """Those of one node."""
        return [receiver for receiver in self.receivers if receiver.node is node]

    def forget_receivers(self, node: Node) -> None:
        """The node's applications are gone."""
        self.receivers = [receiver for receiver in self.receivers if receiver.node is not node]

    def crash(self, node: Node) -> None:
        """The process dies, and with it whatever is in the middle of a step."""
        node.crash()
        self.crashes(node)
        self.forget_receivers(node)
        self.counts.crashes += 1
        self.note(f"{node.name} crashes")

    def check_alive(self, node: Node) -> None:
        """Raises ProcessCrashed in a frame of a process that died meanwhile."""
        if not node.is_alive:
            raise ProcessCrashed
