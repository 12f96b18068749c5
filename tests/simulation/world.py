"""The simulated installation: brokers, nodes, producers, and what the recorder writes of them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from jbm_kafka.core.address_settings import AddressSettings
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.entries import Held, Position
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.memory.memory_consumer import MemoryGroupConsumer
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.memory.memory_kafka import MemoryCluster, ProcessCrashed
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.sidecar.owned_channel import OwnedChannel
from tests.simulation import at_hand_over, invariants
from tests.simulation.node import Machine, MachineClock, Node
from tests.simulation.paper import Epoch, Message, Place
from tests.simulation.profile import Profile
from tests.simulation.recorder import Recorder
from tests.support.manual_clock import ManualClock

HISTORY_LINES = 400
DLQ, EXPIRED, OUT = "DLQ", "ExpiryQueue", "out"


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
        self.targets = [DLQ, EXPIRED, OUT]
        self.history: deque[str] = deque(maxlen=HISTORY_LINES)
        self.nodes: list[Node] = []
        self.counts = Counts()
        self.messages_sent = 0
        self.refusals = 0
        """How many of the next copies and sends are refused."""
        self.is_ending = False
        """Nothing goes wrong any more."""
        self.nodes_started = 0
        for topic, partitions in {**self.queues, DLQ: 1, EXPIRED: 1, OUT: 2}.items():
            self.cluster.create_topic(topic, partitions, {})
            compacted = {"cleanup.policy": "compact"}
            self.cluster.create_topic(self.changelog_of(topic), partitions, compacted)
        self.recorder = Recorder(self)
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
            reserve_offsets=profile.reserve_offsets,
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
        )

    # -- names -----------------------------------------------------------------------------------------------------

    def group_of(self, queue: str) -> str:
        """The consumer group of a queue."""
        return Queue(queue).group_id("")

    def changelog_of(self, queue: str) -> str:
        """The changelog topic of a queue."""
        return Queue(queue).changelog_topic("")

    def node(self, name: str) -> Node:
        """The node of this name, dead ones included."""
        return next(node for node in self.nodes if node.name == name)

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
            queues=list(self.queues),
            chance=self.random,
            meanwhile=self._meanwhile,
        )
        self.nodes.append(node)
        self.note(f"{node.name} starts")
        return node

    def send(self, queue: str, unit: bytes | None, *, poison: bool = False, expires_in_ms: int = 0) -> None:
        """A foreign producer's plain send."""
        with self.cluster.changed:
            self.cluster.append(self.message(queue, unit, poison=poison, expires_in_ms=expires_in_ms), None)

    def message(self, queue: str, unit: bytes | None, *, poison: bool = False, expires_in_ms: int = 0) -> Outgoing:
        """A message with a name of its own."""
        self.messages_sent += 1
        name = f"{'poison' if poison else 'm'}{self.messages_sent}"
        partitions = self.cluster.partition_count(queue)
        partition = self.random.randrange(partitions) if unit is None else partition_for(unit, partitions)
        headers = []
        if expires_in_ms:
            headers.append(("JMSExpiration", str(self.clock.now_ms() + expires_in_ms).encode()))
        return Outgoing(queue, partition, unit, name.encode(), headers)

    def owns(self, node: Node, channel: OwnedChannel) -> bool:
        """The group's word: the channel's partition is the node's."""
        if not node.is_alive:
            return False
        group = self.cluster.group(channel.group)
        for lane in node.lanes():
            if lane.data.channels.get(channel.partition) is channel:
                assert isinstance(lane.data.consumer, MemoryGroupConsumer)
                member = lane.data.consumer.member
                return member is not None and member.member_id in group.members and channel.partition in member.assigned
        return False

    def is_live(self, node: Node, channel: OwnedChannel) -> bool:
        """The node may still hand over and record."""
        return not channel.is_lost and self.owns(node, channel)

    def is_removed(self, epoch: Epoch, message: Message) -> bool:
        """Given up without a copy, as far as that may be."""
        if self.profile.has_dead_letter_address or self.profile.max_attempts < 0:
            return False
        known = epoch.attempts_before.get(message.offset, 0) + epoch.counted[message.offset]
        return known >= self.profile.max_attempts

    def crash(self, node: Node) -> None:
        """The process dies, and with it whatever is in the middle of a step."""
        node.crash()
        node.receivers.clear()
        self.counts.crashes += 1
        self.note(f"{node.name} crashes")

    def check_alive(self, node: Node) -> None:
        """Raises ProcessCrashed in a frame of a process that died meanwhile."""
        if not node.is_alive:
            raise ProcessCrashed

    # -- told by the recorder --------------------------------------------------------------------------------------

    def began(self, epoch: Epoch) -> None:
        """An epoch began."""
        invariants.nobody_wrote_after_the_successor_read(self, epoch)

    def wrote(self, place: Place, position: Position, offset: int) -> None:
        """A checkpoint of a channel was committed."""
        self.recorder.paper.written[place].append((offset, position))
        self.note(
            f"{place[0]}[{place[1]}] changelog {offset}: watermark {position.watermark} fetched {position.fetched} "
            f"offered {position.offered} by {position.checkpoint_id}"
        )
        invariants.at_most_one_owner_writes(self, place, position, offset)

    def remembered(self, place: Place, entry: Held) -> None:
        """A changelog remembers a message's attempts."""
        durable = self.recorder.paper.durable_attempts[place]
        epoch = self.recorder.paper.current(place)
        assert epoch is not None, place
        at_hand_over.attempts_only_grow(epoch, entry.offset, durable[entry.offset], entry.attempts)
        at_hand_over.attempts_are_somebodys(epoch, entry.offset, entry.attempts)
        durable[entry.offset] = max(durable[entry.offset], entry.attempts)
